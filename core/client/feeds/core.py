"""A feed of what is published meanwhile, without a stream (core NATS)."""

from core.client.client import Client
from core.client.errors import ConnectionLost
from core.client.feeds.credit import Credit
from core.client.feeds.feed import Feed
from core.client.msg import Msg
from core.client.subscribe.inbox import Inbox, Limits

CORE_LIMITS = Limits(1024, 1024 * 1024)


class CoreFeed(Feed[Msg]):
    """A subscription with credit; made by `core_feed`.

    Attributes:
        dropped: how many messages were dropped since the feed began, because neither credit nor
            room was left for them.
    """

    def __init__(
        self, client: Client, subject: str, queue: str, limits: Limits, credit: Credit | None
    ) -> None:
        self.dropped = 0
        super().__init__(Inbox(limits), credit)
        self._sub = client.subscribe(subject.encode(), self._on_batch, queue=queue.encode())
        self._sub.on_end = self._on_client_closed

    def _on_batch(self, batch: list[Msg]) -> None:
        inbox = self._inbox
        if inbox.ended:
            return
        for msg in batch:
            if inbox.is_full:
                self.dropped += 1
            else:
                inbox.put(msg)
        inbox.wake()

    def _on_client_closed(self) -> None:
        self._inbox.end(ConnectionLost())

    async def close(self) -> None:
        self._inbox.end(drop=True)
        self._sub.unsubscribe()


def core_feed(
    client: Client,
    subject: str,
    *,
    queue: str = "",
    limits: Limits = CORE_LIMITS,
    credit: Credit | None = None,
) -> CoreFeed:
    """Begin a feed of a subject, which has to be valid. Raises ConnectionLost."""
    return CoreFeed(client, subject, queue, limits, credit)
