"""Logs the connections that the server closed, and failed authentication.

Clients that reconnect again and again must not fill a disk. At most ten lines per second are
written; the number of suppressed lines is logged before the next line of a later second.
"""

import logging
from typing import Protocol

from core.model.gojson import quote
from core.runtime.clock import Clock
from core.units import NANOS_PER_SECOND

log = logging.getLogger(__name__)

AUTHENTICATION_FAILURE = "Authentication Failure"
_LINES_PER_SECOND = 10
# Not logged: the client closed, the server shuts down, or descriptors ran out; the last comes in
# floods, and `DescriptorReserve` logs it.
_ORDINARY = frozenset(
    ("", "Client Closed", "Read Error", "Write Error", "Server Shutdown", "No More Descriptors")
)


class Disconnected(Protocol):
    """The attributes of a connection that are logged when it ends."""

    client_id: int
    client_ip: str
    client_port: int

    @property
    def connect_user(self) -> str:
        """The user name in the client's CONNECT, whether its password was right or not."""
        ...


class DisconnectLog:
    """Writes the log of ended connections, at most ten lines per second.

    Attributes:
        authentication_failures: Number of connections with wrong credentials.
    """

    def __init__(self, clock: Clock) -> None:
        self.authentication_failures = 0
        self._clock = clock
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def note(self, session: Disconnected, reason: str) -> None:
        """Log the end of a connection with its reason; count it if its credentials were wrong.

        Ordinary reasons, such as a client that closes its connection, are not logged.
        """
        if reason in _ORDINARY:
            return
        failed = reason == AUTHENTICATION_FAILURE
        self.authentication_failures += failed
        # The gateway logs the HTTP client of a connection inside the process.
        if not session.client_port or not self._may_write():
            return
        client = f"{session.client_ip}:{session.client_port}"
        fields = {"client": client, "cid": session.client_id, "reason": reason}
        text, level = reason, logging.INFO
        if failed:
            fields["user"] = session.connect_user
            text, level = (
                f"authentication error - User {quote(session.connect_user)}",
                logging.WARNING,
            )
        log.log(
            level, "%s - cid:%d - %s", client, session.client_id, text, extra={"fields": fields}
        )

    def failed_over_http(self, address: str, user: str) -> None:
        """Log an HTTP request with wrong credentials.

        It is not counted again: `note` has counted it.
        """
        if self._may_write():
            log.warning(
                "%s - HTTP - authentication error - User %s",
                address,
                quote(user),
                extra={"fields": {"client": address, "user": user}},
            )

    def _may_write(self) -> bool:
        second = self._clock.monotonic() // NANOS_PER_SECOND
        if second != self._second:
            self._second, self._lines = second, 0
            left_out, self._left_out = self._left_out, 0
            if left_out:
                log.warning("%d more ends of connections were not logged", left_out)
        self._lines += 1
        if self._lines > _LINES_PER_SECOND:
            self._left_out += 1
            return False
        return True
