"""Waiting for what gathers on an inbox, for a caller that may go away meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.client import Msg
from core.client.gathering import Gathering
from core.runtime.tasks import spawn, stop
from gateway.call import Call, Disconnected


@asynccontextmanager
async def watched(call: Call, gathering: Gathering) -> AsyncIterator[None]:
    """Interrupt a gathering when the caller disconnects, and release it in the end."""
    watch = spawn(_watch(call, gathering), name="disconnect watch")
    try:
        yield
    finally:
        await stop(watch)
        await gathering.release()


async def arrived(gathering: Gathering, within: float) -> list[Msg] | None:
    """What arrives next; None when it has ended, or nothing came for so many seconds.

    Something that is no message, such as a heartbeat, is an empty list. Raises Disconnected.
    """
    if not gathering.messages and (gathering.ended or not await gathering.changed(within)):
        return None
    if gathering.interrupted:
        raise Disconnected
    some = gathering.take()
    return some if some or not gathering.ended else None


async def arriving(
    gathering: Gathering, seconds: float, stall: float | None = None
) -> AsyncIterator[list[Msg]]:
    """What arrives, until it ends, or for so many seconds in all.

    `stall`: how long it may be silent in seconds. Raises Disconnected.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        within = max(deadline - loop.time(), 0.0)
        some = await arrived(gathering, within if stall is None else min(within, stall))
        if some is None:
            return
        yield some


async def _watch(call: Call, gathering: Gathering) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
    gathering.interrupt()
