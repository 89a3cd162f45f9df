"""The parts of a stream's leader: publishes, changes of the log, expiry, retention."""
