"""Waiting for replies on an inbox until the HTTP client disconnects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.client import Msg
from core.client.gathering import InboxCollector
from core.runtime.tasks import spawn, stop
from gateway.http.disconnects import Disconnected
from gateway.requests.call import Call


@asynccontextmanager
async def interrupted_on_disconnect(call: Call, gathering: InboxCollector) -> AsyncIterator[None]:
    """Interrupt an inbox if the client disconnects during the block; unsubscribe it at the end."""
    watch = spawn(_watch(call, gathering), name="disconnect watch")
    try:
        yield
    finally:
        await stop(watch)
        await gathering.release()


async def next_messages(gathering: InboxCollector, within: float) -> list[Msg] | None:
    """Return the next messages of an inbox.

    None if the inbox ended or nothing arrived for `within` seconds. An empty list stands for a
    status without a message, such as a heartbeat. Raises Disconnected if the client has
    disconnected.
    """
    if not gathering.messages and (gathering.ended or not await gathering.changed(within)):
        return None
    if gathering.interrupted:
        raise Disconnected
    some = gathering.pop_messages()
    return some if some or not gathering.ended else None


async def message_batches(
    gathering: InboxCollector, seconds: float, stall: float | None = None
) -> AsyncIterator[list[Msg]]:
    """Yield the messages of an inbox as they arrive, for at most `seconds` seconds.

    Ends earlier if the inbox ends or nothing arrives for `stall` seconds (None: no such limit).
    Raises Disconnected if the client disconnects.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        within = max(deadline - loop.time(), 0.0)
        some = await next_messages(gathering, within if stall is None else min(within, stall))
        if some is None:
            return
        yield some


async def _watch(call: Call, gathering: InboxCollector) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
    gathering.interrupt()
