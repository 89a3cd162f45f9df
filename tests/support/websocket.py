"""A raw WebSocket connection for tests, which sends arbitrary and invalid frames."""

import socket
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
REQUEST = {
    "Host": "localhost",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Version": "13",
}


def request(
    more: Mapping[str, str | None] | None = None, *, first: str = "GET / HTTP/1.1"
) -> bytes:
    """Return an upgrade request with the headers `REQUEST` and `more`; None omits a header.

    `first` is the request line.
    """
    headers = {**REQUEST, **(more or {})}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([first, *lines, "", ""]).encode()


def frame(
    payload: bytes,
    first: int = 0x82,
    *,
    key: bytes | None = b"\x01\x02\x03\x04",
    size: int | None = None,
    form: int = 0,
) -> bytes:
    """Return a WebSocket frame of a client (RFC 6455 5.2).

    Args:
        payload: The unmasked payload.
        first: The first byte: FIN, RSV bits and opcode; by default a whole binary message.
        key: The masking key; None for an unmasked frame.
        size: Length to state instead of the true one, in bytes.
        form: 126 or 127 forces the 16-bit or 64-bit encoding of the length.
    """
    count = len(payload) if size is None else size
    mask = 0x80 if key else 0
    if form == 127 or count > 65535:
        head = struct.pack(">BBQ", first, mask | 127, count)
    elif form == 126 or count > 125:
        head = struct.pack(">BBH", first, mask | 126, count)
    else:
        head = bytes((first, mask | count))
    if not key:
        return head + payload
    return head + key + bytes(byte ^ key[i & 3] for i, byte in enumerate(payload))


def deflate(data: bytes) -> bytes:
    """Return data compressed for permessage-deflate (RFC 7692 7.2.1)."""
    machine = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (machine.compress(data) + machine.flush(zlib.Z_SYNC_FLUSH))[:-4]


@dataclass(frozen=True)
class Received:
    """A frame from the server; `first` is its first byte: FIN, RSV bits and opcode."""

    first: int
    payload: bytes


class WebSocket:
    """One WebSocket connection to a NATS server.

    Attributes:
        buffer: Received bytes that no method has returned.
        head: Head of the last HTTP response.
        is_closed: True after the server has closed the connection.
        sizes: Payload size of each received frame, in bytes.
    """

    def __init__(self, address: tuple[str, int], *, timeout: float = 30.0) -> None:
        self.sock = socket.create_connection(address, timeout=timeout)
        self.buffer = b""
        self.head = b""
        self.is_closed = False
        self.sizes: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def open(self, more: Mapping[str, str | None] | None = None) -> Self:
        """Complete the handshake and read the INFO frame.

        Raises AssertionError if the status of the response is not 101.
        """
        self.ask(request(more))
        assert self.head.startswith(b"HTTP/1.1 101"), self.head
        while not self.frame().payload:
            pass
        return self

    def ask(self, data: bytes) -> bytes:
        """Send a request and return the head of the response; the rest stays in `buffer`."""
        self.send(data)
        while b"\r\n\r\n" not in self.buffer and self._fill():
            pass
        self.head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        return self.head

    def frame(self) -> Received:
        """Return the next frame.

        Raises ConnectionError if the server closes the connection, TimeoutError after the timeout.
        """
        while True:
            found = self._next_frame()
            if found is not None:
                return found
            if not self._fill():
                raise ConnectionError("closed by the server")

    def data(self, until: bytes) -> bytes:
        """Return decompressed payloads up to one that ends with `until`, without PINGs.

        Raises AssertionError for a frame that is not binary.
        """
        gathered, pending, deflated = b"", b"", False
        while not gathered.endswith(until):
            got = self.frame()
            assert got.first & 0x0F in (0, 2), got
            if got.first & 0x0F == 2:
                pending, deflated = b"", bool(got.first & 0x40)
            pending += got.payload
            if got.first & 0x80:
                inflate = zlib.decompressobj(-15).decompress
                gathered += inflate(pending + b"\0\0\xff\xff") if deflated else pending
                gathered = gathered.removesuffix(b"PING\r\n")
        return gathered

    def rest(self) -> bytes:
        """Read until the server closes the connection or a read times out; return `buffer`."""
        try:
            while self._fill():
                pass
        except TimeoutError:
            pass
        return self.buffer

    def _next_frame(self) -> Received | None:
        data = self.buffer
        if len(data) < 2:
            return None
        size, start = data[1] & 0x7F, 2
        assert not data[1] & 0x80, "a server does not mask"
        if size == 126:
            size, start = int.from_bytes(data[2:4], "big"), 4
        elif size == 127:
            size, start = int.from_bytes(data[2:10], "big"), 10
        if len(data) < start + size:
            return None
        self.buffer = data[start + size :]
        self.sizes.append(size)
        return Received(data[0], data[start : start + size])

    def _fill(self) -> bool:
        try:
            data = self.sock.recv(262144)
        except ConnectionError:
            data = b""
        self.buffer += data
        self.is_closed = not data
        return bool(data)
