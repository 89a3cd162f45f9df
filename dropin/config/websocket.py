"""Conversion of the block `websocket` to the WebSocket listener and its users."""

from dataclasses import dataclass, replace
from typing import Any

from core.auth.users import AUTH_TIMEOUT, User, Users
from core.errors import ConfigError, Contradiction
from core.protocol.upgrade import WebSocketOptions, is_origin
from core.units import Seconds
from dropin.config.authorization import NO_SUCH_NO_AUTH_USER, users_of
from dropin.config.durations import duration
from dropin.config.options import Options

_AUTHORIZATION = ("authorization", "authentication")
_CREDENTIALS = ("user", "username", "pass", "password", "token", "timeout")
_COOKIES = ("user_cookie", "pass_cookie", "token_cookie")
_DEFAULT_HOST = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class WebSocketListener:
    """Address and options of the WebSocket listener.

    Attributes:
        host: Address to listen on.
        port: Port; 0 stands for any free port.
        options: Compression, origins, headers, cookies and timeouts.
        advertise: `host:port` that clients of other servers see instead; "" for the listening one.
    """

    host: str
    port: int
    options: WebSocketOptions
    advertise: str = ""


def websocket_of(block: dict[str, Any] | None) -> WebSocketListener | None:
    """Return the WebSocket listener that the block `websocket` configures.

    Returns None without a block or without a port.

    Raises:
        Contradiction: nats-server would refuse the block at the start.
        ConfigError: The block is invalid, or uses features that are not served.
    """
    if block is None:
        return None
    host, port = _address(block)
    if not port:
        return None
    if block.get("tls"):
        raise ConfigError("websocket", "tls is not served")
    if cookie := block.get("jwt_cookie"):
        raise ConfigError(
            "websocket",
            "trusted operators or trusted keys configuration is required for JWT authentication"
            f' via cookie "{cookie}"',
        )
    for name in _COOKIES:
        if not isinstance(block.get(name, ""), str):
            raise ConfigError("websocket", f"expected {name} to be text, got {block[name]!r}")
    if block.get("no_tls") is not True:
        raise Contradiction("websocket requires TLS configuration")
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
    for origin in (origins,) if isinstance(origins, str) else origins:
        if not is_origin(origin):
            raise Contradiction(f"unable to parse allowed origin{_why_not(str(origin))}")
    options = WebSocketOptions(
        compression=bool(block.get("compression", block.get("compress", False))),
        same_origin=bool(block.get("same_origin", False)),
        allowed_origins=(origins,) if isinstance(origins, str) else tuple(origins),
        headers={str(name): str(value) for name, value in headers.items()},
        handshake_timeout=_seconds(block.get("handshake_timeout", 2)),
        ping_interval=_seconds(block.get("ping_interval", 0)),
        **{name: block.get(name, "") for name in _COOKIES},
    )
    return WebSocketListener(host, max(port, 0), options, str(block.get("advertise") or ""))


def _why_not(origin: str) -> str:
    if ":" not in origin:
        return f': parse "{origin}": invalid URI for request'
    return f' "{origin}": allowed origins must be absolute URLs with http or https scheme'


def websocket_users(options: Options) -> Users | None:
    """Return the users of the block `websocket`; None if they are the users of the server.

    Raises:
        Contradiction: The block contradicts the users of the server.
        ConfigError: The block is invalid.
    """
    block = options.websocket
    if block is None or websocket_of(block) is None:
        return None
    own = _authorization(block)
    everywhere = users_of(options.authorization, options.no_auth_user)
    listed = (options.authorization or {}).get("users")
    no_auth_user = str(block.get("no_auth_user") or "")
    name, token = str(own.get("user", own.get("username")) or ""), str(own.get("token") or "")
    for kind, value in (("username", name), ("token", token)):
        if value and listed:
            reason = f"authentication {kind} not compatible with presence of users/nkeys"
            raise Contradiction(f"websocket {reason}")
    if no_auth_user and not listed:
        raise Contradiction(
            f'no_auth_user: "{no_auth_user}" present, but users/nkeys are not defined'
        )
    if no_auth_user and everywhere is not None and everywhere.named(no_auth_user) is None:
        raise Contradiction(NO_SUCH_NO_AUTH_USER.format(no_auth_user))
    timeout = _seconds(own["timeout"]) if "timeout" in own else Seconds(0.0)
    plain = everywhere.timeout if everywhere is not None else AUTH_TIMEOUT
    if token:
        return Users(token=token, timeout=timeout or plain)
    if name:
        password = str(own.get("pass", own.get("password")) or "")
        return Users(users=(User(name, password),), timeout=timeout or plain)
    if everywhere is None or not (no_auth_user or timeout):
        return None
    return replace(
        everywhere,
        no_auth_user=no_auth_user or everywhere.no_auth_user,
        timeout=timeout or plain,
    )


def _authorization(block: dict[str, Any]) -> dict[str, Any]:
    own: Any = next((block[name] for name in _AUTHORIZATION if name in block), {})
    if not isinstance(own, dict):
        raise ConfigError("websocket", f"expected authorization to be a map, got {own!r}")
    fields = {key.lower(): value for key, value in own.items()}
    for key in fields:
        if key not in _CREDENTIALS:
            raise ConfigError("websocket", f'unknown field "{key}"')
    return fields


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


def _seconds(value: Any) -> Seconds:
    try:
        return Seconds(float(value)) if isinstance(value, int | float) else duration(str(value))
    except ValueError as error:
        raise ConfigError("websocket", str(error)) from None
