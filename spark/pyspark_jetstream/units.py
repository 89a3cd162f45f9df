"""The number of nanoseconds of a second."""

from typing import Final

NANOS_PER_SECOND: Final = 1_000_000_000
"""JetStream's times and durations are integers in nanoseconds; those of callers are seconds."""
