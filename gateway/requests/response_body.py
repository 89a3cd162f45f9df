"""Sending of a response body in chunks, with an error once the client has disconnected.

uvicorn silently drops output for a disconnected client. But messages that were fetched for it must
be returned to their consumer, so the code that sends them needs the error.
"""

import asyncio
from collections.abc import Callable
from typing import Self

from starlette.types import Send

from core.runtime.tasks import spawn, stop
from gateway.http.disconnects import Disconnected
from gateway.requests.call import Call


class ResponseBody:
    """Sends the chunks of a response body while the client is connected; a context manager.

    `on_disconnect` is called when the client disconnects.
    """

    def __init__(
        self, call: Call, send: Send, on_disconnect: Callable[[], None] | None = None
    ) -> None:
        self._call = call
        self._send = send
        self._on_disconnect = on_disconnect
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watch = spawn(self._until_disconnect(), name="disconnect watch")
        return self

    async def __aexit__(self, *error: object) -> None:
        await stop(self._watch)

    async def send(self, body: bytes) -> None:
        """Send a chunk; an empty one only waits until earlier chunks are written to the socket
        buffer.

        Raises Disconnected if the client has disconnected.
        """
        # Check before the write, because a client that has received all messages may disconnect at
        # once; check again after it, because uvicorn may have waited for a slow client.
        await asyncio.sleep(0)
        self._check()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        self._check()

    @property
    def is_disconnected(self) -> bool:
        """True if the client has disconnected."""
        return self._watch is not None and self._watch.done()

    def _check(self) -> None:
        if self.is_disconnected:
            raise Disconnected

    async def _until_disconnect(self) -> None:
        while (await self._call.receive())["type"] != "http.disconnect":
            pass
        if self._on_disconnect is not None:
            self._on_disconnect()
