"""One HTTP connection: what uvicorn reads, within limits of time and size.

uvicorn waits for ever for the first byte of a connection, for the end of a request's headers, of
which it keeps whatever comes, and for a caller who does not read his answer. Here all have an end;
bodies have limits of their own.
"""

import asyncio
import socket

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from core.runtime.descriptors import DescriptorReserve
from gateway.presence import ON_GONE, Calls, tell
from gateway.problems import Problem, respond
from gateway.settings import Settings
from gateway.write_watch import WriteWatch

_UNSENT_BYTES = 128 * 1024
"""What the system keeps of an answer before it can send it. Without a limit that grows to megabytes
for each reader that takes nothing, out of sight of every limit of ours; what is on its way in a
long network is not counted."""


class HttpProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers do not end, or that takes no answer.

    Attributes:
        head_seconds: how long they may take, from the first byte or the beginning of the
            connection.
        head_bytes: how many they may be. The exact limits are the façade's; this one bounds what
            is kept before it can judge.
        write_seconds: how long a caller may take not a byte of what is written.
        connections_max: how many there may be; others are answered with 503.
        descriptors: judges whether there is a file descriptor left for one more; else the same.
            None: there is no such limit.
    """

    head_seconds = 20.0
    head_bytes = 128 * 1024
    write_seconds = 30.0
    connections_max = 65_536
    descriptors: DescriptorReserve | None = None
    _reads_head = False
    _size = 0
    _late: asyncio.TimerHandle | None = None
    _writes: WriteWatch | None = None

    def use_limits(self, settings: Settings, descriptors: DescriptorReserve) -> None:
        """Take limits other than those above, and refuse who comes when there are too many."""
        self.descriptors = descriptors
        self.head_seconds = settings.head_seconds
        self.head_bytes = settings.head_bytes
        self.write_seconds = settings.write_timeout
        self.connections_max = settings.connections_max

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        self._writes = WriteWatch(transport, self.write_seconds)
        self._on_gone: Calls = set()
        self._arm()
        reserve = self.descriptors
        no_descriptors = reserve is not None and reserve.is_needed(transport, for_http=True)
        if no_descriptors or len(self.connections) > self.connections_max:
            retry = {"Retry-After": "1"}
            self._refuse(Problem(503, "too-many-connections", "no more are taken", headers=retry))

    def _should_upgrade(self) -> bool:
        """Only a whole handshake of version 13 in HTTP/1.1 becomes a WebSocket.

        Whatever else asks is answered over HTTP.
        """
        has_key = False
        for name, value in self.headers:
            has_key |= name == b"sec-websocket-key"
            if name == b"sec-websocket-version" and value != b"13":
                return False
        if not has_key or self.parser.get_http_version() == "1.0":
            return False
        return bool(super()._should_upgrade())

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._disarm()
        self._unset_keepalive_if_required()  # uvicorn leaves it to its time after an error
        if self._writes is not None:
            self._writes.stop()
        super().connection_lost(exc)
        tell(self._on_gone)

    def data_received(self, data: bytes) -> None:
        """Take a read."""
        super().data_received(data)
        if self.transport.get_protocol() is not self:  # a WebSocket now
            # It refers to this protocol: without it both are gone at once, and not with a full
            # garbage collection, which holds up everybody and comes late.
            self.parser = None  # type: ignore[assignment]
            return
        if self._reads_head:
            self._size += len(data)
            if self._size > self.head_bytes:
                self._refuse(Problem(431, "headers-too-large", "the headers do not end"))
                return
        elif self._is_busy():
            return
        if self._late is None:  # a part of a head, or blank lines before one
            self._arm()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._reads_head = True
        self._size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the head; those behind a body (trailers) are no part of the request."""
        if self._reads_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._reads_head = False
        self._disarm()
        self.scope[ON_GONE] = self._on_gone  # type: ignore[literal-required]
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and self.cycle is not None:
            # It knows no chunks: the end of the connection is that of the body (RFC 9112, 7).
            self.cycle.chunked_encoding = False
            self.cycle.expected_content_length = _UntilClosed()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request; nothing fits into an answer that has begun."""
        if self._is_busy() and self.cycle.response_started:
            self.transport.close()
            return
        detail = "what came is no HTTP/1.1 request"
        self.transport.write(_bytes_of(respond(Problem(400, "not-http", detail), "")))
        self.transport.close()

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        super().pause_writing()
        self._watch_writes()

    def resume_writing(self) -> None:
        """The socket takes more."""
        if self._writes is not None:
            self._writes.stop()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; the last answer may still be on its way."""
        super().timeout_keep_alive_handler()
        self._watch_writes()

    def _watch_writes(self) -> None:
        if self._writes is not None:
            self._writes.start()

    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _arm(self) -> None:
        self._late = self.loop.call_later(self.head_seconds, self._too_late)

    def _disarm(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if self._reads_head and not self._is_busy():
            self._refuse(Problem(408, "slow-headers", "the headers do not end"))
        elif not self._is_busy():
            self.transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Answer in the middle of a head, and close."""
        if self.transport.is_closing():
            return
        if not self._is_busy():  # else another answer is being written
            self.transport.write(_bytes_of(respond(problem, "")))
        self.transport.close()


class _UntilClosed(int):
    """The length of a body that lasts as long as its connection, where uvicorn counts down."""

    def __lt__(self, other: object) -> bool:
        return False

    def __sub__(self, other: object) -> "_UntilClosed":
        return self


def _bytes_of(response: Response) -> bytes:
    lines = [b"HTTP/1.1 %d \r\nconnection: close\r\n" % response.status_code]
    lines += [b"%s: %s\r\n" % header for header in response.raw_headers]
    return b"".join([*lines, b"\r\n", bytes(response.body)])
