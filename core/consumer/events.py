"""The events of the consumer machine, from which its owner makes advisories."""

from typing import NamedTuple


class GivenUp(NamedTuple):
    """A message was delivered `max_deliver` times and not acknowledged."""

    sseq: int
    deliveries: int


class Removed(NamedTuple):
    """A message was removed from the stream while its acknowledgement was pending."""

    cseq: int
    sseq: int
    deliveries: int


class Pinned(NamedTuple):
    """A client was pinned; `pin` is the new pin id."""

    group: str
    pin: str


class Unpinned(NamedTuple):
    """The pinned client of a group was unpinned; `reason` is `admin` or `timeout`."""

    group: str
    reason: str


Event = GivenUp | Removed | Pinned | Unpinned
