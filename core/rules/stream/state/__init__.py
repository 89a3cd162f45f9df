"""The parts of the committed state of a stream: subjects, message ids, expiry, sizes."""
