"""The events of the consumer machine, from which its owner makes advisories."""

from typing import NamedTuple

from core.units import ConsumerSeq


class GivenUp(NamedTuple):
    """The event of a message that was delivered `max_deliver` times and not acknowledged."""

    sseq: int
    deliveries: int


class Removed(NamedTuple):
    """The event of a message that left the stream while its acknowledgement was pending."""

    cseq: ConsumerSeq
    sseq: int
    deliveries: int


class Pinned(NamedTuple):
    """The event of a newly pinned client; `pin` is its pin id."""

    group: str
    pin: str


class Unpinned(NamedTuple):
    """The event of an unpinned client of a group; `reason` is `admin` or `timeout`."""

    group: str
    reason: str


Event = GivenUp | Removed | Pinned | Unpinned
