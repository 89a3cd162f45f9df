"""The opening handshake of a WebSocket (RFC 6455, section 4), without I/O.

This module checks the HTTP request and builds the response. The checks, their order and their
statuses are those of nats-server. Any path is accepted, except `/mqtt` and `/leafnode`, which
nats-server uses for other protocols.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from http import HTTPStatus
from ipaddress import ip_address
from urllib.parse import urlsplit

from core.errors import ConfigError
from core.protocol.cookies import CookieCredentials, cookies
from core.units import Seconds

HEAD_MAX = 64 * 1024
HEADERS_MAX = 256
ELEMENTS_MAX = 256
"""Largest number of elements in one list in the headers."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_REQUEST = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\S+) HTTP/(\d)\.(\d)")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DEFLATE = "permessage-deflate"
_UNSERVED_PATHS = ("/mqtt", "/leafnode")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketOptions:
    """The settings of NATS over WebSocket, with nats-server's meanings.

    Attributes:
        compression: Compress for clients that offer permessage-deflate.
        same_origin: Refuse browsers whose Origin is not the address they connect to.
        allowed_origins: If not empty, refuse browsers whose Origin is none of these.
        headers: Additional headers of the 101 response.
        handshake_timeout: Time that a client has for its request, in seconds.
        user_cookie, pass_cookie, token_cookie: Names of cookies that contain credentials; empty:
            none.
        ping_interval: Seconds between two PINGs; 0: as for other clients.

    Raises:
        ConfigError: An origin or a header is invalid.
    """

    compression: bool = False
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    handshake_timeout: Seconds = Seconds(2.0)
    user_cookie: str = ""
    pass_cookie: str = ""
    token_cookie: str = ""
    ping_interval: Seconds = Seconds(0.0)

    def __post_init__(self) -> None:
        for origin in self.allowed_origins:
            if _origin(origin) is None:
                raise ConfigError("allowed_origins", f"{origin!r} is no http(s) address")
        for name, value in self.headers.items():
            if not _NAME.fullmatch(name) or "\r" in value or "\n" in value:
                raise ConfigError("headers", f"{name!r} is no header")


@dataclass(frozen=True, slots=True)
class AcceptedUpgrade:
    """The result of a successful WebSocket handshake.

    Attributes:
        answer: The complete HTTP response.
        compressed: Whether permessage-deflate is negotiated.
        masked: Whether the client masks its frames.
        client_ip: The address in X-Forwarded-For ("": none).
        browser: Whether the client is a browser, which gets small frames.
        safari: Whether the client is Safari, for which a compressed message must be one frame.
        credentials: The credentials in its cookies; None if no cookie is configured.
    """

    answer: bytes
    compressed: bool
    masked: bool
    client_ip: str
    browser: bool
    safari: bool
    credentials: CookieCredentials | None


