"""The private parts of uvicorn that the HTTP server uses; no other module imports uvicorn.

uvicorn may change them in any release, so pyproject.toml pins its minor version.
`tests/unit/gateway/test_uvicorn_parts.py` names each attribute and signature that another version
lacks.

`arrived_body` and `send_response` are shortcuts: they take a complete body, or send a response in
one write. ASGI would need one message for a request body and two for a response, which cost more
time than a small body itself. With a middleware in between that changes
the messages, such as CORS, the shortcuts do not apply, and ASGI messages are used.
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
"""Maximum size of a body, in bytes, that is sent in one write with its head.

Copying a larger one costs more than a second write.
"""


def arrived_body(receive: Receive) -> bytes | None:
    """Return the whole request body if it has arrived; None: use the ASGI `receive`."""
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
    """Send a whole response without ASGI messages. Returns False if that is impossible.

    Then the caller must use the ASGI `send`. Header names are in lower case; one of them is
    content-length.
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
    cycle.message_event.set()  # wakes tasks that wait for a disconnect
    cycle.on_response()
    return True


class RequestCycle(RequestResponseCycle):
    """uvicorn's request cycle, which also closes the connection if the body will not be read.

    Attributes:
        body_wanted: True once the application has called `receive`.
    """

    body_wanted = False

    async def send(self, message: Any) -> None:
        """Process an ASGI message of the application.

        If the client still sends a body that the application does not read, the response announces
        that the connection will be closed. A successful response that is sent while the body is
        read, such as one to NDJSON, does not announce it.
        """
        if (
            self.more_body
            and not self.response_started
            and (not self.body_wanted or message.get("status", 0) >= 400)
        ):
            self.keep_alive = False
        await super().send(message)

    async def receive(self) -> Any:
        """Return the next part of the body, or the disconnect, as an ASGI message."""
        self.body_wanted = True
        return await super().receive()


class Flow(FlowControl):
    """uvicorn's flow control; it does not resume reading while `is_held` is True."""

    is_held = False

    def resume_reading(self) -> None:
        """Resume reading, unless `is_held` is True."""
        if not self.is_held:
            super().resume_reading()

    def release(self) -> None:
        """Set `is_held` to False, and resume reading."""
        self.is_held = False
        self.resume_reading()


class UntilClosed(int):
    """The length of a body that ends with its connection; uvicorn's countdown never reaches 0."""

    def __lt__(self, other: object) -> bool:
        return False

    def __sub__(self, other: object) -> "UntilClosed":
        return self
