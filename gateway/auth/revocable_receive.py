"""End of an HTTP request when its caller loses its rights: it looks like a disconnect."""

import asyncio

from starlette.types import Message, Receive

from core.runtime.tasks import spawn, stop
from gateway.auth.caller import Caller
from gateway.auth.revocation import RevocationReason


class RevocableReceive:
    """The ASGI `receive` of a request, which also ends the request if its caller loses its rights.

    It returns `http.disconnect` when the client disconnects or the rights are revoked
    (`gateway.auth.revocation`). Streaming responses wait for this message after the body, and end
    with it.
    """

    def __init__(self, receive: Receive, caller: Caller) -> None:
        self._receive = receive
        self._caller = caller
        self._has_body = False

    async def __call__(self) -> Message:
        """Return the next ASGI message; `http.disconnect` if the caller has lost its rights."""
        if self._caller.revocation_reason is not None:
            return {"type": "http.disconnect"}
        if self._has_body:
            return await self._wait()
        message = await self._receive()
        self._has_body = not message.get("more_body", False)
        return message

    async def _wait(self) -> Message:
        """Wait until the client disconnects or the caller loses its rights."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(_: RevocationReason) -> None:
            if not ended.done():
                ended.set_result(None)

        unregister = self._caller.on_revoked(end)
        left = spawn(self._until_disconnect(), name="disconnect watch")
        try:
            await asyncio.wait((left, ended), return_when=asyncio.FIRST_COMPLETED)
            return {"type": "http.disconnect"}
        finally:
            unregister()
            await stop(left)

    async def _until_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
