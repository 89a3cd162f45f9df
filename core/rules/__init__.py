"""The rules of streams and consumers as functions and state machines without I/O or a clock.

Callers pass the time and all data that a rule needs; `core.jetstream` does the I/O.
"""
