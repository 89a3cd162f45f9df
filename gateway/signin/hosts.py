"""By which names this server may be asked: the rule against DNS rebinding.

A page may have its own name lead to another machine once it is loaded, such as the one of whoever
looks at it; a browser then takes the server there for the origin of the page, and lets it read
everything. `Host` still has the page's name. An address in it is allowed: nobody asked DNS for it.
"""

import re
from collections.abc import Awaitable, Iterable
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.problems import Problem, respond

LOCAL = "localhost"
ANY = "*"
_HOST = re.compile(
    r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*)\.?(?::[0-9]{1,5})?"
)
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_KEPT = 1024


class Hosts:
    """ASGI middleware: refuses who asks for a server of another name."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = frozenset(names)
        self._allowed: set[bytes] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Look at Host, for which a trusted proxy may have spoken."""
        for name, value in scope["headers"]:
            if name == b"host" and value not in self._allowed and not self._allows(value):
                return _refuse(value, scope, receive, send)
        return self._app(scope, receive, send)

    def _allows(self, value: bytes) -> bool:
        if not is_allowed(value.decode("latin-1"), self._names):
            return False
        if len(self._allowed) < _KEPT:
            self._allowed.add(value)
        return True


def is_allowed(host: str, names: frozenset[str]) -> bool:
    """Whether a Host is an address, a name of this machine for itself, or one of these names."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].lower()
    if name == LOCAL or name.endswith("." + LOCAL) or name in names:
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def checked_host(text: str) -> str:
    """Return a name in lower case. Raises ValueError for anything else, but for `*`."""
    name = text.lower().removesuffix(".")
    if text != ANY and not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is no name: expected api.example, without a port, or *")
    return name


async def _refuse(host: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    shown = host.decode("latin-1")[:200]
    detail = f"Host: {shown!r} is no name of this server (--http-host)"
    problem = Problem(421, "wrong-host", detail, headers={"Connection": "close"})
    if scope["type"] == "websocket":
        await receive()  # websocket.connect
    await respond(problem, scope["path"])(scope, receive, send)
