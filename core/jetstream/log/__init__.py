"""The log of a stream as its readers see it."""
