"""The addresses of a server, and the file `ports.json` that contains them."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from core.errors import OperatorError


def url(scheme: str, host: str, port: int) -> str:
    """Return an address for copying; a wildcard host becomes the loopback address."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    if ":" in shown and not shown.startswith("["):
        shown = f"[{shown}]"
    return f"{scheme}://{shown}:{port}"


class PortsFile:
    """The file `DIR/ports.json`, present while its addresses are served; replaced atomically."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / "ports.json"
        self._is_written = False

    def write(self, addresses: Mapping[str, str]) -> None:
        """Write the addresses by name.

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
        """Delete the file at the end of serving, if this process has written it."""
        if self._path is not None and self._is_written:
            self._is_written = False
            with contextlib.suppress(OSError):
                self._path.unlink()
