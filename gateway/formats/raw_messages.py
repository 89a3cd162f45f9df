"""A message as an HTTP response: its payload is the body, its headers are response headers.

`INERT` are security headers for every response that contains bytes of publishers, in any form:
message, value, object, JSON, lines, events.
"""

from typing import NamedTuple

from starlette.responses import Response

from core.client import header_items
from core.model.gotime import format_time
from gateway.formats.message_headers import response_headers

INERT = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Vary": "Accept, Authorization, Cookie",
}
"""Headers that keep a browser from running a payload as a page, script or frame of this origin.

`Vary` separates users: the next user of the same browser must not get cached responses.
"""
INERT_LINES = [(name.lower().encode(), value.encode()) for name, value in INERT.items()]
"""`INERT` as raw ASGI headers."""


def not_modified(headers: dict[str, str]) -> Response:
    """Return a 304 for a response with these headers; it repeats only those of RFC 9110 15.4.5."""
    kept = {name: headers[name] for name in ("ETag", "Cache-Control", "Vary")}
    return Response(None, 304, headers=kept)


class Origin(NamedTuple):
    """Stream, subject, sequence and time (nanoseconds since the Unix epoch) of a stored message."""

    stream: str
    subject: bytes
    seq: int
    time: int


def shown_headers(origin: Origin, headers: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Return the HTTP headers for a stored message, and the Content-Type of the response."""
    own = [
        (b"Nats-Stream", origin.stream.encode()),
        (b"Nats-Subject", origin.subject),
        (b"Nats-Sequence", b"%d" % origin.seq),
        (b"Nats-Time-Stamp", format_time(origin.time).encode()),
    ]
    taken = {key.lower() for key, _ in own}
    stored = [item for item in header_items(headers) if item[0].lower() not in taken]
    return response_headers(own + stored)
