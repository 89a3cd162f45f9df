"""The leader of a stream and its parts: publishes, purges and deletes, expiry, retention."""
