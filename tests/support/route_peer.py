"""A raw connection to a cluster port, and the first lines that a server sends on it."""

import json
import socket
from contextlib import suppress
from typing import Any


class Peer:
    """A raw connection to a cluster port, as another server opens it.

    `receive_buffer` is the approximate size of the kernel's receive buffer in bytes; 0 keeps the
    default.
    """

    def __init__(self, port: int, *, receive_buffer: int = 0) -> None:
        self.sock = narrow(("127.0.0.1", port), receive_buffer)
        self.file = self.sock.makefile("rb")
        self.info = json.loads(self.line()[5:])

    def line(self) -> bytes:
        """Return the next line without its line end; answer a PING with PONG."""
        line = self.file.readline().strip()
        if line == b"PING":
            self.send(b"PONG")
        return line

    def send(self, *lines: bytes) -> None:
        self.sock.sendall(b"".join(line + b"\r\n" for line in lines))

    def rest(self) -> bytes:
        """Return all bytes that arrive until the connection ends or is reset."""
        found = b""
        with suppress(ConnectionResetError):
            while more := self.file.read1(65536):
                found += more
        return found

    def close(self) -> None:
        self.file.close()
        self.sock.close()


def narrow(address: tuple[str, int], receive_buffer: int = 0) -> socket.socket:
    """Connect with a receive buffer of about so many bytes; 0 keeps the kernel's default."""
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
