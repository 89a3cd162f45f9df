"""A connection that has to authenticate first: nothing is served before its CONNECT, or too late.

Only where users are configured. The bytes of a connection are kept until its CONNECT is complete;
a password whose check takes long is checked in a thread while the connection does not read. Then
everything kept goes on to the parser, which meets the CONNECT as its first operation.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from core.auth.authenticator import Authenticator, Identity
from core.errors import AuthError, ProtocolError
from core.protocol.connect import Connect
from core.pubsub.server import Hub
from core.transport.wording import AUTHORIZATION_VIOLATION


class Unauthenticated(Protocol):
    """The session that has to authenticate."""

    hub: Hub
    closed: bool
    connect: Connect
    connection_type: str
    read_connect: Callable[[bytes, Connect | None], Connect]

    def authorize(self, identity: Identity) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def serve(self, data: bytes) -> None: ...
    def close(self, reason: str, error: str = "") -> None: ...


class Authentication:
    """Keeps what one connection sends until it may be served, and closes it when that is late."""

    def __init__(self, session: Unauthenticated, authenticator: Authenticator) -> None:
        self._session = session
        self._authenticator = authenticator
        self._kept = b""
        self._is_checking = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(authenticator.users.timeout, self._too_late)

    def take(self, data: bytes) -> bytes:
        """Keep bytes; return all that came once the connection may be served, else none.

        Raises ProtocolError when it never will be.
        """
        data = self._kept + data
        self._kept = b""
        if data[:1] not in (b"C", b"c"):
            identity = self._authenticator.no_auth_identity()
            if identity is None:
                raise ProtocolError(AUTHORIZATION_VIOLATION)
            self._timer.cancel()
            self._session.authorize(identity)
            return data
        end = data.find(b"\n")
        if end < 0 and len(data) <= self._session.hub.limits.max_control_line + len(b"CONNECT \r"):
            self._kept = data
            return b""
        if self._is_checking or (end >= 0 and self._check_in_thread(data[:end])):
            self._kept = data
            return b""
        self._timer.cancel()
        return data

    def take_back(self) -> bytes:
        """Return what is kept, and keep it no longer."""
        data, self._kept = self._kept, b""
        return data

    def cancel(self) -> None:
        """Wait for nothing any more: the connection is gone."""
        self._timer.cancel()

    def _too_late(self) -> None:
        self._session.close("Authentication Timeout", "Authentication Timeout")

    def _check_in_thread(self, line: bytes) -> bool:
        """Begin a check that takes long; False when it can be made at once."""
        try:
            connect = self._session.read_connect(line[len(b"CONNECT") :], None)
        except ProtocolError:
            return False  # the parser will say so
        if not self._authenticator.is_slow(connect):
            return False
        self._is_checking = True
        self._session.connect = connect
        self._session.pause()
        work = partial(_is_known, self._authenticator, connect, self._session.connection_type)
        self._loop.run_in_executor(None, work).add_done_callback(self._checked)
        return True

    def _checked(self, check: "asyncio.Future[bool]") -> None:
        self._is_checking = False
        if self._session.closed:
            return
        self._timer.cancel()
        if check.cancelled() or check.exception() or not check.result():
            self._session.close("Authentication Failure", AUTHORIZATION_VIOLATION)
            return
        data = self.take_back()
        self._session.resume()
        if data:
            self._session.serve(data)
        self._session.hub.turn.run()  # the next read may be the end, which ends writing too


def _is_known(authenticator: Authenticator, connect: Connect, connection_type: str) -> bool:
    try:
        authenticator.authenticate(connect, connection_type)
    except AuthError:
        return False
    return True
