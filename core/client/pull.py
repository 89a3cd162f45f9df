"""A pull request of the client."""

import asyncio
from dataclasses import dataclass, field

from core.client.client import Client
from core.client.msg import Msg, status_of
from core.model.codec import encode
from core.model.consumer import NextRequest

_IDLE_HEARTBEAT = 100
NO_RESPONDERS = 503


@dataclass(slots=True)
class Fetched:
    """The messages of one pull request.

    `status`, `text`: the status that ended it; 0 if it got all its messages or was released.
    """

    messages: list[Msg] = field(default_factory=list)
    status: int = 0
    text: str = ""


class Pull:
    """A pull request that waits for messages.

    It has a subscription of its own: ending that makes the server drop the request.
    """

    def __init__(self, client: Client, verb: str, request: NextRequest) -> None:
        self.messages: list[Msg] = []
        self.status = 0
        self.text = ""
        self.ended = False
        self.interrupted = False
        self._client = client
        self._wanted = request.batch or 1
        self._change: asyncio.Future[None] | None = None
        subject = b"$JS.API." + verb.encode()
        client.check(subject)
        inbox = client.new_inbox()
        self._sub = client.subscribe(inbox, self._on_batch)
        self._sub.on_end = self._on_end
        body = encode(request)
        client.publish(subject, body, reply=inbox)

    async def changed(self, within: float) -> bool:
        """Wait until messages have arrived or the request has ended; False on timeout (seconds)."""
        if self.ended or self.interrupted:
            return True
        self._change = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within):
                await self._change
        except TimeoutError:
            return False
        finally:
            self._change = None
        return True

    def interrupt(self) -> None:
        """Make `changed` return; the request itself goes on until `release`."""
        self.interrupted = True
        self._wake()

    def take(self) -> list[Msg]:
        """Return the messages that arrived since the last call."""
        messages, self.messages = self.messages, []
        return messages

    def result(self) -> Fetched:
        """Return the messages and how the request ended."""
        return Fetched(self.take(), self.status, self.text)

    async def release(self) -> None:
        """End the request; messages that were under way are in `messages` afterwards."""
        if self.ended:
            self._sub.unsubscribe()
        else:
            await self._client.drain_subscription(self._sub)

    def _on_batch(self, batch: list[Msg]) -> None:
        for msg in batch:
            if msg.headers and not msg.payload and not msg.reply:
                code, text = status_of(msg.headers)
                if code == _IDLE_HEARTBEAT:
                    continue
                if code:
                    self.ended, self.status, self.text = True, code, text
                    continue
            self.messages.append(msg)
            self._wanted -= 1
        if self._wanted <= 0:
            self.ended = True
        self._wake()

    def _on_end(self) -> None:
        if not self.ended:
            self.ended, self.status = True, NO_RESPONDERS
            self._wake()

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
