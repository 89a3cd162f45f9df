"""Opens listening TCP sockets; one socket serves IPv4 and IPv6 for all addresses of the machine."""

import errno
import socket
from typing import Any

WILDCARDS = ("", "0.0.0.0", "::")
_NO_IPV6 = (
    errno.EAFNOSUPPORT,
    errno.EPROTONOSUPPORT,
    errno.ENOPROTOOPT,
    errno.EADDRNOTAVAIL,
)
_MAPPED = "::ffff:"


def listening_socket(host: str, port: int, backlog: int) -> socket.socket:
    """Return a listening TCP socket; port 0 selects any free port.

    A host name stands for its first IPv4 address, or else for its first address. As in nats-server,
    `0.0.0.0` and `::` stand for all addresses of both families. On a machine without IPv6,
    `0.0.0.0` is IPv4 only.

    Raises:
        OSError: The address is not available.
    """
    found = bound_socket(host, port)
    try:
        found.listen(backlog)
    except OSError:
        found.close()
        raise
    found.setblocking(False)
    return found


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a TCP socket that is bound to an address, but does not listen yet.

    `host` and `port` as in `listening_socket`. Raises OSError if the address is not available.
    """
    if host not in WILDCARDS:
        family, address = resolved(host, port)
        return _bound(family, address)
    try:
        return _bound(socket.AF_INET6, ("::", port))
    except OSError as error:
        if host == "::" or error.errno not in _NO_IPV6:
            raise
    return _bound(socket.AF_INET, ("0.0.0.0", port))


def resolved(host: str, port: int) -> tuple[int, Any]:
    """Return address family and socket address of a host name, IPv4 if there is a choice.

    Raises OSError if the name is unknown.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:  # from the codec of host names: a label is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
    chosen = min(found, key=lambda each: each[0] != socket.AF_INET)
    return chosen[0], chosen[4]


def unmapped(host: str) -> str:
    """Return an address without the prefix `::ffff:` of IPv4 on a dual-stack socket."""
    return host.removeprefix(_MAPPED) if "." in host else host


def client_network(host: str) -> str:
    """Return the network of an address, to which the limits of a client apply.

    For an IPv4 address it is the address itself, for an IPv6 address its /64 network, since one
    client may use all addresses of it.
    """
    host = unmapped(host)
    try:
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except (OSError, ValueError):
        return host
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"


def _bound(family: int, address: Any) -> socket.socket:
    # The protocol number lets asyncio recognize TCP, and disable Nagle's algorithm.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            both = address[0] == "::"
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        found.bind(address)
    except OSError:
        found.close()
        raise
    return found
