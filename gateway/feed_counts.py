"""How many feeds and sockets are open, and what feeds have sent, for the metrics."""

from dataclasses import dataclass

KINDS = ("ordered", "durable", "core", "tail", "watch", "advisories")
"""The first three over WebSocket, the others over HTTP."""


@dataclass(slots=True)
class FeedCount:
    """Feeds of one kind: how many are open; messages that were sent, and dropped."""

    open: int = 0
    sent: int = 0
    dropped: int = 0


class FeedCounts:
    """All kinds of feeds.

    Attributes:
        sockets: WebSocket connections that are open.
        kinds: the counts by kind.
    """

    def __init__(self) -> None:
        self.sockets = 0
        self.kinds = {kind: FeedCount() for kind in KINDS}
