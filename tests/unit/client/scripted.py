"""A server's end of a link that does what a test says."""

import asyncio
from collections.abc import Callable

from core.client import Link
from core.client.link import Closed, Receive

INFO = b'INFO {"server_id":"X","max_payload":1024,"headers":true} \r\n'


class ScriptedLink:
    """Keeps what the client wrote; `answer` is called with each write."""

    def __init__(self, receive: Receive, closed: Closed, answer: Callable[[bytes], bytes]) -> None:
        self.paused = False
        self.written: list[bytes] = []
        self.receive = receive
        self.closed = closed
        self.is_closed = False
        self._answer = answer
        asyncio.get_running_loop().call_soon(receive, INFO)

    def write(self, data: bytes) -> None:
        self.written.append(data)
        if answer := self._answer(data):
            asyncio.get_running_loop().call_soon(self.receive, answer)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.closed, None)

    abort = close

    def pause_reading(self) -> None:
        """Nothing is sent unasked here."""

    resume_reading = pause_reading


class ScriptedServer:
    """Accepts every connection; answers PING if it shall, and what `script` answers."""

    def __init__(
        self, script: Callable[[bytes], bytes] = lambda data: b"", *, answers_pings: bool = True
    ) -> None:
        self.answers_pings = answers_pings
        self.links: list[ScriptedLink] = []
        self.script = script
        self.refusals = 0

    async def connector(self, receive: Receive, closed: Closed) -> Link:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionRefusedError
        link = ScriptedLink(receive, closed, self._answer)
        self.links.append(link)
        return link

    def _answer(self, data: bytes) -> bytes:
        pongs = b"PONG\r\n" * data.count(b"PING\r\n") if self.answers_pings else b""
        return pongs + self.script(data)

    @property
    def link(self) -> ScriptedLink:
        return self.links[-1]

    @property
    def written(self) -> bytes:
        return b"".join(self.link.written)


def run(coroutine: object) -> None:
    """Run one test's coroutine."""
    assert asyncio.iscoroutine(coroutine)
    asyncio.run(coroutine)
