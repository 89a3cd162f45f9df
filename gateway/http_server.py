"""The HTTP port: uvicorn in the event loop of the process, started and stopped by it.

The port is open as long as the process lives; what answers on it changes: a standby answers 503,
a leader serves the façade. While it is not known yet which of them this is, requests wait for it,
except the one that asks just that.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from core.runtime.tasks import spawn
from gateway.http_protocol import HttpProtocol
from gateway.problems import Problem, respond

_DRAIN_S = 0.5
_START_S = 30.0
_ABOUT_THE_START = "/readyz"


class _Server(uvicorn.Server):
    """uvicorn without its own signal handlers: the process decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class HttpServer:
    """Serves HTTP on a listening socket."""

    def __init__(self, listening: socket.socket) -> None:
        self.port = int(listening.getsockname()[1])
        self._listening = listening
        self._app: ASGIApp = starting
        self._is_chosen = asyncio.Event()
        self._server = _Server(
            uvicorn.Config(
                self._dispatch,
                interface="asgi3",
                http=HttpProtocol,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
            )
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve from now on."""
        self._task = spawn(self._server.serve(sockets=[self._listening]), name="http")

    def use(self, app: ASGIApp) -> None:
        """Let another application answer from now on."""
        self._app = app
        self._is_chosen.set()

    async def stop(self) -> None:
        """Accept nothing new, give requests half a second, close.

        Long polls that still wait, and callers that do not read, are disconnected then: messages
        that they did not get are given back while the server can still take them.
        """
        if self._task is None:
            self._listening.close()
            return
        self._server.should_exit = True
        done, _ = await asyncio.wait([self._task], timeout=_DRAIN_S)
        if not done:
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()
            done, _ = await asyncio.wait([self._task], timeout=_DRAIN_S)
        if not done:
            self._server.force_exit = True
            await asyncio.wait([self._task], timeout=_DRAIN_S)
        self._task = None

    async def _dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is starting and scope.get("path") != _ABOUT_THE_START:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_START_S):
                    await self._is_chosen.wait()
        await self._app(scope, receive, send)


async def starting(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with 503: what is to answer is not there yet."""
    problem = Problem(503, "starting", "this node is starting", headers={"Retry-After": "1"})
    await respond(problem, scope.get("path", ""))(scope, receive, send)


async def standby(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer every request with 503: another node leads, or nobody does yet."""
    problem = Problem(
        503, "standby", "this node stands by until it leads", headers={"Retry-After": "1"}
    )
    await respond(problem, scope.get("path", ""))(scope, receive, send)
