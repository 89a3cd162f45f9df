"""Refusal of requests whose header Host is no name of this server (`core.protocol.hosts`)."""

from collections.abc import Awaitable, Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from core.protocol.hosts import is_allowed
from gateway.http.problems import Problem, respond

_CACHED_HOSTS_MAX = 1024


class Hosts:
    """ASGI middleware: responds 421 if the header Host is none of the given names."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(names)
        self._allowed: set[bytes] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Pass on a request if its Host is allowed, else respond 421 (a WebSocket is refused).

        A trusted proxy may have set Host (`gateway.auth.forwarding`).
        """
        for name, value in scope["headers"]:
            if name == b"host" and value not in self._allowed and not self._allows(value):
                return _refuse(value, scope, receive, send)
        return self._app(scope, receive, send)

    def _allows(self, value: bytes) -> bool:
        if not is_allowed(value.decode("latin-1"), self._names):
            return False
        if len(self._allowed) < _CACHED_HOSTS_MAX:
            self._allowed.add(value)
        return True


async def _refuse(host: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    shown = host.decode("latin-1")[:200]
    detail = f"Host: {shown!r} is no name of this server (--http-host)"
    problem = Problem(421, "wrong-host", detail, headers={"Connection": "close"})
    if scope["type"] == "websocket":
        await receive()  # websocket.connect
    await respond(problem, scope["path"])(scope, receive, send)
