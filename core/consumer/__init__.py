"""Consumers: what to deliver, what is pending, what is acknowledged. No I/O, no clock."""
