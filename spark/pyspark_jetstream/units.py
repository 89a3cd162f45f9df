"""The number of nanoseconds of one second."""

from typing import Final

NANOS_PER_SECOND: Final = 1_000_000_000
"""Nanoseconds of one second. JetStream's times are nanoseconds; those of the options are
seconds.
"""
