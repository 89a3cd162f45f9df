"""Types of units and of numbers that must not be mixed, and the number of nanoseconds of a second.

Times and durations of the server are integers in nanoseconds; those of settings, options and timers
of asyncio are seconds. A type checker refuses one for the other; at run time both are numbers.
"""

from typing import Final, NewType

NANOS_PER_SECOND: Final = 1_000_000_000
"""Factor between `Nanos` and `Seconds`."""

Nanos = NewType("Nanos", int)
"""A time (since 1970, UTC, or of a monotonic clock) or a duration in nanoseconds."""

Seconds = NewType("Seconds", float)
"""A duration in seconds."""

Seq = NewType("Seq", int)
"""Sequence of a message in its stream, from 1."""

ConsumerSeq = NewType("ConsumerSeq", int)
"""Sequence of a delivery of a consumer, from 1: each redelivery has its own."""

Epoch = NewType("Epoch", int)
"""Number of a leadership in the head row of a stream; a writer with a lower one is fenced."""

LeaseGroup = NewType("LeaseGroup", int)
"""Number of a lease group: the streams in it have the same leader."""
