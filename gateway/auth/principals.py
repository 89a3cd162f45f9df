"""NATS connections of principals: one connection for each set of credentials in use.

The NATS server authenticates it like any client's, and applies the principal's permissions.
Requests of one principal never use the connection of another.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from starlette.types import Scope

from core.client import Client, ClientError, ServerRefused
from core.runtime.tasks import spawn
from gateway.auth.credentials import Credentials, unauthorized
from gateway.auth.revocation import Revocation, RevocationReason
from gateway.auth.rights import Rights, RightsOf
from gateway.http.disconnects import Disconnected, on_disconnect
from gateway.http.problems import Problem
from gateway.services import Gateway

Login = Callable[[str, str, str, str], Awaitable[Client]]
"""Connects to the NATS server with (user, password, token, address).

The first three are empty if not given. The address is that of the HTTP client. Raises ServerRefused
with the message of the server's -ERR.
"""

_REFUSALS = (
    "authorization violation",
    "user authentication expired",
    "user authentication revoked",
    "account authentication expired",
)


@dataclass(frozen=True, slots=True)
class PrincipalConnection:
    """An open NATS connection that is authenticated by the credentials of HTTP requests.

    Attributes:
        gateway: The services over this connection.
        can_receive_replies: True if the user may subscribe to inboxes for replies.
        rights: The current permissions; None if they cannot be read.
        permissions: The permissions when the connection opened, to detect a later change.
    """

    gateway: Gateway
    can_receive_replies: bool
    rights: Rights | None
    permissions: object


_Outcome = PrincipalConnection | Problem


class Principal:
    """The NATS connection for one set of credentials; all requests with them share it.

    It counts the requests and WebSockets that use it now.
    """

    __slots__ = ("credentials", "key", "opening", "revocation", "users")

    def __init__(self, credentials: Credentials, opening: "asyncio.Task[_Outcome]") -> None:
        self.credentials = credentials
        self.key = credentials.key
        self.opening = opening
        self.users = 0
        self.revocation = Revocation()

    @property
    def is_closed(self) -> bool:
        """True if the NATS connection is closed or could not be opened."""
        if not self.opening.done():
            return False
        if self.opening.cancelled() or self.opening.exception() is not None:
            return True
        outcome = self.opening.result()
        return isinstance(outcome, Problem) or outcome.gateway.client.closed

    @property
    def connection(self) -> PrincipalConnection | None:
        """The open NATS connection; None while it is being opened, or if it failed or is closed."""
        if not self.opening.done() or self.is_closed:
            return None
        outcome = self.opening.result()
        return outcome if isinstance(outcome, PrincipalConnection) else None


class Principals:
    """The NATS connections of all principals, by the digest of their credentials.

    The connection of a principal without open requests stays open for later ones. If there are more
    than `idle_max` such connections, those idle longest are closed. `revoked` is called with the
    digest when the NATS server no longer accepts the credentials.
    """

    def __init__(
        self,
        login: Login,
        make: Callable[[Client], Gateway],
        *,
        rights: RightsOf | None,
        idle_max: int,
        revoked: Callable[[bytes], None],
    ) -> None:
        self._revoked = revoked
        self._login = login
        self._make = make
        self._rights = rights
        self._idle_max = idle_max
        self._by_key: dict[bytes, Principal] = {}
        self._idle: OrderedDict[bytes, Principal] = OrderedDict()

    def has_connection(self, key: bytes) -> bool:
        """Return True if the NATS connection for these credentials is open or being opened."""
        principal = self._by_key.get(key)
        return principal is not None and not principal.is_closed

    async def acquire(
        self, credentials: Credentials, scope: Scope
    ) -> tuple[Principal, PrincipalConnection]:
        """Return the NATS connection for these credentials, opened if needed; end with `release`.

        Raises:
            Problem: 401 for unknown credentials; 503 if the NATS server cannot verify them now.
            Disconnected: The client has disconnected.
        """
        key = credentials.key
        principal = self._by_key.get(key)
        if principal is None or principal.is_closed:
            opening = spawn(self._open(credentials, host_of(scope)), name="principal")
            principal = self._by_key[key] = Principal(credentials, opening)
        self._idle.pop(key, None)
        principal.users += 1
        try:
            outcome = await _outcome(principal, scope)
            if isinstance(outcome, Problem):
                if self._by_key.get(key) is principal:
                    del self._by_key[key]
                raise outcome
        except BaseException:
            self.release(principal)
            raise
        return principal, outcome

    def release(self, principal: Principal) -> None:
        """Release a connection after the request or socket that acquired it has ended."""
        principal.users -= 1
        if principal.users:
            return
        if not principal.opening.done():  # nobody waits for it any more
            self._forget(principal)
            principal.opening.cancel()
            return
        if self._by_key.get(principal.key) is not principal:
            spawn(_end(principal, RevocationReason.CLOSED), name="principal end")
            return
        self._idle[principal.key] = principal
        while len(self._idle) > self._idle_max:
            key, oldest = self._idle.popitem(last=False)
            del self._by_key[key]
            spawn(_end(oldest, RevocationReason.CLOSED), name="principal end")

    def revoke(self, principal: Principal) -> None:
        """Close the NATS connection and all responses of a principal whose credentials are refused
        now.
        """
        self._forget(principal)
        self._revoked(principal.key)
        spawn(_end(principal, RevocationReason.REVOKED), name="principal end")

    def reconnect(self, principal: Principal) -> None:
        """Revoke open streaming responses of a principal, and use a new connection for its next
        requests.

        The clients may request the responses again.
        """
        self._forget(principal)
        principal.revocation.revoke(RevocationReason.CHANGED)
        if not principal.users:
            spawn(_end(principal, RevocationReason.CHANGED), name="principal end")

    def users_changed(self) -> None:
        """Reconnect each principal whose permissions differ from those at the start of its
        connection.
        """
        for principal in list(self._by_key.values()):
            if (connection := principal.connection) is not None:
                self._compare(principal, connection)

    def _compare(self, principal: Principal, connection: PrincipalConnection) -> None:
        """Reconnect a principal if its permissions differ from those at the start of its
        connection.

        While the connection is lost nothing is compared; `_changed` compares after it is restored.
        """
        rights = connection.rights
        if rights and rights.is_connected and rights.permissions != connection.permissions:
            self.reconnect(principal)

    async def close(self) -> None:
        """Close the NATS connections of all principals, and end their responses."""
        everybody, self._by_key, self._idle = list(self._by_key.values()), {}, OrderedDict()
        for principal in everybody:
            await _end(principal, RevocationReason.CLOSED)

    def _forget(self, principal: Principal) -> None:
        if self._by_key.get(principal.key) is principal:
            del self._by_key[principal.key]
            self._idle.pop(principal.key, None)

    async def _open(self, credentials: Credentials, address: str) -> _Outcome:
        credentials_given = credentials.user, credentials.password, credentials.token
        try:
            client = await self._login(*credentials_given, address)
            await client.flush()
        except ServerRefused as error:
            if str(error).lower().startswith(_REFUSALS):
                return unauthorized("the server does not know these credentials")
            retry = {"Retry-After": "1"}
            detail = f"the server refused the connection of this user: {str(error)!r}"
            return Problem(503, "too-many-at-once", detail, headers=retry)
        except (ClientError, OSError, TimeoutError):
            headers = {"Retry-After": "1"}
            return Problem(
                503,
                "not-connected",
                "this node has no connection to its NATS server",
                headers=headers,
            )
        refused = client.last_error.lower().startswith("permissions violation for subscription")
        client.changed.subscribe(lambda: self._changed(credentials.key, client))
        rights = None if self._rights is None else self._rights(client)
        permissions = None if rights is None else rights.permissions
        return PrincipalConnection(self._make(client), not refused, rights, permissions)

    def _changed(self, key: bytes, client: Client) -> None:
        """Handle a lost or restored NATS connection: revoke refused credentials, compare
        permissions.
        """
        principal = self._by_key.get(key)
        connection = None if principal is None else principal.connection
        if principal is None or connection is None or connection.gateway.client is not client:
            return
        if client.connected:
            self._compare(principal, connection)
            return
        if client.last_error.lower().startswith(_REFUSALS):
            self.revoke(principal)


def host_of(scope: Scope) -> str:
    """Return the network address of the HTTP client of an ASGI scope; empty if it is unknown."""
    client = scope.get("client")
    return str(client[0]) if client else ""


async def _outcome(principal: Principal, scope: Scope) -> _Outcome:
    """Wait until a NATS connection opens or fails. Raises Disconnected if the HTTP client
    disconnects.
    """
    opening = principal.opening
    if not opening.done():
        gone: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        with on_disconnect(scope, partial(_set, gone)):
            await asyncio.wait((opening, gone), return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            raise Disconnected
    return opening.result()


def _set(gone: "asyncio.Future[bool]") -> None:
    if not gone.done():
        gone.set_result(True)


async def _end(principal: Principal, reason: RevocationReason) -> None:
    await asyncio.wait([principal.opening])
    principal.revocation.revoke(reason)
    if (connection := principal.connection) is not None:
        await connection.gateway.client.close()
