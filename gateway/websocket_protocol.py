"""One WebSocket connection, in the `websockets` library under uvicorn, with an end for who takes
nothing.

Beside what ASGI knows, `websocket.send` takes `wire`: WebSocket frames as they travel. Frames of a
server are not masked, so those that many readers get are made once for all of them. And there is
`websocket.admit`: the peer is known, so that its messages may have FRAME_BYTES_MAX.
"""

import asyncio
from asyncio.transports import BaseTransport
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State

from core.runtime.sockets import end_writing
from core.runtime.turns import turns
from gateway.presence import ON_GONE, Calls, tell
from gateway.problems import Problem, respond, response_bytes
from gateway.read_buffer import READ_BYTES, SmallReads, change_protocol
from gateway.request_head import Head
from gateway.write_watch import WriteWatch

PING_INTERVAL_S = 20.0
_TLS_LINGER_S = 1.0
FRAME_BYTES_MAX = 2 * 1024 * 1024
HELLO_BYTES_MAX = 32 * 1024
"""A message of a peer that may be anybody."""
EARLY_FRAMES_MAX = 64
"""Control frames and parts of messages that such a peer may send."""
_EARLY_PIECE_BYTES = 1024
"""What is read at once of such a peer: 170 of the shortest frames, each some ten microseconds."""
_PIECE_BYTES = 4096
"""What is taken at once of a peer that is known."""
_NO_HELLO = 4001  # gateway.ws.close_codes

_UNSENT_BYTES = 1
"""What may wait in the transport before writing is paused: nothing, as long as the system takes it
(0 would pause a connection over TLS of which nothing waits). Each write that has to wait costs the
transport three objects, and a slow reader would have one for each message of 64 KiB of them."""

UVICORN_OPTIONS: dict[str, Any] = {
    "ws_max_size": FRAME_BYTES_MAX,
    "ws_ping_interval": PING_INTERVAL_S,
    "ws_ping_timeout": 20.0,
    "ws_per_message_deflate": False,
}
"""How uvicorn is to run it. Without deflate, which would cost each reader his own compression."""


def wire(payload: bytes, *, is_text: bool) -> bytes:
    """Return the WebSocket frame of a payload."""
    opcode = Opcode.TEXT if is_text else Opcode.BINARY
    return Frame(opcode, payload).serialize(mask=False)


