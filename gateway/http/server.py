"""The HTTP server: uvicorn in the event loop of this process.

The port is open as long as the process runs. `StartupServer` owns the listening socket;
`HttpServer` serves its connections once there is an application.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

from starlette.types import ASGIApp, Receive, Scope, Send

from core.runtime.clock import SystemClock
from core.runtime.descriptors import DescriptorReserve
from core.runtime.memory import MemoryTrimmer
from core.runtime.tasks import spawn
from core.units import NANOS_PER_SECOND
from gateway.http.protocol import HttpProtocol
from gateway.http.startup import StartupServer
from gateway.http.uvicorn_parts import Config, Server
from gateway.http.websocket_protocol import UVICORN_OPTIONS, WebSocketProtocol
from gateway.settings import Settings

_DRAIN_S = 0.5
_POLL_S = 0.002
_DATE_S = 1.001
_DEFAULTS = Settings()


class _Server(Server):
    """uvicorn without its own signal handlers and sockets, which this process has.

    It also stops at once, while uvicorn polls ten times a second.
    """

    def __init__(self, config: Config, when_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._when_started = when_started
        self._clock = SystemClock()
        self._stopping = asyncio.Event()

    def end(self) -> None:
        """Make `serve` return after the current requests have their responses."""
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Prepare for connections, and call `when_started`."""
        await super().startup(sockets)
        self._when_started()

    async def main_loop(self) -> None:
        """Update the header Date each second until the end, and free the memory of closed
        connections.
        """
        trimmer = MemoryTrimmer()
        while not await self.on_tick(0):
            trimmer.record(len(self.server_state.connections))
            with contextlib.suppress(TimeoutError):
                # Just after the next full second: no Last-Modified is later than the Date.
                async with asyncio.timeout(
                    _DATE_S - self._clock.now() % NANOS_PER_SECOND / NANOS_PER_SECOND
                ):
                    await self._stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections, each after its current request."""
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        while (state.connections or state.tasks) and not self.force_exit:  # noqa: ASYNC110 (no event)
            await asyncio.sleep(_POLL_S)


class HttpServer:
    """Serves HTTP on the socket of a `StartupServer`, after `use` has set the application.

    Requests that wait in the `StartupServer` are served first.
    """

    def __init__(
        self,
        start: StartupServer,
        settings: Settings = _DEFAULTS,
        descriptors: DescriptorReserve | None = None,
    ) -> None:
        self.port = start.port
        self._descriptors = descriptors or DescriptorReserve()
        self._settings = settings
        self._start = start
        self._app: ASGIApp
        self._server = _Server(
            Config(
                self._dispatch,
                interface="asgi3",
                http=cast(type[asyncio.Protocol], HttpProtocol),  # a BufferedProtocol works as well
                ws=WebSocketProtocol,
                lifespan="off",
                access_log=False,
                log_config=None,
                # Lower levels log the query of handshakes, which contains credentials, and a line
                # for each malformed request, by which any client could fill the log.
                log_level="error",
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=settings.keep_alive_seconds,
                **UVICORN_OPTIONS,
            ),
            self._take_over,
        )
        self._task: asyncio.Task[None] | None = None

    def use(self, app: ASGIApp) -> None:
        """Set the application, and start to serve."""
        self._app = app
        if self._task is None:
            self._task = spawn(self._server.serve(sockets=[]), name="http")

    def _take_over(self) -> None:
        self._start.transfer_to(self._protocol)

    def _protocol(self) -> HttpProtocol:
        server = self._server
        protocol = HttpProtocol(server.config, server.server_state, {})
        protocol.use_limits(self._settings, self._descriptors)
        return protocol

    async def stop(self) -> None:
        """Close the port, wait half a second for current requests, then close all connections.

        Long polls and slow clients are disconnected then. Their undelivered messages return to the
        consumer while the NATS server still runs.
        """
        self._start.stop()
        if self._task is None:
            return
        self._server.end()
        done, _ = await asyncio.wait([self._task], timeout=_DRAIN_S)
        if not done:
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()
            done, _ = await asyncio.wait([self._task], timeout=_DRAIN_S)
        if not done:
            self._server.force_exit = True
            await asyncio.wait([self._task], timeout=_DRAIN_S)
        self._task = None

    def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self._app(scope, receive, send)
