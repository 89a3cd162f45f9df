"""One WebSocket connection, in the `websockets` library under uvicorn, with an end for who takes
nothing.

Beside what ASGI knows, `websocket.send` takes `wire`: WebSocket frames as they travel. Frames of a
server are not masked, so those that many readers get are made once for all of them.
"""

import asyncio
from asyncio.transports import BaseTransport
from typing import Any, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request

from gateway.presence import ON_GONE, Calls, tell
from gateway.write_watch import WriteWatch

PING_INTERVAL_S = 20.0
_TLS_LINGER_S = 1.0
FRAME_BYTES_MAX = 2 * 1024 * 1024

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


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """Closes a connection that takes nothing for `write_seconds`, and reads on after a frame that
    cannot be, so that the client gets to see the close code."""

    write_seconds = 30.0
    _writes: WriteWatch | None = None
    _discards = False

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
        self.scope[ON_GONE] = self._on_gone  # type: ignore[literal-required]

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        if self._writes is not None:
            self._writes.stop()
        super().connection_lost(exc)
        tell(self._on_gone)
        self.conn.parser.close()  # it refers to itself: else only the garbage collector ends it

    def data_received(self, data: bytes) -> None:
        """Take a read."""
        if not self._discards:
            super().data_received(data)

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
        self.loop.call_soon(self._half_close)  # other frames of the same read come before

    def _half_close(self) -> None:
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()

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

    async def send(self, message: Any) -> None:
        """Take an event of the application."""
        data = message.get("wire")
        if data is None:
            await super().send(message)
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
