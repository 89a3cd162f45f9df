"""One pull request from sending to its end."""

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
    """What one pull brought. `status` 0: filled, or given up; else why it ended."""

    messages: list[Msg] = field(default_factory=list)
    status: int = 0
    text: str = ""


class Pull:
    """A pull request under way.

    It has a subscription of its own, so that ending it withdraws the interest and the server
    forgets the request.
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
        """Wait until messages arrived or the request ended; False when the time is up."""
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
        """Wake whoever waits for a change; the request itself goes on until `release`."""
        self.interrupted = True
        self._wake()

    def take(self) -> list[Msg]:
        """The messages that arrived since the last call."""
        messages, self.messages = self.messages, []
        return messages

    def result(self) -> Fetched:
        """What came, and how it ended."""
        return Fetched(self.take(), self.status, self.text)

    async def release(self) -> None:
        """Withdraw the request; messages that were under way are in `messages` afterwards."""
        if self.ended:
            self._sub.unsubscribe()
        else:
            await self._client.retire(self._sub)

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