class Early:
    """What came and was not taken yet, and what of it may be taken at once.

    One object for all: one attribute more of a connection, and its dict would be twice as large.
    """

    __slots__ = ("data", "frames", "is_due", "piece_bytes")

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.frames = 0
        self.is_due = False
        self.piece_bytes = _EARLY_PIECE_BYTES


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Closes a connection that takes nothing for `write_seconds`, and reads on after a frame that
    cannot be, so that the client gets to see the close code."""

    write_seconds = 30.0
    _writes: WriteWatch | None = None
    _early: "Early"
    _discards = False
    _unanswered: asyncio.TimerHandle | None = None
    _pong = b""

    def begin(
        self, transport: asyncio.Transport, head: Head, rest: bytes, *, within: float
    ) -> None:
        """Answer a handshake that was read from a transport, `within` so many seconds.

        `rest` is what came behind it; a client should have waited (RFC 6455, 4.1).
        """
        self._early = Early(bytearray(rest))
        self.connection_made(transport)
        self._unanswered = self.loop.call_later(within, self._refuse)
        change_protocol(transport, SmallReads(self, _EARLY_PIECE_BYTES))
        self.conn.max_message_size = HELLO_BYTES_MAX
        # The library's own reader of heads has other limits: it gets none of this one.
        self.conn.receive_data(b"GET / HTTP/1.1\r\n\r\n")
        self.conn.events_received()
        target = head.path + b"?" + head.query if head.query else head.path
        pairs = [(name.decode(), value.decode("latin-1")) for name, value in head.headers]
        self.handle_connect(Request(target.decode(), Headers(pairs)))

    def connection_made(self, transport: BaseTransport) -> None:
        """Begin."""
        super().connection_made(transport)
        written = cast(asyncio.Transport, transport)
        written.set_write_buffer_limits(high=_UNSENT_BYTES, low=0)
        self._writes = WriteWatch(written, self.write_seconds)
        self._on_gone: Calls = set()

    def handle_connect(self, event: Request) -> None:
        """Begin with a handshake."""
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            self.scope[ON_GONE] = self._on_gone  # type: ignore[literal-required]

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        if self._writes is not None:
            self._writes.stop()
        self._stop_waiting()
        self._early.data.clear()
        super().connection_lost(exc)
        tell(self._on_gone)
        self.conn.parser.close()  # it refers to itself: else only the garbage collector ends it

    def data_received(self, data: bytes) -> None:
        """Take a read. What comes before the handshake is answered waits for that, and much of it
        for a turn."""
        if self._discards:
            return
        if self.handshake_complete and not self._early.data and len(data) < self._early.piece_bytes:
            self._take(data)
            return
        self._early.data += data
        if self.handshake_complete:
            self._go_on()
        elif len(self._early.data) > READ_BYTES:
            self.transport.pause_reading()

    def _go_on(self) -> None:
        """Read nothing more until what waits was taken, a piece in each turn."""
        if self._early.data and not self._early.is_due:
            self._early.is_due = True
            turns().add(self._take_early)
        if self._early.data and not self.transport.is_closing():
            self.transport.pause_reading()

    def _take_early(self) -> None:
        """Take a piece of what waits, unless a message before it has not been received."""
        self._early.is_due = False
        if self.transport.is_closing():
            return
        if self.read_paused and not self._discards:
            return
        piece = bytes(self._early.data[: self._early.piece_bytes])
        del self._early.data[: self._early.piece_bytes]
        if not self._discards:
            self._take(piece)
        if self._discards:
            self._early.data.clear()
        if self._early.data:
            self._go_on()
        elif not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _take(self, data: bytes) -> None:
        """Take frames, and answer the pings among them together."""
        super().data_received(data)
        if self._discards or self.transport.is_closing():
            return
        if pongs := self.conn.data_to_send():
            if self.writable.is_set():
                self.transport.write(b"".join(pongs))
            else:
                self._pong = pongs[-1]

    def handle_events(self) -> None:
        """Handle frames, few of them before the peer is known."""
        if self._early.piece_bytes == _EARLY_PIECE_BYTES:
            events = self.conn.events_received()
            self._early.frames += sum(not _is_message(event) for event in events)
            if self._early.frames > EARLY_FRAMES_MAX and self.conn.state is State.OPEN:
                self._refuse_frames()
                return
            self.conn.events.extend(events)
        super().handle_events()

    def _refuse_frames(self) -> None:
        """Close the connection of an unknown peer that sends many frames."""
        self.conn.data_to_send()
        reason = f"more than {EARLY_FRAMES_MAX} frames before welcome"
        self.conn.send_close(_NO_HELLO, reason)
        self.handle_parser_exception()

    def _refuse(self) -> None:
        """End a handshake that nobody has answered."""
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
        """Leave the answer to `_take`. Pings that come while nothing can be written are answered by
        the last of them (RFC 6455, 5.5.3): else they would pile up unread."""

    def send_receive_event_to_app(self) -> None:
        """Hand a whole message on. Text that is not UTF-8 ends the connection, of which uvicorn
        would log a stack trace: anybody could fill the log."""
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
        """Say why the connection ends, and end it when the client has, or after a while.

        A socket that is closed while something of the client is unread is reset, and a reset may
        overtake the close frame: the client would know nothing but that it was cut off.
        """
        sent = self.conn.close_sent
        assert sent is not None
        self._discards = True
        gone = {"type": "websocket.disconnect", "code": sent.code, "reason": sent.reason}
        self.queue.put_nowait(cast(Any, gone))
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        # TLS has no end of one direction: there the client waits for the end of the connection.
        linger = self.close_timeout if self.transport.can_write_eof() else _TLS_LINGER_S
        self.close_timer = self.loop.call_later(linger, self.transport.close)
        # Other frames of the same read come before.
        self.loop.call_soon(end_writing, self.transport)

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        super().pause_writing()
        if self._writes is not None:
            self._writes.start()

    def resume_writing(self) -> None:
        """The socket takes more."""
        if self._writes is not None:
            self._writes.stop()
        super().resume_writing()
        if self._pong and not self.transport.is_closing() and not self.close_sent:
            self.transport.write(self._pong)
        self._pong = b""

    async def receive(self) -> Any:
        """Return what comes next, and go on with what waits behind it."""
        message = await super().receive()
        if self.handshake_complete and not self.read_paused:
            self._go_on()
        return message

    async def send(self, message: Any) -> None:
        """Take an event of the application."""
        data = message.get("wire")
        if data is None:
            if message["type"] == "websocket.admit":
                self._admit()
                return
            await super().send(message)
            if self.handshake_complete:
                self._stop_waiting()
                self._go_on()
            if message["type"] == "websocket.http.response.body":
                # Else uvicorn logs an error for each handshake that is refused, and anybody could
                # fill the log.
                self.handshake_complete = self.close_sent
            elif message["type"] == "websocket.accept":
                # Twenty objects that uvicorn keeps for as long as the connection lasts, and that
                # every full garbage collection would look at.
                del self.request, self.response
            return
        await self.writable.wait()
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise ClientDisconnected
        self.transport.write(data)

    def _admit(self) -> None:
        """Take messages and reads of any size."""
        self.conn.max_message_size = FRAME_BYTES_MAX
        self._early.piece_bytes = _PIECE_BYTES
        if not self.disconnected and not self.transport.is_closing():
            change_protocol(self.transport, self)


def _is_message(event: object) -> bool:
    """Whether it is a message, or the first part of one."""
    return isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY)
