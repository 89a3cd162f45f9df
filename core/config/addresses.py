"""Listening sockets, and why one cannot be had."""

import errno
import socket

from core.errors import OperatorError
from core.runtime.listening import bound_socket, listening_socket

_BACKLOG = 2048
_PORT_MAX = 65535


def listen(host: str, port: int, what: str) -> socket.socket:
    """A listening TCP socket; port 0 takes any free one.

    Args:
        host: a name or an address; `0.0.0.0` and `::` are all addresses of this machine.
        port: the port.
        what: what it is for, as the operator says it: "HTTP".

    Raises:
        OperatorError: the address cannot be had.
    """
    try:
        return listening_socket(host, _checked(host, port, what), _BACKLOG)
    except OSError as error:
        raise refusal(host, port, what, error) from error


def probe(host: str, port: int, what: str) -> None:
    """Find out whether `listen` would get an address, without accepting anybody there.

    Whoever connected to a port that listens for a moment would be reset.

    Raises:
        OperatorError: the address cannot be had.
    """
    try:
        bound_socket(host, _checked(host, port, what)).close()
    except OSError as error:
        raise refusal(host, port, what, error) from error


def _checked(host: str, port: int, what: str) -> int:
    if not 0 <= port <= _PORT_MAX:
        raise OperatorError(f"cannot listen for {what} on {host}:{port}: invalid port")
    return port


def refusal(host: str, port: int, what: str, error: OSError, *, flag: str = "") -> OperatorError:
    """The error for an address that cannot be had; `flag` names it, else `--host` and a port."""
    reason = (error.strerror or str(error)).lower()
    hint = "another address: --host"
    if flag:
        hint = f"another address: {flag}"
    elif error.errno in (errno.EADDRINUSE, errno.EACCES):
        hint = f"another port: --{what.lower()}-port; any: 0"
    return OperatorError(f"cannot listen for {what} on {host}:{port}: {reason} ({hint})")
