"""The intervals of leases: heartbeats, checks, and the silence after which peers take over."""

from dataclasses import dataclass

from core.units import NANOS_PER_SECOND, Nanos


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The intervals of leases, in nanoseconds.

    Attributes:
        ttl: Lifetime of a lease after a confirmed check.
        margin: Time before the end of `ttl` at which the node stops trusting the lease.
        beat: Time between two heartbeats.
        poll: Time between two rounds of the placement.
        stale: Time without a heartbeat after which other nodes end the session of a lock's holder.
        answer: Longest duration of a check.
        late: Duration of a check after which storage counts as unreachable.
        precedence: Time after an outage in which other nodes leave groups to their former owner.
    """

    ttl: Nanos = Nanos(5 * NANOS_PER_SECOND)
    margin: Nanos = Nanos(NANOS_PER_SECOND)
    beat: Nanos = Nanos(NANOS_PER_SECOND)
    poll: Nanos = Nanos(NANOS_PER_SECOND // 4)
    stale: Nanos = Nanos(4 * NANOS_PER_SECOND)
    answer: Nanos = Nanos(2 * NANOS_PER_SECOND)
    late: Nanos = Nanos(3 * NANOS_PER_SECOND // 2)
    precedence: Nanos = Nanos(3 * NANOS_PER_SECOND)

    def __post_init__(self) -> None:
        assert self.ttl - self.margin <= self.stale, "a holder must stop before others judge it"
        assert self.beat + self.answer < self.ttl - self.margin, "one check may fail"
