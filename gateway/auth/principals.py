"""One connection to the server for each principal.

The server authenticates it as any client, and applies the principal's permissions. No request is
served over a connection of another principal.
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
"""Connects with (user, password, token, address); the first three are empty if not given.

The address is that of the HTTP client. Raises ServerRefused with the server's message.
"""

_REFUSALS = (
    "authorization violation",
    "user authentication expired",
    "user authentication revoked",
    "account authentication expired",
)


@dataclass(frozen=True, slots=True)
class PrincipalConnection:
    """An open connection.

    Attributes:
        can_receive_replies: True if the user may subscribe to inboxes for replies.
        permissions: The permissions at the start, for comparison.
    """

    gateway: Gateway
    can_receive_replies: bool
    rights: Rights | None
    permissions: object


_Outcome = PrincipalConnection | Problem


class Principal:
    """The connection of one principal, with its number of users (requests, sockets)."""

    __slots__ = ("credentials", "key", "opening", "revocation", "users")

    def __init__(self, credentials: Credentials, opening: "asyncio.Task[_Outcome]") -> None:
        self.credentials = credentials
        self.key = credentials.key
        self.opening = opening
        self.users = 0
        self.revocation = Revocation()

    @property
    def is_closed(self) -> bool:
        """True if the connection is closed or could not be opened."""
        if not self.opening.done():
            return False
        if self.opening.cancelled() or self.opening.exception() is not None:
            return True
        outcome = self.opening.result()
        return isinstance(outcome, Problem) or outcome.gateway.client.closed

    @property
    def connection(self) -> PrincipalConnection | None:
        """The connection; None while it opens, or if it failed or is closed."""
        if not self.opening.done() or self.is_closed:
            return None
        outcome = self.opening.result()
        return outcome if isinstance(outcome, PrincipalConnection) else None


class Principals:
    """The principals with open connections, by a digest of their credentials.

    Every principal in use has a connection. Of the idle ones, the longest idle are closed if there
    are more than `idle_max`. `revoked` is called with the key of a principal that the server no
    longer accepts.
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
        """Return whether the connection of a principal is open or opening."""
        principal = self._by_key.get(key)
        return principal is not None and not principal.is_closed

    async def acquire(
        self, credentials: Credentials, scope: Scope
    ) -> tuple[Principal, PrincipalConnection]:
        """Acquire the connection of a principal, until `release`.

        Raises:
            Problem: 401 for unknown credentials; 503 if the server cannot verify them now.
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
        """Release the connection that a request or socket has acquired."""
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
        """Close the connection and end all responses of a principal that the server refuses now."""
        self._forget(principal)
        self._revoked(principal.key)
        spawn(_end(principal, RevocationReason.REVOKED), name="principal end")

    def reconnect(self, principal: Principal) -> None:
        """Open a new connection for the next requests; end long responses, which may restart."""
        self._forget(principal)
        principal.revocation.revoke(RevocationReason.CHANGED)
        if not principal.users:
            spawn(_end(principal, RevocationReason.CHANGED), name="principal end")

    def users_changed(self) -> None:
        """Renew the principals whose permissions have changed."""
        for principal in list(self._by_key.values()):
            if (connection := principal.connection) is not None:
                self._compare(principal, connection)

    def _compare(self, principal: Principal, connection: PrincipalConnection) -> None:
        """Renew a principal if its permissions differ from those at the start.

        A principal without a connection is compared when it is connected again.
        """
        rights = connection.rights
        if rights and rights.is_connected and rights.permissions != connection.permissions:
            self.reconnect(principal)

    async def close(self) -> None:
        """Close every connection."""
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
        """Revoke or compare a principal when its connection is lost or restored."""
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
    """Return the address of the client; empty if it is unknown."""
    client = scope.get("client")
    return str(client[0]) if client else ""


async def _outcome(principal: Principal, scope: Scope) -> _Outcome:
    """Wait for a connection to open. Raises Disconnected if the client disconnects before."""
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
