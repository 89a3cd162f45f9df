"""The authentication of a client connection, if users are configured.

No operation is processed before it succeeds, and a timeout closes the connection. Received bytes
are kept until the CONNECT is complete, and while the hash for a password check is computed. Then
they are parsed. The socket is still read meanwhile, because otherwise its end would not be noticed,
but only up to a limit.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from core.auth.authenticator import Identity, SlowCheck
from core.auth.users import AUTH_TIMEOUT
from core.errors import AuthError, ProtocolError
from core.protocol.connect import Connect
from core.protocol.server_parser import Parser
from core.pubsub.password_checks import QueuedCheck
from core.pubsub.server import Connection, Hub
from core.transport.error_texts import AUTHORIZATION_VIOLATION

FAILURE = "Authentication Failure"
_TOO_LATE = "Authentication Timeout"
_BUFFERED_MAX = 32 * 1024
"""Largest number of bytes kept during a password check; above it, reading pauses."""


class Unauthenticated(Connection, Protocol):
    """A session whose client is authenticated by this module.

    Attributes:
        caller: The address to which its password checks are counted; empty: `client_ip`.
        subscriptions: Its subscriptions, which it may have made without a CONNECT.
    """

    hub: Hub
    caller: str
    authentication: "Authentication | None"

    @property
    def subscriptions(self) -> Mapping[bytes, object]: ...
    @property
    def parser(self) -> Parser: ...
    def authorize(self, identity: Identity) -> None: ...
    def use_connect(self, connect: Connect, identity: Identity) -> None: ...
    def use_permissions(self) -> None: ...
    def serve_buffered(self, data: bytes) -> None: ...


class Authentication:
    """Keeps the input of a connection until it is authenticated, or closes it."""

    def __init__(self, session: Unauthenticated, buffered: bytes = b"") -> None:
        self._session = session
        self._buffered = buffered
        self._connect = session.connect
        self._queued: QueuedCheck | None = None
        self._passed: Callable[[], None] = _nothing
        authenticator = session.hub.authenticator_for(session.connection_type)
        timeout = AUTH_TIMEOUT if authenticator is None else authenticator.users.timeout
        self._timer = asyncio.get_running_loop().call_later(timeout, self._too_late)

    def pass_data(self, data: bytes) -> bytes:
        """Add received bytes. Return all kept bytes once they may be parsed, else none.

        They may be parsed when the CONNECT is complete, or if the first operation is another one
        and users may connect without credentials. Raises ProtocolError if they may not.
        """
        data = self._buffered + data
        if self._queued is not None:
            self._buffered = data
            if len(data) > _BUFFERED_MAX:
                self._session.pause()
            return b""
        self._buffered = b""
        if data[:1] in (b"C", b"c"):
            most = self._session.hub.limits.max_control_line + len(b"CONNECT \r")
            if b"\n" not in data and len(data) <= most:
                self._buffered = data
                return b""
        else:
            self._enter_without_connect()
        self._timer.cancel()
        return data

    def _enter_without_connect(self) -> None:
        session = self._session
        authenticator = session.hub.authenticator_for(session.connection_type)
        if authenticator is None:  # a reload has removed the users
            return
        if (identity := authenticator.no_auth_identity()) is None:
            raise ProtocolError(AUTHORIZATION_VIOLATION)
        session.authorize(identity)

    def check(self, check: SlowCheck, connect: Connect, passed: Callable[[], None]) -> None:
        """Queue the password check of a CONNECT.

        If it succeeds, call `passed`; else close the connection.

        The timeout runs while the check waits for a thread, not while the hash is computed.
        """
        session = self._session
        authenticator = session.hub.authenticator_for(session.connection_type)
        assert authenticator is not None, "it wants the check"
        self._connect, self._passed = connect, passed
        address = session.caller or session.client_ip
        self._queued = session.hub.password_checks.submit(authenticator, check, address, self)

    def withdraw_unread(self) -> bytes:
        """Return the kept bytes, and remove them from this object."""
        data, self._buffered = self._buffered, b""
        return data

    def cancel(self) -> None:
        """Stop the timeout and the password check, because the connection is closed."""
        self._timer.cancel()
        if self._queued is not None:
            self._session.hub.password_checks.cancel(self._queued, self)

    def check_begins(self) -> None:
        """Stop the timeout, because a thread now computes the hash of the password."""
        self._timer.cancel()

    def check_ends(self, is_right: bool | None) -> None:
        """Apply the result of the password check: continue, or close the connection.

        None means that the check was dropped because too many were waiting.
        """
        self._timer.cancel()
        if self._session.closed:
            return
        if is_right is None:
            self._too_late()
        elif is_right:
            self._passed()
        else:
            self._session.connect = self._connect
            self._session.close(FAILURE, AUTHORIZATION_VIOLATION)

    def _too_late(self) -> None:
        self._session.close(_TOO_LATE, _TOO_LATE)


def authenticate(session: Unauthenticated, connect: Connect) -> None:
    """Authenticate a session by its CONNECT, immediately or after a password check in a thread.

    Raises:
        ProtocolError: The credentials are wrong.
    """
    if not session.is_connected:
        session.connect = connect
    try:
        found = session.hub.authenticate(connect, session.connection_type)
    except AuthError:
        session.connect = connect
        raise ProtocolError(AUTHORIZATION_VIOLATION) from None
    if isinstance(found, Identity):
        session.use_connect(connect, found)
        return
    session.parser.halt = True  # input behind the CONNECT waits
    session.authentication = Authentication(session)
    session.authentication.check(found, connect, partial(_authenticate_again, session, connect))


def _authenticate_again(session: Unauthenticated, connect: Connect) -> None:
    """Apply a CONNECT whose password is right, unless the users have changed meanwhile."""
    kept = _end(session)
    try:
        authenticate(session, connect)
    except ProtocolError:
        session.close(FAILURE, AUTHORIZATION_VIOLATION)
        return
    session.serve_buffered(kept)


def reauthorize(session: Unauthenticated) -> None:
    """Apply changed users and permissions to a session.

    A session whose credentials no longer suffice is closed. Subscriptions without permission end,
    and deliveries to the others are checked by the new permissions. These apply immediately, even
    while the password of the session is checked again. A session that has sent no CONNECT now has
    to send one.
    """
    if session.closed:  # closing another session has closed this one
        return
    if not session.is_connected:
        if session.authentication is not None:
            return
        parser = session.parser
        if not (session.subscriptions or parser.msgs or parser.begun):
            session.authentication = Authentication(session, parser.withdraw_unread())
            return
    try:
        found = session.hub.authenticate(session.connect, session.connection_type)
    except AuthError:
        session.close(FAILURE, AUTHORIZATION_VIOLATION)
        return
    identity = found if isinstance(found, Identity) else found.identity
    if identity is None:
        session.close(FAILURE, AUTHORIZATION_VIOLATION)
        return
    session.authorize(identity)
    session.use_permissions()
    # A running check applies the current users when it ends.
    if isinstance(found, SlowCheck) and session.authentication is None:
        session.authentication = Authentication(session)
        again = partial(_reauthorize_again, session)
        session.authentication.check(found, session.connect, again)


def _reauthorize_again(session: Unauthenticated) -> None:
    kept = _end(session)
    reauthorize(session)
    if not session.closed:
        session.serve_buffered(kept)


def _end(session: Unauthenticated) -> bytes:
    assert session.authentication is not None, "it has ended now"
    kept = session.authentication.withdraw_unread()
    session.authentication = None
    return kept


def _nothing() -> None:
    """Do nothing: no check was started."""
