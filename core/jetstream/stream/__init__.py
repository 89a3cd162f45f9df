"""The leader of a stream: publishes, changes of the log, retention."""
