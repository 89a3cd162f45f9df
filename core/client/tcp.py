"""The TCP link."""

import asyncio
import socket
from typing import cast
from urllib.parse import urlsplit

from core.client.link import Closed, Connector, Link, Receive

DEFAULT_PORT = 4222


def dial(url: str) -> Connector:
    """Return a connector to `nats://host:port` (or `host:port`).

    Raises ValueError for an address that is not one.
    """
    parts = urlsplit(url if "//" in url else f"//{url}")
    if parts.scheme not in ("", "nats", "tcp") or not parts.hostname:
        raise ValueError(f"not a NATS address: {url}")
    host, port = parts.hostname, parts.port or DEFAULT_PORT

    async def connect(receive: Receive, closed: Closed) -> Link:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(lambda: TcpLink(receive, closed), host, port)
        return protocol

    return connect


class TcpLink(asyncio.Protocol):
    """One socket. Writing goes straight to the transport, which buffers."""

    def __init__(self, receive: Receive, closed: Closed) -> None:
        self.data_received = receive  # type: ignore[assignment,method-assign]  # one call less per read
        self._closed = closed
        self._transport: asyncio.Transport | None = None
        self.paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
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

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
