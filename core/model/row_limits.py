"""The size limits of one row of the message table."""

MAX_SUBJECT = 65535
"""Largest size of a subject, in bytes.

nats-server acknowledges longer subjects, but its files store their length modulo 65536.
"""
LARGEST_RECORD = 32 << 20
"""Largest size of one row of the message table, in bytes."""
