"""Ports for servers that restart on the same port, without another process taking it meanwhile."""

import contextlib
import random
import socket

_given: set[int] = set()


def free_port() -> int:
    """Return a port for a server that starts later, and again.

    The port is below the range from which the system assigns ports.
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

    The socket is bound and never listens. Until it is closed, the system assigns its port to no
    other process, whether the server runs or not.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
