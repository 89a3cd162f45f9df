"""A message as an HTTP response: its payload is the body, all else are headers.

`INERT` are the headers of every answer that has bytes which somebody has stored or sent, whatever
its form: message, value, object, JSON, lines, events.
"""

from typing import NamedTuple

from starlette.responses import Response

from core.client import header_items
from core.model.gotime import format_time
from gateway.headers import response_headers

INERT = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Vary": "Accept, Authorization, Cookie",
}
"""A payload is data: never a page, a script or a frame of this origin. And it is for who asked: who
signs in next in the same browser is somebody else."""
INERT_LINES = [(name.lower().encode(), value.encode()) for name, value in INERT.items()]
"""The same as lines that are sent."""


def not_modified(headers: dict[str, str]) -> Response:
    """A 304 for an answer with these headers: it repeats those of RFC 9110 15.4.5 alone."""
    kept = {name: headers[name] for name in ("ETag", "Cache-Control", "Vary")}
    return Response(None, 304, headers=kept)


class Origin(NamedTuple):
    """Where a message is stored; `time` in nanoseconds since the epoch."""

    stream: str
    subject: bytes
    seq: int
    time: int


def shown_headers(origin: Origin, headers: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The HTTP headers that show a stored message, and the content type to answer with."""
    own = [
        (b"Nats-Stream", origin.stream.encode()),
        (b"Nats-Subject", origin.subject),
        (b"Nats-Sequence", b"%d" % origin.seq),
        (b"Nats-Time-Stamp", format_time(origin.time).encode()),
    ]
    taken = {key.lower() for key, _ in own}
    stored = [item for item in header_items(headers) if item[0].lower() not in taken]
    return response_headers(own + stored)
