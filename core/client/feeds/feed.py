"""What all feeds have in common: a buffer, a credit, batches."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Generic, Self

from core.client.feeds.credit import Credit
from core.client.subscribe.inbox import Inbox, Limits, M


class Feed(ABC, Generic[M]):
    """A source of messages with one reader.

    *Life cycle*: ends with `close` or `async with`, or with what it reads.

    Attributes:
        credit: what was granted, and sent of that.
    """

    def __init__(self, inbox: Inbox[M], credit: Credit | None) -> None:
        self.credit = credit or Credit()
        self._inbox = inbox
        self._most = 1

    def grant(self, messages: int, nbytes: int) -> None:
        """Raise the totals of messages and bytes that may be sent since the feed began."""
        self.credit.grant(messages, nbytes)
        self._inbox.wake()

    async def batch(self, messages: int = 1000, within: float | None = None) -> list[M]:
        """Wait for credit and messages, and return as many as both allow, at most `messages`.

        An empty list says that `within` (seconds) has passed, or that the feed is over. Raises
        alarms in their turn where there is no `on_alarm`, and what ended the feed.
        """
        if messages < 1:
            raise ValueError("a batch of nothing")
        self._most = messages
        batch = await self._inbox.allowed_batch(self._allowed, within)
        self.credit.spend(len(batch), sum([msg.size for msg in batch]))
        return batch

    async def batches(self, messages: int = 1000) -> AsyncIterator[list[M]]:
        """Iterate over batches until the feed is over."""
        while batch := await self.batch(messages):
            yield batch

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come and everything was taken."""
        return self._inbox.is_over

    def _allowed(self) -> Limits:
        left = self.credit.left
        return Limits(min(left.messages, self._most), left.nbytes)

    @abstractmethod
    async def close(self) -> None:
        """End the feed, give back what was not taken, and delete what was made for it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
