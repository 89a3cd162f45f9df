"""Ports for servers that are to come back where they were: nobody else is given them meanwhile."""

import contextlib
import random
import socket

_given: set[int] = set()


def free_port() -> int:
    """A port for a server that starts later, and again, below those that the system hands out."""
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


def held_port() -> socket.socket:
    """A socket that holds a port, for whoever listens there with SO_REUSEADDR.

    It is bound and never listens: until it is closed the system gives its port to nobody else,
    whether the server that names it runs or not.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held
