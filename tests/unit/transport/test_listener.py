"""Connections that are closed while they are being accepted."""

# Subject: protocol

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from core.pubsub.server import Hub
from core.runtime.loop import new_loop
from core.runtime.loop_tick import LoopTick
from core.transport.listener import Listener
from core.transport.session import ClientSession
from core.transport.websocket import WebSocketConnection
from tests.support.sessions import ManualClock

Start = Callable[[Listener], Awaitable[tuple[str, int]]]


class Closing(set[ClientSession | WebSocketConnection]):
    """The open connections of a listener, all closed before another one gets its socket."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener

    def add(self, connection: ClientSession | WebSocketConnection) -> None:
        super().add(connection)
        # The loop has that socket handed over behind this, once the connection is made.
        asyncio.get_running_loop().call_soon(self._listener.close_clients, "Stale Connection")


async def over_tcp(listener: Listener) -> tuple[str, int]:
    return await listener.start("127.0.0.1", 0)


async def over_websocket(listener: Listener) -> tuple[str, int]:
    return await listener.start_websocket("127.0.0.1", 0)


@pytest.mark.parametrize("start", [over_tcp, over_websocket])
def test_a_connection_that_is_just_accepted_is_closed_too(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        listener = Listener(Hub(LoopTick(), ManualClock(), jetstream=False))
        monkeypatch.setattr(listener, "_open", Closing(listener))
        address = await start(listener)
        try:
            reader, writer = await asyncio.open_connection(*address)
            async with asyncio.timeout(10):
                await reader.read()  # to its end
            writer.close()
        finally:
            await listener.stop()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
