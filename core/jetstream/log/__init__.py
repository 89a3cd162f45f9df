"""Read access to the messages of a stream, in memory and in storage, without removed messages."""
