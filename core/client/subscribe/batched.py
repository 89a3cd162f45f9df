"""The common base of subscriptions whose messages wait in a buffer of the client."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Self

from core.client.subscribe.acks import JsMsg


class Batched(ABC):
    """A subscription that is read in batches. *Life cycle*: `unsubscribe` or `async with`."""

    @abstractmethod
    async def batch(
        self, messages: int = 1000, nbytes: int = 1 << 20, within: float | None = None
    ) -> list[JsMsg]:
        """Wait for messages and return the buffered ones, at most `messages`.

        One message may exceed `nbytes`. An empty list means that `within` (seconds) has passed, or
        that the subscription is over.
        """

    async def batches(
        self, messages: int = 1000, nbytes: int = 1 << 20
    ) -> AsyncIterator[list[JsMsg]]:
        """Iterate over batches until the subscription is over."""
        while batch := await self.batch(messages, nbytes):
            yield batch

    async def __aiter__(self) -> AsyncIterator[JsMsg]:
        async for batch in self.batches():
            for msg in batch:
                yield msg

    @abstractmethod
    async def unsubscribe(self) -> None:
        """End at once.

        Raises ApiError or ClientError if deleting the consumer failed.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.unsubscribe()