class RefusedUpgrade(Exception):
    """Error: the handshake is refused; `answer` is the complete HTTP response."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(status, reason)
        self.status = status
        self.reason = reason
        phrase = HTTPStatus(status).phrase
        self.answer = (
            f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Sec-Websocket-Version: 13\r\nX-Content-Type-Options: nosniff\r\n"
            f"Connection: close\r\nContent-Length: {len(phrase) + 1}\r\n\r\n{phrase}\n"
        ).encode()


class _Headers:
    """The headers of an HTTP request. Names are case-insensitive; equal names keep their order."""

    def __init__(self, lines: list[str]) -> None:
        self._values: dict[str, list[str]] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not _NAME.fullmatch(name):
                raise RefusedUpgrade(400, "malformed header")
            self._values.setdefault(name.lower(), []).append(value.strip(" \t"))

    def first(self, name: str) -> str:
        return next(iter(self._values.get(name, ())), "")

    def tokens(self, name: str) -> list[str]:
        """Return the elements of a comma-separated list in one or more headers, in lower case.

        Raises RefusedUpgrade if there are too many.
        """
        text = ",".join(self._values.get(name, ()))
        if text.count(",") >= ELEMENTS_MAX:
            raise RefusedUpgrade(431, "too many elements in a header")
        parts = text.split(",")
        return [part.strip(" \t").lower() for part in parts]

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])


def upgrade(head: bytes, options: WebSocketOptions) -> AcceptedUpgrade:
    """Check the HTTP request of a handshake; `head` ends with its empty line.

    Raises RefusedUpgrade with the HTTP response if the request is invalid or its Origin is not
    allowed.
    """
    if head.count(b"\r\n") > HEADERS_MAX + 2:
        raise RefusedUpgrade(431, "too many headers")
    lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    request = _REQUEST.fullmatch(lines[0])
    if request is None:
        raise RefusedUpgrade(400, "malformed request")
    method, target, major, minor = request.groups()
    if major != "1":
        raise RefusedUpgrade(505, "unsupported protocol version")
    headers = _Headers(lines[1:])
    host = headers.first("host")
    if not host and minor != "0":
        raise RefusedUpgrade(400, "'Host' missing in request")
    if target.partition("?")[0].endswith(_UNSERVED_PATHS):
        raise RefusedUpgrade(404, "not served here")
    if method != "GET":
        raise RefusedUpgrade(405, "request method must be GET")
    if not host:
        raise RefusedUpgrade(400, "'Host' missing in request")
    key = _checked_key(headers)
    _check_origin(headers, host, options)
    compressed = options.compression and any(
        _DEFLATE in (part.strip(" \t") for part in extension.split(";"))
        for extension in headers.tokens("sec-websocket-extensions")
    )
    masked = headers.first("nats-no-masking") != "true"
    agent = headers.first("user-agent")
    return AcceptedUpgrade(
        _answer(key, compressed, masked, options),
        compressed,
        masked,
        _forwarded(headers.first("x-forwarded-for")),
        browser=agent.startswith("Mozilla/"),
        safari="Version/" in agent and "Safari/" in agent,
        credentials=_credentials(headers, options),
    )


def _checked_key(headers: _Headers) -> str:
    if "websocket" not in headers.tokens("upgrade"):
        raise RefusedUpgrade(400, "invalid value for header 'Upgrade'")
    if "upgrade" not in headers.tokens("connection"):
        raise RefusedUpgrade(400, "invalid value for header 'Connection'")
    key = headers.first("sec-websocket-key")
    try:
        decoded = b64decode(key, validate=True)
    except ValueError:
        decoded = b""
    if len(decoded) != 16:
        raise RefusedUpgrade(400, "invalid websocket key")
    if "13" not in headers.tokens("sec-websocket-version"):
        raise RefusedUpgrade(400, "invalid version")
    return key


def _check_origin(headers: _Headers, host: str, options: WebSocketOptions) -> None:
    if not options.same_origin and not options.allowed_origins:
        return
    origin = headers.first("origin") or headers.first("sec-websocket-origin")
    if not origin:
        return  # not from a web page
    given = _origin(origin)
    if given is None or (options.same_origin and given != _origin(f"http://{host}")):
        raise RefusedUpgrade(403, "origin not allowed: not same origin")
    if options.allowed_origins and given not in map(_origin, options.allowed_origins):
        raise RefusedUpgrade(403, "origin not allowed: not in the allowed list")


def is_origin(text: str) -> bool:
    """Return whether a text is an http or https address, as `allowed_origins` requires."""
    return _origin(text) is not None


def _origin(text: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an http(s) address (None: it is not one)."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)


def _credentials(headers: _Headers, options: WebSocketOptions) -> CookieCredentials | None:
    names = (options.user_cookie, options.pass_cookie, options.token_cookie)
    if not any(names):
        return None
    found = cookies(headers.all("cookie"))
    return CookieCredentials(*(found.get(name, "") if name else "" for name in names))


def _forwarded(value: str) -> str:
    try:
        ip_address(value)
    except ValueError:
        return ""
    return value


def _answer(key: str, compressed: bool, masked: bool, options: WebSocketOptions) -> bytes:
    accept = b64encode(sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept}",
    ]
    if compressed:
        takeover = "server_no_context_takeover; client_no_context_takeover"
        lines.append(f"Sec-WebSocket-Extensions: {_DEFLATE}; {takeover}")
    if not masked:
        lines.append("Nats-No-Masking: true")
    lines += [f"{name}: {value}" for name, value in options.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
