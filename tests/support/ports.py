"""Ports for servers that restart on the same port; no other process gets the port meanwhile."""

import contextlib
import random
import socket

_given: set[int] = set()


def free_port() -> int:
    """Return a port that is free now, for a server that starts later and may restart.

    The port is below the range from which the kernel assigns ports, and unique in this process.
    """
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


def held_port() -> socket.socket:
    """Return a socket that reserves a port for servers that listen with SO_REUSEADDR.

    The socket is bound and does not listen. Until it is closed, the kernel assigns its port to no
    other process, even while the server does not run.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
