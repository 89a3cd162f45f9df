"""The log: a state machine without I/O and without a clock."""
