"""The log of a stream: a state machine without I/O and without a clock."""
