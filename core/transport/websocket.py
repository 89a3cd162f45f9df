"""NATS over WebSocket: an HTTP request, then frames around the bytes of an ordinary session.

The session is the same as over TCP: it gets bytes, and its output goes through a transport that
adds frames. One write of the session, the output of one loop tick, is one frame (several for
browsers). When the session closes, its reason becomes the code and text of the close frame.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from core.protocol import websocket as ws
from core.protocol.upgrade import (
    HEAD_MAX,
    AcceptedUpgrade,
    RefusedUpgrade,
    WebSocketOptions,
    upgrade,
)
from core.pubsub.server import Hub
from core.runtime.listening import unmapped
from core.runtime.step_queue import step_queue
from core.transport.session import ClientSession

_BROWSER_FRAME = 4096
_CODES = {
    "Client Closed": ws.NORMAL,
    "Parse Error": ws.BAD_PROTOCOL,
    "Protocol Violation": ws.BAD_PROTOCOL,
    "Bad Client Protocol Version": ws.BAD_PROTOCOL,
    "Maximum Message Payload Exceeded": ws.TOO_BIG,
    "Read Error": ws.GOING_AWAY,
    "Write Error": ws.GOING_AWAY,
    "Stale Connection": ws.GOING_AWAY,
    "Server Shutdown": ws.GOING_AWAY,
    "Authentication Timeout": ws.POLICY,
    "Authentication Failure": ws.POLICY,
    "Slow Consumer (Pending Bytes)": ws.POLICY,
    "Slow Consumer (Write Deadline)": ws.POLICY,
    "Maximum Connections Exceeded": ws.POLICY,
    "No More Descriptors": ws.POLICY,
    "Maximum Control Line Exceeded": ws.POLICY,
}

Started = Callable[[ClientSession], None]
Gone = Callable[["WebSocketConnection"], None]


class WebSocketConnection(asyncio.Protocol):
    """One socket of a WebSocket client: the HTTP request, then a session whose bytes are in frames.

    Args:
        hub: The state that all connections of this process share.
        options: Settings of the WebSocket.
        started: Called with the session once it exists.
        gone: Called at the end of the connection in any case.

    Attributes:
        has_socket: True once `connection_made` has run.
        session: The session; None before the HTTP request is accepted.
        address: Host and port on which the connection was accepted.
    """

    has_socket = False

    def __init__(self, hub: Hub, options: WebSocketOptions, started: Started, gone: Gone) -> None:
        self.session: ClientSession | None = None
        self.address: tuple[str, int] | None = None
        self._hub = hub
        self._options = options
        self._started = started
        self._gone = gone
        self._head = b""
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._reader: ws.FrameReader
        self._frames: FrameTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timeout for the HTTP request: `handshake_timeout` seconds of the options."""
        self._transport, self.has_socket = cast(asyncio.Transport, transport), True
        if self._hub.descriptors.is_needed(transport, for_http=True):
            self._transport.abort()  # too early for an -ERR: there is no session yet
            return
        host, port = transport.get_extra_info("sockname")[:2]
        self.address = unmapped(host), port
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._options.handshake_timeout, self.abort)

    def data_received(self, data: bytes) -> None:
        """Process bytes of the HTTP request or, after it, frames."""
        if self.session is not None:
            self._read(self.session, data)
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        try:
            if end < 0 and len(self._head) > HEAD_MAX:
                raise RefusedUpgrade(431, "request too large")
            if end < 0:
                return
            accepted = upgrade(self._head[: end + 4], self._options)
        except RefusedUpgrade as refusal:
            self._stop_timer()
            self._transport.write(refusal.answer)
            self._transport.close()
            return
        if len(self._head) > end + 4:
            self.abort()  # frames before the HTTP response
            return
        self._accept(accepted)

    def _accept(self, accepted: AcceptedUpgrade) -> None:
        self._stop_timer()
        self._head = b""
        self._transport.write(accepted.answer)
        self._reader = ws.FrameReader(
            masked=accepted.masked,
            compressed=accepted.compressed,
            max_payload=self._hub.limits.max_payload,
        )
        session = self.session = ClientSession(self._hub)
        session.connection_type = "WEBSOCKET"
        session.address = self.address
        session.forwarded_for = accepted.client_ip
        session.ping_interval = self._options.ping_interval
        if accepted.credentials is not None:
            session.read_connect = accepted.credentials.read_connect
        self._frames = FrameTransport(self._transport, session, accepted)
        self._started(session)
        session.connection_made(self._frames)

    def _read(self, session: ClientSession, data: bytes) -> None:
        if session.closed:
            return
        reader = self._reader
        broken: ws.WebSocketError | None = None
        more = False
        try:
            more = reader.feed(data)
        except ws.WebSocketError as error:
            broken = error
        if reader.pings:
            self._frames.answer(reader.pings)
            reader.pings = []
        if reader.payload:
            payload, reader.payload = reader.payload, []
            session.data_received(payload[0] if len(payload) == 1 else b"".join(payload))
        if broken is not None:
            self._frames.close_payload = ws.close_payload(broken.code, broken.text)
            session.close("Read Error")
        elif reader.close is not None:
            self._frames.close_payload = reader.close
            session.close("Client Closed")
        elif more:
            self._frames.begin_hold(self._go_on)
        elif self._frames.is_held:
            self._frames.end_hold()

    def _go_on(self) -> None:
        if self.session is not None and self._frames.is_held and self._frames.is_wanted:
            self._read(self.session, b"")

    def pause_writing(self) -> None:
        """Notify the session that the socket accepts no more output (called by asyncio)."""
        if self.session is not None:
            self.session.pause_writing()

    def resume_writing(self) -> None:
        """Notify the session that the socket accepts output again (called by asyncio)."""
        if self.session is not None:
            self.session.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the session after the socket has closed (called by asyncio)."""
        self._stop_timer()
        if self.session is not None:
            self.session.connection_lost(exc)
        self._gone(self)

    def close(self, reason: str) -> None:
        """Write the pending output and close the connection; `reason` decides the close frame."""
        if self.session is not None:
            self.session.close(reason)
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close the socket at once; pending output is lost."""
        if self.session is not None:
            self.session.abort()
        else:
            self._transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class FrameTransport(asyncio.Transport):
    """The transport of a session over WebSocket: it puts the session's output into frames.

    Attributes:
        close_payload: Payload of the close frame; None: derived from the session's reason.
        is_wanted: True unless the session has paused reading.
        is_held: True while received frames wait for their turn among the connections with much work
            (`core.runtime.step_queue`). The socket is not read then.
    """

    def __init__(
        self, below: asyncio.Transport, session: ClientSession, accepted: AcceptedUpgrade
    ) -> None:
        super().__init__()
        self.close_payload: bytes | None = None
        self.is_wanted = True
        self.is_held = False
        self._go_on: Callable[[], None] = _nothing
        self._below = below
        self._session = session
        self._compressed = accepted.compressed
        self._frame_max = _BROWSER_FRAME if accepted.browser else 0
        self._whole = accepted.safari

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not data:
            return
        framed = ws.frames(
            bytes(data), compressed=self._compressed, frame_max=self._frame_max, whole=self._whole
        )
        self._below.write(framed)

    def answer(self, pings: list[bytes]) -> None:
        """Answer WebSocket pings.

        A client that does not read the answers is closed as a slow consumer.
        """
        self._below.write(b"".join(ws.frame(ws.PONG, ping) for ping in pings))
        if self._below.get_write_buffer_size() > self._session.hub.limits.max_pending:
            self._session.close_slow_consumer("Slow Consumer (Pending Bytes)")

    def close(self) -> None:
        if not self._below.is_closing():
            payload = self.close_payload
            if payload is None:
                reason = self._session.close_reason
                payload = ws.close_payload(_CODES.get(reason, ws.INTERNAL), reason)
            self._below.write(ws.frame(ws.CLOSE, payload))
        self._below.close()

    def abort(self) -> None:
        self._below.abort()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def pause_reading(self) -> None:
        self.is_wanted = False
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self.is_wanted = True
        if self.is_held:
            step_queue().add(self._go_on)
        else:
            self._below.resume_reading()

    def begin_hold(self, go_on: Callable[[], None]) -> None:
        """Pause reading from the socket: a read has too many frames for one loop tick.

        `go_on` processes some of them. It is queued in `core.runtime.step_queue` now or, if the
        session has paused reading, when it resumes.
        """
        self.is_held = True
        self._go_on = go_on
        self._below.pause_reading()
        if self.is_wanted:
            step_queue().add(go_on)

    def end_hold(self) -> None:
        """Resume reading from the socket, unless the session has paused reading."""
        self.is_held = False
        if self.is_wanted:
            self._below.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high=high, low=low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)


def _nothing() -> None:
    """Do nothing: no frames are held."""
