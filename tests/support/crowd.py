"""Thousands of raw TCP connections to a server, read by one thread."""

import resource
import selectors
import socket
import time
from collections import Counter
from typing import Self

Address = tuple[str, int]
_SPARE = 500  # descriptors that the test process needs for other purposes


def affordable(wanted: int) -> int:
    """Raise the soft limit of open files; return how many of `wanted` connections it allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(wanted, hard - _SPARE)


class Crowd:
    """Connections that send some bytes once, and then wait until the server closes them.

    Args:
        address: Address of the server.
        openings: The first bytes of the connections, in rotation.
        count: Number of connections.
    """

    def __init__(self, address: Address, openings: tuple[bytes, ...], count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._received: dict[int, bytearray] = {}
        self.last_lines: Counter[bytes] = Counter()
        for number in range(count):
            sock = socket.create_connection(address, timeout=60)
            sock.setblocking(False)
            if opening := openings[number % len(openings)]:
                sock.sendall(opening)
            self._received[sock.fileno()] = bytearray()
            self._selector.register(sock, selectors.EVENT_READ)

    def __len__(self) -> int:
        return len(self._received)

    def until_all_ended(self, within: float) -> Counter[bytes]:
        """Read until the server has closed every connection; count the last lines they received.

        Raises AssertionError if a connection is still open after `within` seconds.
        """
        deadline = time.monotonic() + within
        while self._received:
            left = deadline - time.monotonic()
            assert left > 0, f"{len(self)} are still open; so far: {self.last_lines}"
            self._read(left)
        return self.last_lines

    def _read(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            received = self._received[key.fd]
            try:
                data = sock.recv(65536)
            except ConnectionError:
                data = b""
            if data:
                received += data
                continue
            self.last_lines[bytes(received).rstrip(b"\r\n").rpartition(b"\r\n")[2]] += 1
            self._forget(sock)

    def _forget(self, sock: socket.socket) -> None:
        del self._received[sock.fileno()]
        self._selector.unregister(sock)
        sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()
