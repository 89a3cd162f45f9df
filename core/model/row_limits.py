"""What one row of the log may hold."""

MAX_SUBJECT = 65535
"""Bytes of a subject.

nats-server acknowledges longer ones, and its files keep their length modulo 65536.
"""
LARGEST_RECORD = 32 << 20
"""Bytes that one row of the log may have."""
