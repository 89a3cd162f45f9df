"""Finds the addresses of this machine that are announced to other servers and to clients."""

import contextlib
import socket

_ELSEWHERE = (
    (socket.AF_INET, ("192.0.2.1", 9)),
    (socket.AF_INET6, ("2001:db8::1", 9)),
)
"""Documentation addresses (RFC 5737, RFC 3849) that no host has. The source address that the kernel
chooses for them is an address of this machine."""


def own_addresses() -> list[str]:
    """Return the addresses by which others reach this machine, one per address family.

    `127.0.0.1` if there is no route to other machines.
    """
    found = []
    for family, place in _ELSEWHERE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(place)  # sends nothing
            found.append(str(probe.getsockname()[0]))
    return found or ["127.0.0.1"]


def joined(host: str, port: int) -> str:
    """Return `host:port`, with IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_port(text: str, default: int) -> tuple[str, int]:
    """Split `host:port`; the port is `default` if the text has no valid one."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or (":" in host and not host.startswith("[")):
        return text.strip("[]"), default
    return host.strip("[]"), int(port)
