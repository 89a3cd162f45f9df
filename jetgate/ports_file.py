"""The file `ports.json`, by which other programs find the addresses of a running server."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from core.errors import OperatorError


def url(scheme: str, host: str, port: int) -> str:
    """Return `scheme://host:port`; a wildcard host becomes the loopback address."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    return f"{scheme}://{shown}:{port}"


class PortsFile:
    """The file `ports.json` in a directory. It exists while its addresses are served.

    Args:
        directory: The directory; None: `write` and `remove` do nothing.
    """

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / "ports.json"
        self._is_written = False

    def write(self, addresses: Mapping[str, str]) -> None:
        """Write the server's addresses by name, such as `nats`; the file is replaced atomically.

        Raises:
            OperatorError: The directory cannot be written.
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
        self._is_written = True

    def remove(self) -> None:
        """Delete the file, if this process has written it; ignore errors."""
        if self._path is not None and self._is_written:
            self._is_written = False
            with contextlib.suppress(OSError):
                self._path.unlink()
