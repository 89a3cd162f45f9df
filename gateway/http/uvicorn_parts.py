"""The private parts of uvicorn that the façade builds on; no other module imports uvicorn.

uvicorn promises nothing about them, so pyproject.toml pins its minor version.
`tests/unit/gateway/test_uvicorn_parts.py` names each attribute and signature that another version
lacks.

`arrived_body` and `send_response` are shortcuts: take a complete body, send a response in one
write. ASGI needs a message for each of them, and one for the head of a response, at more cost than
the content. With a middleware in between, such as CORS, which changes the messages, the shortcuts
do not apply; ASGI messages then do everything.
"""

from typing import Any

from starlette.types import Receive, Send
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.protocols.utils import ClientDisconnected, get_local_addr, get_remote_addr, is_ssl
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import Server, ServerState

__all__ = [
    "HIGH_WATER_LIMIT",
    "STATUS_LINE",
    "ClientDisconnected",
    "Config",
    "Flow",
    "RequestCycle",
    "Server",
    "ServerState",
    "UntilClosed",
    "WebSocketsSansIOProtocol",
    "arrived_body",
    "get_local_addr",
    "get_remote_addr",
    "is_ssl",
    "send_response",
]

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


class RequestCycle(RequestResponseCycle):
    """A cycle that closes the connection after a response if the body will not be read.

    Attributes:
        asked: True once the application has asked for the body.
    """

    body_wanted = False

    async def send(self, message: Any) -> None:
        """Process an event of the application.

        If the client still sends a body that is not read, the head of the response announces the
        close. This does not apply to successful responses that are sent while the body is read,
        such as those to NDJSON.
        """
        if (
            self.more_body
            and not self.response_started
            and (not self.body_wanted or message.get("status", 0) >= 400)
        ):
            self.keep_alive = False
        await super().send(message)

    async def receive(self) -> Any:
        """Return the next piece of the body, or the disconnect."""
        self.body_wanted = True
        return await super().receive()


class Flow(FlowControl):
    """Flow control of uvicorn that does not resume reading while it `is_held`."""

    is_held = False

    def resume_reading(self) -> None:
        """Resume reading, unless it is held."""
        if not self.is_held:
            super().resume_reading()

    def release(self) -> None:
        """End the hold, and resume reading."""
        self.is_held = False
        self.resume_reading()


class UntilClosed(int):
    """The length of a body that ends with its connection, for uvicorn's countdown."""

    def __lt__(self, other: object) -> bool:
        return False

    def __sub__(self, other: object) -> "UntilClosed":
        return self
