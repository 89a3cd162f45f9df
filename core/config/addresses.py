"""Listening sockets of a server, and the errors for addresses that cannot be bound."""

import errno
import socket

from core.errors import OperatorError
from core.runtime.listening import bound_socket, listening_socket

_BACKLOG = 2048
_PORT_MAX = 65535


def listen(host: str, port: int, what: str) -> socket.socket:
    """Return a TCP socket that listens on `host` and `port`; port 0 means any free port.

    `host` is a name or an address; `0.0.0.0` and `::` mean all addresses of this machine. `what` is
    the purpose for error messages, for example "HTTP".

    Raises:
        OperatorError: The address cannot be bound, or the port is outside 0 to 65535.
    """
    try:
        return listening_socket(host, _checked(host, port, what), _BACKLOG)
    except OSError as error:
        raise refusal(host, port, what, error) from error


def probe(host: str, port: int, what: str) -> None:
    """Check that the address can be bound, without listening on it.

    A client that connected to a port open for a moment would be reset.

    Raises:
        OperatorError: The address cannot be bound, or the port is outside 0 to 65535.
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
    """Return the error for an address that cannot be bound, with a hint how to choose another one.

    `flag`: the flag that configures the address; empty: `--host` and a port flag.
    """
    reason = (error.strerror or str(error)).lower()
    hint = "another address: --host"
    if flag:
        hint = f"another address: {flag}"
    elif error.errno in (errno.EADDRINUSE, errno.EACCES):
        hint = f"another port: --{what.lower()}-port; any: 0"
    return OperatorError(f"cannot listen for {what} on {host}:{port}: {reason} ({hint})")
