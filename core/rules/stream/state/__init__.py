"""The parts of the committed state of a stream: subjects, ids, expiry, sizes."""
