"""The HTTP port: uvicorn in the event loop of the process, started and stopped by it.

The port is open as long as the process lives. Until there is an application, `HttpStart` has it.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from core.runtime.descriptors import DescriptorReserve
from core.runtime.memory import Ebb
from core.runtime.tasks import spawn
from gateway.http_protocol import HttpProtocol
from gateway.http_start import HttpStart
from gateway.settings import Settings
from gateway.websocket_protocol import UVICORN_OPTIONS, WebSocketProtocol

_DRAIN_S = 0.5
_POLL_S = 0.002
_DATE_S = 1.0
_DEFAULTS = Settings()


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers and sockets: the process has them.

    It also ends when it is told to, where uvicorn looks ten times a second.
    """

    def __init__(self, config: uvicorn.Config, when_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._when_started = when_started
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Have `serve` return when the requests under way are answered."""
        self.should_exit = True
        self._ending.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Be ready for connections, and tell."""
        await super().startup(sockets)
        self._when_started()

    async def main_loop(self) -> None:
        """Keep the date of responses until the end, and no memory of callers who have gone."""
        ebb = Ebb()
        while not await self.on_tick(0):
            ebb.look(len(self.server_state.connections))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_S):
                    await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let every connection end with the request that it has, if it has one."""
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        while (state.connections or state.tasks) and not self.force_exit:  # noqa: ASYNC110 (no event)
            await asyncio.sleep(_POLL_S)


class HttpServer:
    """Serves HTTP on the socket of a start, and what its connections have asked, once `use` says
    what is to answer.
    """

    def __init__(
        self,
        start: HttpStart,
        settings: Settings = _DEFAULTS,
        descriptors: DescriptorReserve | None = None,
    ) -> None:
        self.port = start.port
        self._descriptors = descriptors or DescriptorReserve()
        self._settings = settings
        self._start = start
        self._app: ASGIApp
        self._server = _Server(
            uvicorn.Config(
                self._dispatch,
                interface="asgi3",
                http=cast(type[asyncio.Protocol], HttpProtocol),  # buffered, which is as good
                ws=WebSocketProtocol,
                lifespan="off",
                access_log=False,
                log_config=None,
                # Below are the queries of handshakes, with credentials, and a line for each request
                # that is none: anybody could fill the log.
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
        """Let this application answer from now on."""
        self._app = app
        if self._task is None:
            self._task = spawn(self._server.serve(sockets=[]), name="http")

    def _take_over(self) -> None:
        self._start.hand_over(self._protocol)

    def _protocol(self) -> HttpProtocol:
        server = self._server
        protocol = HttpProtocol(server.config, server.server_state, {})
        protocol.use_limits(self._settings, self._descriptors)
        return protocol

    async def stop(self) -> None:
        """Accept nothing new, give requests half a second, close.

        Long polls that still wait, and callers that do not read, are disconnected then: messages
        that they did not get are given back while the server can still take them.
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
