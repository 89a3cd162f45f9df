"""The number of nanoseconds in a second."""

from typing import Final

NANOS_PER_SECOND: Final = 1_000_000_000
"""JetStream's times and durations are integers in nanoseconds; the SDK's are in seconds."""
