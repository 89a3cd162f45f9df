"""The limits of one row of the message table."""

MAX_SUBJECT = 65535
"""Largest number of bytes of a subject.

nats-server acknowledges longer subjects, and its files keep their length modulo 65536.
"""
LARGEST_RECORD = 32 << 20
"""Largest number of bytes of one row of the log."""
