"""Listening sockets, and the file that tells where they are."""

import contextlib
import errno
import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

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


def advertised(text: str) -> tuple[str, int] | None:
    """The host and port that clients are told instead of ours; port 0 is the real one.

    Raises:
        OperatorError: it is no address; the text is the reference server's.
    """
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), 0
    try:
        return host.strip("[]"), max(int(port), 0)
    except ValueError:
        reason = f'strconv.Atoi: parsing "{port}": invalid syntax'
        raise OperatorError(
            f"Error setting server INFO with ClientAdvertise value of {text}, err={reason}"
        ) from None


def url(scheme: str, host: str, port: int) -> str:
    """An address as one copies it; a wildcard host becomes this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    return f"{scheme}://{shown}:{port}"


class PortsFile:
    """`DIR/ports.json`: there while the addresses in it are served, never half written."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / "ports.json"

    def write(self, addresses: Mapping[str, str]) -> None:
        """Say where we are: an address for each name.

        Raises:
            OperatorError: the directory cannot be written.
        """
        if self._path is None:
            return
        unfinished = self._path.with_name("ports.json.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(dict(addresses)) + "\n")
            os.replace(unfinished, self._path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OperatorError(f"cannot write {self._path}: {reason}") from error

    def remove(self) -> None:
        """Say that we are not there any more."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
