"""Counts of open feeds and WebSockets, and of the messages that feeds send, for the metrics."""

from dataclasses import dataclass

KINDS = ("ordered", "durable", "core", "tail", "watch", "advisories")
"""Kinds of feeds (streams of messages to a client): the first three use WebSocket, then HTTP."""


@dataclass(slots=True)
class FeedCount:
    """Counts for feeds of one kind: open feeds now; messages sent and dropped since the start."""

    open: int = 0
    sent: int = 0
    dropped: int = 0


class FeedCounts:
    """Counts for all kinds of feeds.

    Attributes:
        sockets: Number of open WebSocket connections.
        kinds: The counts of each kind in `KINDS`.
    """

    def __init__(self) -> None:
        self.sockets = 0
        self.kinds = {kind: FeedCount() for kind in KINDS}
