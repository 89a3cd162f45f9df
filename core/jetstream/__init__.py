"""The shell around the machines: what gathers, commits, emits and reads."""
