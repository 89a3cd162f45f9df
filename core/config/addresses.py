"""Listening sockets, and why one cannot be had."""

import errno
import socket

from core.errors import OperatorError

_BACKLOG = 2048


def listen(host: str, port: int, what: str) -> socket.socket:
    """A listening TCP socket; port 0 takes any free one.

    Args:
        host: a name or an address.
        port: the port.
        what: what it is for, as the operator says it: "HTTP".

    Raises:
        OperatorError: the address cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise refusal(host, port, what, error) from error
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        raise refusal(host, port, what, error) from error
    found.setblocking(False)
    return found


def refusal(host: str, port: int, what: str, error: OSError) -> OperatorError:
    """The error for an address that cannot be had."""
    reason = (error.strerror or str(error)).lower()
    hint = "another address: --host"
    if error.errno in (errno.EADDRINUSE, errno.EACCES):
        hint = f"another port: --{what.lower()}-port; any: 0"
    return OperatorError(f"cannot listen for {what} on {host}:{port}: {reason} ({hint})")
