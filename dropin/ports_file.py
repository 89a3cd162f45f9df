"""The ports file, by which other programs find the server's addresses, and the PID file."""

import contextlib
import json
import logging
import os
import socket
from pathlib import Path

from core.errors import OperatorError
from core.runtime.listening import WILDCARDS, resolved

log = logging.getLogger(__name__)

_IPV6_ADDRESSES = Path("/proc/net/if_inet6")


class PortsFile:
    """The file `DIR/<executable>_<pid>.ports`. It exists while its addresses are served.

    Args:
        directory: The directory; "": `write` and `remove` do nothing.
        executable: File name of the command.
    """

    def __init__(self, directory: str, executable: str) -> None:
        self._path = Path(directory) / f"{executable}_{os.getpid()}.ports" if directory else None
        self._is_written = False

    def write(self, addresses: dict[str, tuple[str, int]]) -> None:
        """Write the host and port of each listener, by the names in `LISTENERS`.

        If the directory is not writable, the error is logged and the server continues.
        """
        if self._path is None:
            return
        content = {name: urls(name, *addresses[name]) for name in LISTENERS if name in addresses}
        unfinished = self._path.with_name(f"{self._path.name}.new")
        try:
            unfinished.write_text(json.dumps(content, separators=(",", ":")))
            os.replace(unfinished, self._path)
            self._is_written = True
        except OSError as error:
            reason = reason_of(error)
            log.error("Error writing ports file (%s): open %s: %s", self._path, self._path, reason)

    def remove(self) -> None:
        """Delete the file, if this process has written it."""
        if self._path is not None and self._is_written:
            with contextlib.suppress(OSError):
                self._path.unlink()


LISTENERS = {
    "nats": "nats",
    "monitoring": "http",
    "cluster": "nats",
    "websocket": "ws",
    "leafnodes": "nats",
}
"""Names of the listeners in the order of the file, with the scheme of their URLs."""


def urls(name: str, host: str, port: int) -> list[str]:
    """Return the URLs of a listener; a wildcard host stands for all addresses of this machine.

    Args:
        name: Name of the listener, a key of `LISTENERS`.
        host, port: Its address.
    """
    hosts = _own_addresses() if host in WILDCARDS else [_address(host)]
    return [f"{LISTENERS[name]}://{join(each, port)}" for each in hosts]


def _address(host: str) -> str:
    try:
        return str(resolved(host, 0)[1][0])
    except OSError:
        return host


def join(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _own_addresses() -> list[str]:
    """Return the addresses of this machine, IPv4 and IPv6 loopback first."""
    ipv6 = _ipv6_addresses()
    found = ["127.0.0.1", *(each for each in ipv6 if each == "::1")]
    with contextlib.suppress(OSError):
        for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET):
            found.append(str(entry[4][0]))
    return list(dict.fromkeys((*found, *ipv6)))


def _ipv6_addresses() -> list[str]:
    """Return the IPv6 addresses of the interfaces; [] without `/proc/net/if_inet6`."""
    try:
        lines = _IPV6_ADDRESSES.read_text().splitlines()
    except OSError:
        return []
    return [socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0])) for line in lines]


def write_pid(path: str) -> None:
    """Write the id of this process to a file; do nothing if the path is empty.

    Raises OperatorError if the file cannot be written.
    """
    if not path:
        return
    try:
        Path(path).write_text(str(os.getpid()))
    except OSError as error:
        reason = reason_of(error)
        raise OperatorError(f"Could not write pidfile: open {path}: {reason}") from error


def reason_of(error: OSError) -> str:
    """Return the reason of an OSError in lower case, as nats-server logs it."""
    return (error.strerror or str(error)).lower()
