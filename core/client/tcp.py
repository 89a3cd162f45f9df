"""The TCP link, with TLS if the server requires it.

A NATS server sends INFO before TLS begins. The link reads INFO first, starts TLS if INFO requires
it, and then passes INFO on as if it had just arrived.
"""

import asyncio
import socket
from functools import cache
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import msgspec

from core.client.errors import ServerRefused
from core.client.link import Closed, Connector, Link, Receive

if TYPE_CHECKING:
    import ssl

DEFAULT_PORT = 4222
_INFO_MAX = 64 * 1024


class _Security(msgspec.Struct):
    tls_required: bool = False
    tls_available: bool = False


def dial(url: str) -> Connector:
    """Return a connector that opens TCP links to `nats://host:port` (or `host:port`).

    TLS is used if the server requires it; with `tls://` the server must offer it. The certificate
    is verified with the authorities of the system (or those of SSL_CERT_FILE). Raises ValueError if
    the address is invalid.
    """
    parts = urlsplit(url if "//" in url else f"//{url}")
    if parts.scheme not in ("", "nats", "tcp", "tls") or not parts.hostname:
        raise ValueError(f"not a NATS address: {url}")
    host, port = parts.hostname, parts.port or DEFAULT_PORT

    async def connect(receive: Receive, closed: Closed) -> Link:
        loop = asyncio.get_running_loop()
        link = TcpLink(receive, closed)
        transport, info = await loop.create_connection(lambda: _InfoReader(loop), host, port)
        try:
            await info.complete
            if info.asks_for_tls(parts.scheme == "tls"):
                secured = await loop.start_tls(transport, link, _context(), server_hostname=host)
                if secured is None:
                    raise ServerRefused("the connection ended while TLS began")
                transport = secured
            else:
                transport.set_protocol(link)
        except BaseException:
            transport.abort()
            raise
        link.connection_made(transport)
        receive(bytes(info.data))
        return link

    return connect


@cache
def _context() -> "ssl.SSLContext":
    import ssl  # slow to import, so only when needed

    return ssl.create_default_context()


class _InfoReader(asyncio.Protocol):
    """The asyncio protocol of a connection until the server's INFO has arrived."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.data = bytearray()
        self.complete: asyncio.Future[None] = loop.create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.complete.done():
            return
        if b"\n" in self.data:
            self.complete.set_result(None)
        elif len(self.data) > _INFO_MAX:
            self.complete.set_exception(ServerRefused("what it says is no greeting of NATS"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.complete.done():
            self.complete.set_exception(exc or ServerRefused("it closes without a greeting"))

    def asks_for_tls(self, insist: bool) -> bool:
        """Return whether TLS has to be started; `insist` if the client requires it.

        Raises ServerRefused if `insist` and the server does not offer TLS.
        """
        verb, _, body = bytes(self.data).partition(b"\n")[0].partition(b" ")
        try:
            offered = msgspec.json.decode(body, type=_Security) if verb == b"INFO" else _Security()
        except msgspec.DecodeError:
            offered = _Security()
        if insist and not (offered.tls_required or offered.tls_available):
            raise ServerRefused("it does not offer TLS, and tls:// insists on it")
        return offered.tls_required or (insist and offered.tls_available)


class TcpLink(asyncio.Protocol):
    """A link over a TCP or TLS transport of asyncio, which buffers the output."""

    def __init__(self, receive: Receive, closed: Closed) -> None:
        self.data_received = receive  # type: ignore[assignment,method-assign]  # one call less per read
        self._closed = closed
        self._transport: asyncio.Transport | None = None
        self.paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._closed(exc)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
