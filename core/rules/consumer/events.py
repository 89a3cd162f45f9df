"""The events of a consumer's state machine, which its owner publishes as advisories."""

from typing import NamedTuple

from core.units import ConsumerSeq


class GivenUp(NamedTuple):
    """The event of a message that was delivered `max_deliver` times and not acknowledged."""

    sseq: int
    deliveries: int


class Removed(NamedTuple):
    """The event of a message that was removed from the stream while its ack was pending."""

    cseq: ConsumerSeq
    sseq: int
    deliveries: int


class Pinned(NamedTuple):
    """The event of a client that was pinned to a priority group; `pin` is its pin id."""

    group: str
    pin: str


class Unpinned(NamedTuple):
    """The event of a client that is no longer pinned to a group.

    `reason` is `admin` (a request to unpin) or `timeout` (the client sent no pull requests).
    """

    group: str
    reason: str


Event = GivenUp | Removed | Pinned | Unpinned
