"""Before a connection may do anything: its first line says who it is, in time.

Only where users are configured. The bytes of a connection are kept until its CONNECT is complete;
a password whose check takes long is checked in a thread while the connection does not read. Then
everything kept goes on to the parser, which meets the CONNECT as its first operation.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from core.auth.gate import Gate, Identity
from core.errors import AuthError, ProtocolError
from core.protocol.connect import Connect
from core.transport.wording import AUTHORIZATION_VIOLATION

if TYPE_CHECKING:
    from core.transport.session import ClientSession


class Door:
    """Holds one connection until it has said who it is."""

    def __init__(self, session: "ClientSession", gate: Gate) -> None:
        self._session = session
        self._gate = gate
        self._kept = b""
        self._is_checking = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(gate.users.timeout, self._too_late)

    def take(self, data: bytes) -> bytes:
        """Keep bytes; return all that came once the connection may be served, else none.

        Raises ProtocolError when it never will be.
        """
        data = self._kept + data
        self._kept = b""
        if data[:1] not in (b"C", b"c"):
            stranger = self._gate.stranger()
            if stranger is None:
                raise ProtocolError(AUTHORIZATION_VIOLATION)
            self._open()
            self._session.authorize(stranger)
            return data
        end = data.find(b"\n")
        if end < 0 and len(data) <= self._session.hub.limits.max_control_line + len(b"CONNECT \r"):
            self._kept = data
            return b""
        if self._is_checking or (end >= 0 and self._check_apart(data[:end])):
            self._kept = data
            return b""
        self._open()
        return data

    def close(self) -> None:
        """The connection is gone."""
        self._timer.cancel()

    def _open(self) -> None:
        self._timer.cancel()
        self._session.door = None

    def _too_late(self) -> None:
        self._session.close("Authentication Timeout", "Authentication Timeout")

    def _check_apart(self, line: bytes) -> bool:
        """Begin a check that takes long; False when it can be made at once."""
        try:
            connect = self._session.read_connect(line[len(b"CONNECT") :], None)
        except ProtocolError:
            return False  # the parser will say so
        if not self._gate.is_slow(connect):
            return False
        self._is_checking = True
        self._session.hold()
        work = partial(_verdict, self._gate, connect, self._session.connection_type)
        self._loop.run_in_executor(None, work).add_done_callback(self._checked)
        return True

    def _checked(self, verdict: "asyncio.Future[Identity | None]") -> None:
        self._is_checking = False
        if self._session.closed:
            return
        self._timer.cancel()
        if verdict.cancelled() or verdict.exception() or verdict.result() is None:
            self._session.close("Authentication Failure", AUTHORIZATION_VIOLATION)
            return
        data, self._kept = self._kept, b""
        self._session.resume()
        self._session.data_received(data)
        self._session.hub.turn.run()  # the next read may be the end, which ends writing too


def _verdict(gate: Gate, connect: Connect, connection_type: str) -> Identity | None:
    try:
        return gate.admit(connect, connection_type)
    except AuthError:
        return None
