"""The short way through a request of uvicorn's: a body that is there, an answer in one write.

ASGI has a message for each, and another for the head of an answer; that costs more than what they
carry. Where something stands in between, such as CORS, which adds headers to a message, messages
are what is sent; so is everything that these functions leave alone.
"""

from starlette.types import Receive, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.request_cycle import RequestCycle

_SMALL = 16 * 1024
"""Bytes of a body that is written with its head; a copy of more would cost more than a write."""


def take_body(receive: Receive) -> bytes | None:
    """The whole body, as `receive` would have given it; None where that has to be asked."""
    cycle = getattr(receive, "__self__", None)
    if (
        type(cycle) is not RequestCycle
        or cycle.more_body
        or cycle.disconnected
        or cycle.response_started
        or cycle.waiting_for_100_continue
    ):
        return None
    cycle.flow.resume_reading()
    body = bytes(cycle.body)
    cycle.body = bytearray()
    cycle.message_event.clear()
    return body


def answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
    """Send a whole answer, whose `headers` are right; False where that has to be said in messages.

    The names of headers are in lower case, and one of them is the length.
    """
    cycle = getattr(send, "__self__", None)
    if (
        type(cycle) is not RequestCycle
        or cycle.response_started
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.more_body
        or cycle.flow.write_paused
        or cycle.scope["method"] == "HEAD"
    ):
        return False
    cycle.response_started = cycle.response_complete = True
    lines = b"".join([b"%b: %b\r\n" % header for header in cycle.default_headers + headers])
    head = STATUS_LINE[status] + lines + b"\r\n"
    if len(body) <= _SMALL:
        cycle.transport.write(head + body)
    else:
        cycle.transport.write(head)
        cycle.transport.write(body)
    cycle.message_event.set()  # whoever waits for the caller to leave
    cycle.on_response()
    return True
