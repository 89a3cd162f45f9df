"""A NATS server without JetStream and PostgreSQL, in a thread of the test process."""

import asyncio
import threading
from collections.abc import Callable
from typing import Self, TypeVar

import uvloop

from core.auth.users import Users
from core.protocol.upgrade import WebSocketOptions
from core.pubsub.limits import Limits
from core.pubsub.server import Hub
from core.runtime.clock import SystemClock
from core.runtime.loop_tick import LoopTick
from core.transport.listener import Listener

T = TypeVar("T")


class CoreServer:
    """The publish/subscribe core (`core.pubsub`) and its listeners on free ports of 127.0.0.1.

    The event loop runs in a thread; `call` runs a function in it.

    Attributes:
        address: Host and port for NATS clients.
        websocket: Host and port for WebSocket clients.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        uv: bool = True,
        users: Users | None = None,
        websocket: WebSocketOptions | None = None,
    ) -> None:
        self._websocket_options = websocket
        self._limits = limits
        self._users = users
        self._new_loop = uvloop.new_event_loop if uv else asyncio.new_event_loop
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.address = ("127.0.0.1", 0)
        self.websocket = ("127.0.0.1", 0)
        self.hub: Hub
        self.loop: asyncio.AbstractEventLoop

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        self.hub = Hub(LoopTick(), SystemClock(), limits=self._limits, users=self._users)
        listener = Listener(self.hub)
        self.address = await listener.start("127.0.0.1", 0)
        self.websocket = await listener.start_websocket("127.0.0.1", 0, self._websocket_options)
        self._ready.set()
        await self._done.wait()
        await listener.stop()

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the server's event loop and return its result, within 60 seconds."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60), "the server did not start"
        return self

    def stop(self) -> None:
        """Stop serving; a second call does nothing."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._done.set)
            self._thread.join(60)

    def __exit__(self, *_: object) -> None:
        self.stop()
