"""State of TCP connections from Linux's `/proc/net/tcp`, and reads up to a delimiter."""

import contextlib
import os
import socket
from pathlib import Path


def has_port(pid: int, port: int) -> bool:
    """Return True if a process has a TCP socket over IPv4 with this local port."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(f"socket:[{fields[9]}]")
    with contextlib.suppress(OSError):  # the process has ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # the descriptor is closed
                if os.readlink(descriptor) in inodes:
                    return True
    return False


def is_read(caller: tuple[str, int]) -> bool:
    """Return True if the receiver of a local IPv4 connection has read all bytes sent to it.

    True also if it has closed the connection.

    Args:
        caller: Local address of the sender; its port identifies the connection.
    """
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if int(fields[2].rpartition(":")[2], 16) == caller[1]:
            return int(fields[4].rpartition(":")[2], 16) == 0
    return True  # the peer has closed the connection


def receive_until(connection: socket.socket, end: bytes) -> bytes:
    """Read from a connection until the received bytes contain `end`; return all received bytes.

    Raises AssertionError if the peer closes the connection first.
    """
    seen = b""
    while end not in seen:
        more = connection.recv(1 << 16)
        assert more, seen
        seen += more
    return seen
