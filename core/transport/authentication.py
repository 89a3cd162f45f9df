"""A connection that has to authenticate: nothing is served before that, or too late.

Only where users are configured. The bytes of a connection are kept until its CONNECT is complete,
and while a password is checked for which a hash has to be computed. What was kept goes on to the
parser afterwards. The connection is read meanwhile, since only so its end is noticed, but no
further than a limit.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from core.auth.authenticator import Identity, SlowCheck
from core.auth.users import AUTH_TIMEOUT
from core.errors import AuthError, ProtocolError
from core.protocol.connect import Connect
from core.protocol.parser import Parser
from core.pubsub.password_checks import QueuedCheck
from core.pubsub.server import Connection, Hub
from core.transport.wording import AUTHORIZATION_VIOLATION

FAILURE = "Authentication Failure"
_TOO_LATE = "Authentication Timeout"
_KEPT_MAX = 32 * 1024
"""Bytes of a connection that are kept during a check before it is read no further."""


class Unauthenticated(Connection, Protocol):
    """The session that has to authenticate.

    Attributes:
        caller: the address that its checks count for; empty: `client_ip`.
        subscriptions: those it has made, perhaps without a CONNECT.
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
    def serve_kept(self, data: bytes) -> None: ...


class Authentication:
    """Keeps what one connection sends until it may be served, and closes it when that is late."""

    def __init__(self, session: Unauthenticated, kept: bytes = b"") -> None:
        self._session = session
        self._kept = kept
        self._connect = session.connect
        self._queued: QueuedCheck | None = None
        self._passed: Callable[[], None] = _nothing
        authenticator = session.hub.authenticator_for(session.connection_type)
        timeout = AUTH_TIMEOUT if authenticator is None else authenticator.users.timeout
        self._timer = asyncio.get_running_loop().call_later(timeout, self._too_late)

    def take(self, data: bytes) -> bytes:
        """Keep bytes; return all that came once the connection may be served, else none.

        Raises ProtocolError when it never will be.
        """
        data = self._kept + data
        if self._queued is not None:
            self._kept = data
            if len(data) > _KEPT_MAX:
                self._session.pause()
            return b""
        self._kept = b""
        if data[:1] in (b"C", b"c"):
            most = self._session.hub.limits.max_control_line + len(b"CONNECT \r")
            if b"\n" not in data and len(data) <= most:
                self._kept = data
                return b""
        else:
            self._enter_without_connect()
        self._timer.cancel()
        return data

    def _enter_without_connect(self) -> None:
        session = self._session
        authenticator = session.hub.authenticator_for(session.connection_type)
        if authenticator is None:  # a reload has ended that users are asked for
            return
        if (identity := authenticator.no_auth_identity()) is None:
            raise ProtocolError(AUTHORIZATION_VIOLATION)
        session.authorize(identity)

    def check(self, check: SlowCheck, connect: Connect, passed: Callable[[], None]) -> None:
        """Have the password of a CONNECT checked; then call `passed`, or close the connection.

        The time to authenticate runs while the check waits, not while it is computed.
        """
        session = self._session
        authenticator = session.hub.authenticator_for(session.connection_type)
        assert authenticator is not None, "it wants the check"
        self._connect, self._passed = connect, passed
        address = session.caller or session.client_ip
        self._queued = session.hub.password_checks.submit(authenticator, check, address, self)

    def take_back(self) -> bytes:
        """Return what is kept, and keep it no longer."""
        data, self._kept = self._kept, b""
        return data

    def cancel(self) -> None:
        """Wait for nothing any more: the connection is gone."""
        self._timer.cancel()
        if self._queued is not None:
            self._session.hub.password_checks.cancel(self._queued, self)

    def check_begins(self) -> None:
        """A thread computes the hash now."""
        self._timer.cancel()

    def check_ends(self, is_right: bool | None) -> None:
        """Go on as the check has found."""
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
    """Let a session be who its CONNECT says, at once or after a check.

    Raises:
        ProtocolError: the credentials are wrong.
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
    session.parser.halt = True  # what stands behind it waits
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
    session.serve_kept(kept)


def reauthorize(session: Unauthenticated) -> None:
    """Apply users and permissions that have changed.

    Who could not connect now is closed; subscriptions that are no longer allowed end, and what the
    others are given is checked by the new permissions. These hold at once, also while the password
    of the connection has to be checked again. Who has yet to send a CONNECT is asked for it.
    """
    if session.closed:  # by another one's end
        return
    if not session.is_connected:
        if session.authentication is not None:
            return
        parser = session.parser
        if not (session.subscriptions or parser.msgs or parser.begun):
            session.authentication = Authentication(session, parser.take_back())
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
    # A check that is under way judges by the users of now when it has ended.
    if isinstance(found, SlowCheck) and session.authentication is None:
        session.authentication = Authentication(session)
        again = partial(_reauthorize_again, session)
        session.authentication.check(found, session.connect, again)


def _reauthorize_again(session: Unauthenticated) -> None:
    kept = _end(session)
    reauthorize(session)
    if not session.closed:
        session.serve_kept(kept)


def _end(session: Unauthenticated) -> bytes:
    assert session.authentication is not None, "it has ended now"
    kept = session.authentication.take_back()
    session.authentication = None
    return kept


def _nothing() -> None:
    """No check was begun."""
