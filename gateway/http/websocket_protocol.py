"""One WebSocket connection: uvicorn's `websockets` protocol with limits of size, rate and time.

In addition to the ASGI messages, `websocket.send` accepts `wire`: encoded WebSocket frames. Frames
of a server are not masked, so one encoding serves many clients. The message
`websocket.authenticated` raises the limit of the client's messages to FRAME_BYTES_MAX.
"""

import asyncio
from asyncio.transports import BaseTransport
from http import HTTPStatus
from typing import Any, cast

from websockets.datastructures import Headers
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State

from core.runtime.sockets import end_writing
from core.runtime.step_queue import step_queue
from gateway.http.disconnects import ON_DISCONNECT, Callbacks, notify
from gateway.http.problems import Problem, respond, response_bytes
from gateway.http.read_buffer import READ_BYTES, SmallReads, change_protocol
from gateway.http.request_head import Head
from gateway.http.uvicorn_parts import ClientDisconnected, WebSocketsSansIOProtocol
from gateway.http.write_timeout import WriteTimeout

PING_INTERVAL_S = 20.0
_TLS_LINGER_S = 1.0
FRAME_BYTES_MAX = 2 * 1024 * 1024
HELLO_BYTES_MAX = 32 * 1024
"""Maximum size of a message from an unauthenticated client, in bytes."""
EARLY_FRAMES_MAX = 64
"""Control frames and continuation frames that an unauthenticated client may send."""
_EARLY_PIECE_BYTES = 1024
"""Bytes parsed at once from an unauthenticated client: 170 of the shortest frames, ten µs each."""
_PIECE_BYTES = 4096
"""Bytes parsed at once from an authenticated client."""
_NO_HELLO = 4001  # gateway.ws.close_codes

_UNSENT_BYTES = 1
"""Bytes in the transport's buffer above which writing pauses.

With 1, it pauses as soon as the kernel accepts no more bytes (0 would pause a TLS connection with
an empty buffer). Each waiting write costs the transport three objects, one set per 64 KiB message
of a slow client.
"""

UVICORN_OPTIONS: dict[str, Any] = {
    "ws_max_size": FRAME_BYTES_MAX,
    "ws_ping_interval": PING_INTERVAL_S,
    "ws_ping_timeout": 20.0,
    "ws_per_message_deflate": False,
}
"""Options for uvicorn. They disable deflate, which would compress each message for each client."""


def wire(payload: bytes, *, is_text: bool) -> bytes:
    """Encode a payload as a WebSocket frame."""
    opcode = Opcode.TEXT if is_text else Opcode.BINARY
    return Frame(opcode, payload).serialize(mask=False)


