"""Shortcuts for uvicorn's requests: take a complete body, send a response in one write.

ASGI needs a message for each of them, and one for the head of a response, at more cost than the
content. With a middleware in between, such as CORS, which changes the messages, the shortcuts do
not apply; ASGI messages then do everything.
"""

from starlette.types import Receive, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from gateway.http.request_cycle import RequestCycle

_SMALL = 16 * 1024
"""Largest body, in bytes, that is sent in one write with its head.

Copying a larger one costs more than a second write.
"""


def arrived_body(receive: Receive) -> bytes | None:
    """Return the whole body if it has arrived; None: call `receive`."""
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


def send_response(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
    """Send a whole response. Return False if only ASGI messages can do so.

    Header names are in lower case; one of them is content-length.
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
    cycle.message_event.set()  # wakes those that wait for a disconnect
    cycle.on_response()
    return True
