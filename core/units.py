"""Types for units and for numbers that must not be mixed, such as nanoseconds and seconds.

Times and durations inside the server are integers in nanoseconds. Settings, options and timers of
asyncio use seconds. The type checker refuses one for the other; at run time both are numbers.

A value gets its type at its source: a clock, a row of storage, a decoded acknowledgement, a
setting. Sums of typed values are plain `int`. They stay plain where a conversion would be one more
call for each message: deadlines, the lines of deliveries, and sequences of a stream other than
those in acknowledgements. `ConsumerSeq` alone already makes a swapped pair of sequences an error.
"""

from typing import Final, NewType

NANOS_PER_SECOND: Final = 1_000_000_000
"""Nanoseconds in one second."""

Nanos = NewType("Nanos", int)
"""A duration in nanoseconds, or a time: nanoseconds since 1970 UTC, or of a monotonic clock."""

Seconds = NewType("Seconds", float)
"""A duration in seconds."""

Seq = NewType("Seq", int)
"""Sequence of a message in its stream, from 1."""

ConsumerSeq = NewType("ConsumerSeq", int)
"""Sequence of a delivery of a consumer, from 1; each redelivery has its own."""

Epoch = NewType("Epoch", int)
"""Number of a stream's leadership, in the stream's head row; a lower epoch cannot write."""

LeaseGroup = NewType("LeaseGroup", int)
"""Number of a lease group: a set of streams with the same leader."""
