"""The HTTP port while the process starts, before the HTTP application is imported.

`/healthz` gets 200, because the process works, and `/readyz` 503, because it does not serve yet.
Every other request waits for the application, which takes over the connection with all input so
far. After 30 s a waiting request gets 503 too. Connections are closed after these responses.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from gateway.http.read_buffer import BoundedReads

if TYPE_CHECKING:
    import ssl  # a start without TLS does not wait for it

_ALIVE, _ABOUT_THE_START = "/healthz", "/readyz"
_HOLD_S = 30.0
_HANDSHAKE_S = 10.0
_SHUTDOWN_S = 1.0
_HEAD_S = 20.0
_HEAD_BYTES = 64 * 1024
_END_OF_HEAD = b"\r\n\r\n"


class StartupServer:
    """Accepts connections on a listening socket; holds their requests until a successor is set.

    Life cycle: `start`, then `transfer_to` once the application is imported, then `stop`.

    Attributes:
        port: The TCP port.
        hold_s: Seconds that a request waits before it gets 503.
        held: Connections with waiting requests.
        successor: Creates the protocol of a connection; None until the application is
            imported.
    """

    def __init__(
        self,
        listening: socket.socket,
        *,
        hold_s: float = _HOLD_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = int(listening.getsockname()[1])
        self.hold_s = hold_s
        self.held: set[HeldConnection] = set()
        self.successor: Callable[[], BoundedReads] | None = None
        self._listening = listening
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Start to accept connections."""
        loop = asyncio.get_running_loop()
        if self._tls is None:
            self._server = await loop.create_server(self._accepted, sock=self._listening)
            return
        self._server = await loop.create_server(
            self._accepted,
            sock=self._listening,
            ssl=self._tls,
            ssl_handshake_timeout=_HANDSHAKE_S,
            ssl_shutdown_timeout=_SHUTDOWN_S,
        )

    def transfer_to(self, successor: Callable[[], BoundedReads]) -> None:
        """Pass all connections to the successor: those with waiting requests, then new ones."""
        self.successor = successor
        for connection in list(self.held):
            connection.go_on(successor())

    def stop(self) -> None:
        """Close the port, and the connections with waiting requests."""
        if self._server is not None:
            self._server.close()
        self._listening.close()
        for connection in list(self.held):
            connection.close()

    def _accepted(self) -> BoundedReads:
        return HeldConnection(self) if self.successor is None else self.successor()


class HeldConnection(BoundedReads):
    """A connection whose request waits until the HTTP application is imported."""

    _transport: asyncio.Transport
    _timer: asyncio.TimerHandle

    def __init__(self, start: StartupServer) -> None:
        super().__init__()
        self._start = start
        self._read = bytearray()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request, or pass the connection on if a successor is set already."""
        self._transport = transport
        self._start.held.add(self)
        self._refuse_within(min(_HEAD_S, self._start.hold_s))
        if self._start.successor is not None:  # set while this connection was accepted
            self.go_on(self._start.successor())

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, because the connection is closed."""
        self._start.held.discard(self)
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Respond to health checks; keep the input of other requests."""
        self._read += data
        if _END_OF_HEAD in self._read:
            self._transport.pause_reading()
            self._timer.cancel()
            self._refuse_within(self._start.hold_s)
            method, path = self._asked()
            if method in (b"GET", b"HEAD") and path == _ABOUT_THE_START:
                self._refuse()
            elif method in (b"GET", b"HEAD") and path == _ALIVE:
                self._transport.write(_healthy(method))
                self._transport.close()
        elif len(self._read) > _HEAD_BYTES:
            self._transport.pause_reading()

    def go_on(self, protocol: BoundedReads) -> None:
        """Pass the connection and its input to another protocol."""
        self._start.held.discard(self)
        self._timer.cancel()
        if self._transport.is_closing():
            return
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        self._transport.resume_reading()
        if self._read:
            protocol.data_received(bytes(self._read))

    def close(self) -> None:
        """Close the connection without a response."""
        self._transport.close()

    def _refuse_within(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._refuse)

    def _asked(self) -> tuple[bytes, str]:
        """Return the method and path of the waiting request."""
        line = bytes(self._read).lstrip(b"\r\n").partition(b"\r\n")[0]
        method, _, rest = line.partition(b" ")
        return method, rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")

    def _refuse(self) -> None:
        """Respond 503 if the request's head is complete, and close the connection."""
        if _END_OF_HEAD in self._read and not self._transport.is_closing():
            self._transport.write(_starting(*self._asked()))
        self._transport.close()


def _healthy(method: bytes) -> bytes:
    """Return the bytes of the response to `/healthz`."""
    body = b'{"status":"ok"}\n'
    head = (
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    )
    return head if method == b"HEAD" else head + body


def _starting(method: bytes, path: str) -> bytes:
    """Return the bytes of the 503, as `gateway.http.problems` encodes it.

    That module is slow to import.
    """
    problem = {
        "type": "urn:jetgate:problem:starting",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "this node is starting",
        "instance": path,
    }
    body = json.dumps(problem, separators=(",", ":")).encode() + b"\n"
    head = (
        b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n"
        b"content-type: application/problem+json\r\ncontent-length: %d\r\n\r\n" % len(body)
    )
    return head if method == b"HEAD" else head + body
