"""The base class of requests whose replies arrive on their own inbox subject."""

import asyncio

from core.client.client import Client, Subscription, Watch
from core.client.errors import NotPermitted
from core.client.msg import Msg


class InboxCollector:
    """Collects the messages that arrive on an inbox subject of its own.

    Subclasses send the request. Call `release` at the end: it ends the subscription, and the server
    then sends no more replies.

    Args:
        client: The connection.
        asked: The subject of the request that the messages answer.

    Attributes:
        messages: The messages received and not popped yet.
        ended: True if no more messages can arrive.
        interrupted: True after `interrupt`: `changed` then returns at once.
    """

    def __init__(self, client: Client, asked: bytes) -> None:
        self.messages: list[Msg] = []
        self.ended = False
        self.interrupted = False
        self._client = client
        self._change: asyncio.Future[None] | None = None
        self._inbox = client.new_inbox()
        self._asked = asked
        watch = Watch(self._on_end, asked=asked, on_asking_denied=self._on_denied)
        self._sub: Subscription = client.subscribe(self._inbox, self._on_batch, watch=watch)
        self._is_denied = False

    async def changed(self, within: float) -> bool:
        """Wait for messages or the end of the request; return False after `within` seconds.

        Raises NotPermitted if the server refuses the request.
        """
        if self.ended or self.interrupted:
            return True
        self._raise_denied()
        self._change = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within):
                await self._change
        except TimeoutError:
            return False
        finally:
            self._change = None
        self._raise_denied()
        return True

    def interrupt(self) -> None:
        """Make `changed` return now and from now on. The request stays open until `release`."""
        self.interrupted = True
        self._wake()

    def pop_messages(self) -> list[Msg]:
        """Remove and return the messages that arrived since the last call."""
        messages, self.messages = self.messages, []
        return messages

    async def release(self) -> None:
        """End the subscription. Messages sent before are in `messages` when this returns."""
        if self.ended:
            self._sub.unsubscribe()
        else:
            await self._client.drain_subscription(self._sub)

    def _on_batch(self, batch: list[Msg]) -> None:
        self.messages += batch
        self._wake()

    def _on_end(self) -> None:
        self.ended = True
        self._wake()

    def _on_denied(self) -> None:
        self._is_denied = True
        self._wake()

    def _raise_denied(self) -> None:
        if self._is_denied:
            raise NotPermitted(self._asked)

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
