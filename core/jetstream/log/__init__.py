"""Read access to the messages of a stream: memory, storage and removals."""
