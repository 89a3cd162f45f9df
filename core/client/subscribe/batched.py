"""The base class of subscriptions whose messages are buffered in the client until they are read."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Self

from core.client.subscribe.acks import JsMsg


class Batched(ABC):
    """A subscription that is read in batches; ended by `unsubscribe` or `async with`."""

    @abstractmethod
    async def batch(
        self, messages: int = 1000, nbytes: int = 1 << 20, within: float | None = None
    ) -> list[JsMsg]:
        """Wait for messages and return the buffered ones, at most `messages`.

        The batch ends with the message that reaches or exceeds `nbytes`. `within` is the timeout in
        seconds; None: no timeout. An empty list means that the timeout is over, or the subscription
        has ended.
        """

    async def batches(
        self, messages: int = 1000, nbytes: int = 1 << 20
    ) -> AsyncIterator[list[JsMsg]]:
        """Iterate over batches of messages until the subscription has ended."""
        while batch := await self.batch(messages, nbytes):
            yield batch

    async def __aiter__(self) -> AsyncIterator[JsMsg]:
        async for batch in self.batches():
            for msg in batch:
                yield msg

    @abstractmethod
    async def unsubscribe(self) -> None:
        """End the subscription at once.

        Raises ApiError or ClientError if its consumer could not be deleted.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.unsubscribe()
