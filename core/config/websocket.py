"""The block `websocket` as the address and the options of a listener."""

from dataclasses import dataclass
from typing import Any

from core.config.durations import duration
from core.errors import ConfigError
from core.protocol.upgrade import WebSocketOptions

_REFUSED = (
    "tls",
    "authorization",
    "authentication",
    "no_auth_user",
    "jwt_cookie",
    "user_cookie",
    "pass_cookie",
    "token_cookie",
)
_DEFAULT_HOST = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class WebSocketDoor:
    """Where NATS is served over WebSocket, and how. Port 0 means any free one."""

    host: str
    port: int
    options: WebSocketOptions


def websocket_of(block: dict[str, Any] | None) -> WebSocketDoor | None:
    """The listener that a block asks for; None without one.

    Raises:
        ConfigError: it cannot be served.
    """
    if block is None:
        return None
    host, port = _address(block)
    if not port:
        return None
    for name in _REFUSED:
        if block.get(name):
            raise ConfigError("websocket", f"{name} is not served")
    if block.get("no_tls") is not True:
        raise ConfigError("websocket", "websocket requires TLS configuration, or no_tls: true")
    origins = next(
        (
            block[n]
            for n in ("allowed_origins", "allowed_origin", "allow_origins", "allow_origin")
            if n in block
        ),
        (),
    )
    headers = block.get("headers") or {}
    if not isinstance(headers, dict) or not isinstance(origins, str | list | tuple):
        raise ConfigError("websocket", "expected headers to be a map, origins to be an array")
    options = WebSocketOptions(
        compression=bool(block.get("compression", block.get("compress", False))),
        same_origin=bool(block.get("same_origin", False)),
        allowed_origins=(origins,) if isinstance(origins, str) else tuple(origins),
        headers={str(name): str(value) for name, value in headers.items()},
        handshake_timeout=_seconds(block.get("handshake_timeout", 2)),
    )
    return WebSocketDoor(host, max(port, 0), options)


def _address(block: dict[str, Any]) -> tuple[str, int]:
    host = str(block.get("host", block.get("net", _DEFAULT_HOST)))
    listen = block.get("listen", block.get("port", 0))
    if isinstance(listen, str):
        before, _, listen = listen.rpartition(":")
        host = before.strip("[]") or host
    try:
        return host, int(listen)
    except (TypeError, ValueError):
        raise ConfigError("websocket", f"could not parse port {listen!r}") from None


def _seconds(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) else duration(str(value))
    except ValueError as error:
        raise ConfigError("websocket", str(error)) from None
