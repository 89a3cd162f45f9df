"""An answer on its way to its caller, and whether there still is one.

The HTTP server takes what is sent to a caller who is gone, and says nothing. Who hands over what
the caller would have to give back looks himself.
"""

import asyncio
from typing import Self

from starlette.types import Send

from core.runtime.tasks import spawn, stop
from gateway.call import Call, Disconnected


class Handover:
    """Sends a body piece by piece, as long as somebody takes it. A context manager."""

    def __init__(self, call: Call, send: Send) -> None:
        self._call = call
        self._send = send
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watch = spawn(self._until_gone(), name="handover watch")
        return self

    async def __aexit__(self, *error: object) -> None:
        await stop(self._watch)

    async def piece(self, body: bytes) -> None:
        """Send a piece; an empty one only waits until those before it are on their way.

        Raises Disconnected.
        """
        # A look before: for who has everything may go at once. And one after: for the server may
        # have waited for its caller.
        await asyncio.sleep(0)
        self._look()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        self._look()

    def _look(self) -> None:
        if self._watch is not None and self._watch.done():
            raise Disconnected

    async def _until_gone(self) -> None:
        while (await self._call.receive())["type"] != "http.disconnect":
            pass
