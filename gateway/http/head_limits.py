"""Limits for the request target and headers of requests and WebSocket handshakes."""

from gateway.http.problems import Problem
from gateway.settings import Settings

LIST_ELEMENTS_MAX = 64
"""Maximum number of elements in all list headers of a WebSocket handshake.

The library that parses them takes one or two microseconds for each; a head could have 16,000.
"""
_CLOSE = {"Connection": "close"}
_LISTS = frozenset(
    (b"connection", b"sec-websocket-extensions", b"sec-websocket-protocol", b"upgrade")
)

Headers = list[tuple[bytes, bytes]]


def check_head(settings: Settings, target_bytes: int, headers: Headers, version: str) -> None:
    """Check the sizes of a request's target and headers, and that it has one Host.

    Args:
        settings: The limits.
        target_bytes: Bytes of path and query.
        headers: Names in lower case, and values.
        version: `1.0` or `1.1`.

    Raises:
        Problem: 414 for a long target; 431 for too many or too large headers; 400 for several Host
            headers, or none in HTTP/1.1.
    """
    if target_bytes > settings.target_bytes_max:
        detail = f"path and query: more than {settings.target_bytes_max} bytes"
        raise Problem(414, "target-too-long", detail, headers=_CLOSE)
    size = hosts = 0
    for name, value in headers:
        size += len(name) + len(value)
        hosts += name == b"host"
    if len(headers) > settings.header_count_max or size > settings.header_bytes_max:
        limits = f"{settings.header_count_max}, {settings.header_bytes_max} bytes"
        raise Problem(431, "headers-too-large", f"headers: more than {limits}", headers=_CLOSE)
    if hosts != 1 and (hosts or version == "1.1"):
        # With several Host headers, a proxy and this server could read different ones (RFC 9112,
        # 3.2).
        raise Problem(
            400, "bad-host", f"headers: {hosts} Host headers, expected one", headers=_CLOSE
        )


def check_lists(headers: Headers) -> None:
    """Raise Problem 431 if the list headers of a handshake have more than 64 elements."""
    count = sum(1 + value.count(b",") for name, value in headers if name in _LISTS)
    if count > LIST_ELEMENTS_MAX:
        detail = f"a handshake: more than {LIST_ELEMENTS_MAX} elements of lists"
        raise Problem(431, "headers-too-large", detail, headers=_CLOSE)