class PendingInput:
    """Input that is not parsed yet, and the number of bytes to parse at once.

    It is one object, because several attributes would double the size of a connection's dict.
    """

    __slots__ = ("data", "frames", "is_due", "piece_bytes")

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.frames = 0
        self.is_due = False
        self.piece_bytes = _EARLY_PIECE_BYTES


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket connection that closes if the client reads nothing for `write_seconds` seconds.

    After an invalid frame it reads on, so that the client receives the close code.
    """

    write_seconds = 30.0
    _writes: WriteTimeout | None = None
    _pending: "PendingInput"
    _discards_input = False
    _unanswered: asyncio.TimerHandle | None = None
    _pong = b""

    def begin(
        self, transport: asyncio.Transport, head: Head, rest: bytes, *, within: float
    ) -> None:
        """Process a handshake; refuse it with 504 if the application takes longer than `within`
        seconds.

        `rest` is the input after the handshake; a client should wait for the response (RFC 6455,
        4.1).
        """
        self._pending = PendingInput(bytearray(rest))
        self.connection_made(transport)
        self._unanswered = self.loop.call_later(within, self._refuse)
        change_protocol(transport, SmallReads(self, _EARLY_PIECE_BYTES))
        self.conn.max_message_size = HELLO_BYTES_MAX
        # The library's parser of heads has other limits, so it gets a minimal head instead.
        self.conn.receive_data(b"GET / HTTP/1.1\r\n\r\n")
        self.conn.events_received()
        target = head.path + b"?" + head.query if head.query else head.path
        pairs = [(name.decode(), value.decode("latin-1")) for name, value in head.headers]
        self.handle_connect(Request(target.decode(), Headers(pairs)))

    def connection_made(self, transport: BaseTransport) -> None:
        """Set the buffer limits and the write timeout of a new connection."""
        super().connection_made(transport)
        written = cast(asyncio.Transport, transport)
        written.set_write_buffer_limits(high=_UNSENT_BYTES, low=0)
        self._writes = WriteTimeout(written, self.write_seconds)
        self._on_disconnect: Callbacks = set()

    def handle_connect(self, event: Request) -> None:
        """Pass a handshake to the application."""
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            self.scope[ON_DISCONNECT] = self._on_disconnect  # type: ignore[literal-required]

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up after the connection has ended: stop timers, call disconnect callbacks."""
        if self._writes is not None:
            self._writes.stop()
        self._stop_waiting()
        self._pending.data.clear()
        super().connection_lost(exc)
        notify(self._on_disconnect)
        self.conn.parser.close()  # breaks a reference cycle that only garbage collection would free

    def data_received(self, data: bytes) -> None:
        """Process input.

        Input before the response to the handshake waits for it. Long input is parsed in several
        loop ticks.
        """
        if self._discards_input:
            return
        if (
            self.handshake_complete
            and not self._pending.data
            and len(data) < self._pending.piece_bytes
        ):
            self._parse(data)
            return
        self._pending.data += data
        if self.handshake_complete:
            self._resume()
        elif len(self._pending.data) > READ_BYTES:
            self.transport.pause_reading()

    def _resume(self) -> None:
        """Pause reading until the waiting input is parsed, some bytes per loop tick."""
        if self._pending.data and not self._pending.is_due:
            self._pending.is_due = True
            step_queue().add(self._parse_pending)
        if self._pending.data and not self.transport.is_closing():
            self.transport.pause_reading()

    def _parse_pending(self) -> None:
        """Parse some bytes of the waiting input.

        Wait while the application has not received an earlier message.
        """
        self._pending.is_due = False
        if self.transport.is_closing():
            return
        if self.read_paused and not self._discards_input:
            return
        piece = bytes(self._pending.data[: self._pending.piece_bytes])
        del self._pending.data[: self._pending.piece_bytes]
        if not self._discards_input:
            self._parse(piece)
        if self._discards_input:
            self._pending.data.clear()
        if self._pending.data:
            self._resume()
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _parse(self, data: bytes) -> None:
        """Parse frames, and send the pongs for them together."""
        super().data_received(data)
        if self._discards_input or self.transport.is_closing():
            return
        if pongs := self.conn.data_to_send():
            if self.writable.is_set():
                self.transport.write(b"".join(pongs))
            else:
                self._pong = pongs[-1]

    def handle_events(self) -> None:
        """Handle parsed frames; limit their number until the client is authenticated."""
        if self._pending.piece_bytes == _EARLY_PIECE_BYTES:
            events = self.conn.events_received()
            self._pending.frames += sum(not _is_message(event) for event in events)
            if self._pending.frames > EARLY_FRAMES_MAX and self.conn.state is State.OPEN:
                self._refuse_frames()
                return
            self.conn.events.extend(events)
        super().handle_events()

    def _refuse_frames(self) -> None:
        """Close the connection of an unauthenticated client that sends too many frames."""
        self.conn.data_to_send()
        reason = f"more than {EARLY_FRAMES_MAX} frames before welcome"
        self.conn.send_close(_NO_HELLO, reason)
        self.handle_parser_exception()

    def _refuse(self) -> None:
        """Refuse a handshake that the application has not answered in time (504)."""
        self._unanswered = None
        problem = Problem(504, "no-answer", "the handshake was not answered in time")
        self.transport.write(response_bytes(respond(problem, "")))
        self.transport.close()
        self.handshake_complete = self.close_sent = self.disconnected = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.ABNORMAL_CLOSURE})

    def _stop_waiting(self) -> None:
        if self._unanswered is not None:
            self._unanswered.cancel()
            self._unanswered = None

    def handle_ping(self) -> None:
        """Do nothing: `_parse` sends the pong.

        While nothing can be written, only the last ping is answered (RFC 6455, 5.5.3), because
        unread pongs would use memory.
        """

    def send_receive_event_to_app(self) -> None:
        """Pass a whole message to the application.

        Text that is not UTF-8 closes the connection. uvicorn would log a stack trace, by which any
        client could fill the log.
        """
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self.conn.send_close(CloseCode.INVALID_DATA)
                self.handle_parser_exception()
                return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        """Send the close frame, then close when the client has closed, or after a timeout.

        A socket that is closed with unread input resets the connection. The reset may arrive before
        the close frame, and the client would not get the reason.
        """
        sent = self.conn.close_sent
        assert sent is not None
        self._discards_input = True
        gone = {"type": "websocket.disconnect", "code": sent.code, "reason": sent.reason}
        self.queue.put_nowait(cast(Any, gone))
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        # TLS has no half-close: the client waits for the end of the connection.
        linger = self.close_timeout if self.transport.can_write_eof() else _TLS_LINGER_S
        self.close_timer = self.loop.call_later(linger, self.transport.close)
        # Other frames of the same read are written before.
        self.loop.call_soon(end_writing, self.transport)

    def pause_writing(self) -> None:
        """Pause writes while the transport's buffer is full, and start the write timeout."""
        super().pause_writing()
        if self._writes is not None:
            self._writes.start()

    def resume_writing(self) -> None:
        """Stop the write timeout, and resume writes; a waiting pong is written first."""
        if self._writes is not None:
            self._writes.stop()
        super().resume_writing()
        if self._pong and not self.transport.is_closing() and not self.close_sent:
            self.transport.write(self._pong)
        self._pong = b""

    async def receive(self) -> Any:
        """Return the next ASGI message, and continue to parse the waiting input."""
        message = await super().receive()
        if self.handshake_complete and not self.read_paused:
            self._resume()
        return message

    async def send(self, message: Any) -> None:
        """Process an ASGI message of the application.

        Raises ClientDisconnected for `wire` if the connection is closed.
        """
        data = message.get("wire")
        if data is None:
            if message["type"] == "websocket.authenticated":
                self._raise_limits()
                return
            await super().send(message)
            if self.handshake_complete:
                self._stop_waiting()
                self._resume()
            if message["type"] == "websocket.http.response.body":
                # Otherwise uvicorn logs an error for each refused handshake, by which any client
                # could fill the log.
                self.handshake_complete = self.close_sent
            elif message["type"] == "websocket.accept":
                # uvicorn keeps these twenty objects as long as the connection, and every full
                # garbage collection would traverse them.
                del self.request, self.response
            return
        await self.writable.wait()
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise ClientDisconnected
        self.transport.write(data)

    def _raise_limits(self) -> None:
        """Raise the limits of messages and reads for an authenticated client."""
        self.conn.max_message_size = FRAME_BYTES_MAX
        self._pending.piece_bytes = _PIECE_BYTES
        if not self.disconnected and not self.transport.is_closing():
            change_protocol(self.transport, self)


def _is_message(event: object) -> bool:
    """Return True if an event is a message, or its first frame."""
    return isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY)
