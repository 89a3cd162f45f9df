"""End of a long request when its caller loses its rights, as if the client disconnected."""

import asyncio

from starlette.types import Message, Receive

from core.runtime.tasks import spawn, stop
from gateway.auth.caller import Caller
from gateway.auth.revocation import Ending


class Cut:
    """The `receive` of a request whose caller may sign out, expire or be revoked.

    All long responses wait for `http.disconnect` after the body, and end with it.
    """

    def __init__(self, receive: Receive, caller: Caller) -> None:
        self._receive = receive
        self._caller = caller
        self._has_body = False

    async def __call__(self) -> Message:
        """Return the next ASGI message."""
        if self._caller.ended is not None:
            return {"type": "http.disconnect"}
        if self._has_body:
            return await self._wait()
        message = await self._receive()
        self._has_body = not message.get("more_body", False)
        return message

    async def _wait(self) -> Message:
        """Wait until the client disconnects or the caller loses its rights."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(_: Ending) -> None:
            if not ended.done():
                ended.set_result(None)

        take_back = self._caller.on_end(end)
        left = spawn(self._until_gone(), name="disconnect watch")
        try:
            await asyncio.wait((left, ended), return_when=asyncio.FIRST_COMPLETED)
            return {"type": "http.disconnect"}
        finally:
            take_back()
            await stop(left)

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
