"""A raw connection to the route port of a server, and the CONNECT and INFO lines for it."""

import json
import socket
from contextlib import suppress
from typing import Any


class Peer:
    """A raw connection to the route port of a server on 127.0.0.1, in the role of another server.

    `receive_buffer` is the approximate size of the kernel's receive buffer in bytes; 0 keeps the
    default. `info` is the decoded INFO of the server.
    """

    def __init__(self, port: int, *, receive_buffer: int = 0) -> None:
        self.sock = narrow(("127.0.0.1", port), receive_buffer)
        self.file = self.sock.makefile("rb")
        self.info = json.loads(self.line()[5:])

    def line(self) -> bytes:
        """Read a line and return it without its line end; if it is a PING, send PONG."""
        line = self.file.readline().strip()
        if line == b"PING":
            self.send(b"PONG")
        return line

    def send(self, *lines: bytes) -> None:
        self.sock.sendall(b"".join(line + b"\r\n" for line in lines))

    def rest(self) -> bytes:
        """Return all bytes that arrive until the server closes or resets the connection."""
        found = b""
        with suppress(ConnectionResetError):
            while more := self.file.read1(65536):
                found += more
        return found

    def close(self) -> None:
        self.file.close()
        self.sock.close()


def narrow(address: tuple[str, int], receive_buffer: int = 0) -> socket.socket:
    """Return a connected socket with a receive buffer of about `receive_buffer` bytes.

    0 keeps the kernel's default size. Reads time out after 30 seconds.
    """
    sock = socket.socket()
    try:
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(30)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def connect(**fields: Any) -> bytes:
    known = {"name": "P" * 56, "cluster": "test", "headers": True, "user": "u", "pass": "p"}
    return b"CONNECT " + json.dumps(known | fields).encode()


def info(**fields: Any) -> bytes:
    known = {"server_id": "P" * 56, "server_name": "P", "cluster": "test", "proto": 1}
    place = {"host": "127.0.0.1", "port": 1, "headers": True, "gossip_mode": 1}
    return b"INFO " + json.dumps(known | place | fields).encode()
