"""What the consumer machine notices and others may want to hear; whoever owns it tells them."""

from typing import NamedTuple


class GivenUp(NamedTuple):
    """A message was delivered as often as allowed and not acknowledged."""

    sseq: int
    deliveries: int


class Removed(NamedTuple):
    """A message left the stream while it was pending; the consumer is done with it."""

    cseq: int
    sseq: int
    deliveries: int


class Pinned(NamedTuple):
    """A client got the group for itself."""

    group: str
    pin: str


class Unpinned(NamedTuple):
    """The group belongs to nobody any more; `reason` is `admin` or `timeout`."""

    group: str
    reason: str


Event = GivenUp | Removed | Pinned | Unpinned
