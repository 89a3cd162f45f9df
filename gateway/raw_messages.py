"""A message as an HTTP response: its payload is the body, all else are headers."""

from typing import NamedTuple

from core.client import header_items
from core.model.gotime import format_time
from gateway.headers import response_headers

INERT = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
}
"""A payload is data: never a page, a script or a frame of this origin."""


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
