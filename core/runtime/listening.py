"""Sockets that listen: one for IPv4 and IPv6 where all addresses of the machine are meant."""

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
    """A listening TCP socket; port 0 takes any free one.

    A name is its first IPv4 address, or its first address. `0.0.0.0` and `::` are every address of
    both kinds, as nats-server takes them; without IPv6 on the machine, `0.0.0.0` is IPv4 alone.

    Raises:
        OSError: the address cannot be had.
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
    """A TCP socket that has such an address, but accepts nobody yet. Raises OSError."""
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
    """Family and address of a name, IPv4 where there is the choice. Raises OSError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:  # of the codec of host names: a label that is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
    chosen = min(found, key=lambda each: each[0] != socket.AF_INET)
    return chosen[0], chosen[4]


def unmapped(host: str) -> str:
    """An address as its owner writes it: IPv4 comes as `::ffff:1.2.3.4` to a socket for both."""
    return host.removeprefix(_MAPPED) if "." in host else host


def client_network(host: str) -> str:
    """The addresses that one client may have at will: its own, or its /64 network in IPv6."""
    host = unmapped(host)
    try:
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except (OSError, ValueError):
        return host
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"


def _bound(family: int, address: Any) -> socket.socket:
    # With the protocol asyncio knows it for TCP, and turns the algorithm of Nagle off.
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
