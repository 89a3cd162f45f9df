"""Notifies systemd of the state of this process, by sd_notify(3) (`Type=notify` in a unit).

Without a service manager nothing is sent. A notification that fails or would block is skipped.
"""

import contextlib
import os
import socket
from collections.abc import Mapping


class ServiceManager:
    """Sends notifications to the service manager that started this process (`NOTIFY_SOCKET`)."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        path = environment.get("NOTIFY_SOCKET", "")
        # A name that begins with @ is in the abstract namespace.
        self._address = "\0" + path[1:] if path.startswith("@") else path

    def ready(self, status: str) -> None:
        """Report that the process is ready, with a status text; a later call changes the text."""
        self._send(f"READY=1\nSTATUS={status}")

    def starting(self, status: str) -> None:
        """Report the step for which the start of the process waits, as status text."""
        self._send(f"STATUS={status}")

    def stopping(self) -> None:
        """Report that the shutdown of the process has begun."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto(text.encode(), self._address)
