"""Counts of open feeds and sockets, and of their messages, for the metrics."""

from dataclasses import dataclass

KINDS = ("ordered", "durable", "core", "tail", "watch", "advisories")
"""Kinds of feeds: the first three over WebSocket, the others over HTTP."""


@dataclass(slots=True)
class FeedCount:
    """Feeds of one kind: number of open ones; totals of sent and dropped messages."""

    open: int = 0
    sent: int = 0
    dropped: int = 0


class FeedCounts:
    """All kinds of feeds.

    Attributes:
        sockets: Number of open WebSocket connections.
        kinds: The counts by kind.
    """

    def __init__(self) -> None:
        self.sockets = 0
        self.kinds = {kind: FeedCount() for kind in KINDS}
