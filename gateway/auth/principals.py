"""One connection to the server for each identity.

The server authenticates it as any client, and applies the identity's permissions. No request is
served over a connection of another identity.
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
from gateway.auth.permissions import Rights, RightsOf
from gateway.auth.revocation import Ending, Endings
from gateway.http.disconnects import Disconnected, told_of_end
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
class Opened:
    """An open connection.

    Attributes:
        can_ask: True if the user may subscribe to inboxes for replies.
        permissions: The permissions at the start, for comparison.
    """

    gateway: Gateway
    can_ask: bool
    rights: Rights | None
    permissions: object


_Outcome = Opened | Problem


class Identity:
    """The connection of one identity, with its number of users (requests, sockets)."""

    __slots__ = ("credentials", "endings", "key", "opening", "users")

    def __init__(self, credentials: Credentials, opening: "asyncio.Task[_Outcome]") -> None:
        self.credentials = credentials
        self.key = credentials.key
        self.opening = opening
        self.users = 0
        self.endings = Endings()

    @property
    def is_over(self) -> bool:
        """True if the connection is closed or could not be opened."""
        if not self.opening.done():
            return False
        if self.opening.cancelled() or self.opening.exception() is not None:
            return True
        outcome = self.opening.result()
        return isinstance(outcome, Problem) or outcome.gateway.client.closed

    @property
    def opened(self) -> Opened | None:
        """The connection; None while it opens, or if it failed or is closed."""
        if not self.opening.done() or self.is_over:
            return None
        outcome = self.opening.result()
        return outcome if isinstance(outcome, Opened) else None


class Identities:
    """The identities with open connections, by a digest of their credentials.

    Every identity in use has a connection. Of the idle ones, the longest idle are closed if there
    are more than `idle_max`. `revoked` is called with the key of an identity that the server no
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
        self._all: dict[bytes, Identity] = {}
        self._idle: OrderedDict[bytes, Identity] = OrderedDict()

    def knows(self, key: bytes) -> bool:
        """Return whether the connection of an identity is open or opening."""
        identity = self._all.get(key)
        return identity is not None and not identity.is_over

    async def take(self, credentials: Credentials, scope: Scope) -> tuple[Identity, Opened]:
        """Acquire the connection of an identity, until `give_back`.

        Raises:
            Problem: 401 for unknown credentials; 503 if the server cannot verify them now.
            Disconnected: The client has disconnected.
        """
        key = credentials.key
        identity = self._all.get(key)
        if identity is None or identity.is_over:
            opening = spawn(self._open(credentials, host_of(scope)), name="identity")
            identity = self._all[key] = Identity(credentials, opening)
        self._idle.pop(key, None)
        identity.users += 1
        try:
            outcome = await _outcome(identity, scope)
            if isinstance(outcome, Problem):
                if self._all.get(key) is identity:
                    del self._all[key]
                raise outcome
        except BaseException:
            self.give_back(identity)
            raise
        return identity, outcome

    def give_back(self, identity: Identity) -> None:
        """Release the connection that a request or socket has acquired."""
        identity.users -= 1
        if identity.users:
            return
        if not identity.opening.done():  # nobody waits for it any more
            self._forget(identity)
            identity.opening.cancel()
            return
        if self._all.get(identity.key) is not identity:
            spawn(_end(identity, Ending.CLOSED), name="identity end")
            return
        self._idle[identity.key] = identity
        while len(self._idle) > self._idle_max:
            key, oldest = self._idle.popitem(last=False)
            del self._all[key]
            spawn(_end(oldest, Ending.CLOSED), name="identity end")

    def revoke(self, identity: Identity) -> None:
        """Close the connection and end all responses of an identity that the server refuses now."""
        self._forget(identity)
        self._revoked(identity.key)
        spawn(_end(identity, Ending.REVOKED), name="identity end")

    def renew(self, identity: Identity) -> None:
        """Open a new connection for the next requests; end long responses, which may restart."""
        self._forget(identity)
        identity.endings.end(Ending.CHANGED)
        if not identity.users:
            spawn(_end(identity, Ending.CHANGED), name="identity end")

    def users_changed(self) -> None:
        """Renew the identities whose permissions have changed."""
        for identity in list(self._all.values()):
            if (opened := identity.opened) is not None:
                self._compare(identity, opened)

    def _compare(self, identity: Identity, opened: Opened) -> None:
        """Renew an identity if its permissions differ from those at the start.

        An identity without a connection is compared when it is connected again.
        """
        rights = opened.rights
        if rights and rights.is_connected and rights.permissions != opened.permissions:
            self.renew(identity)

    async def close(self) -> None:
        """Close every connection."""
        everybody, self._all, self._idle = list(self._all.values()), {}, OrderedDict()
        for identity in everybody:
            await _end(identity, Ending.CLOSED)

    def _forget(self, identity: Identity) -> None:
        if self._all.get(identity.key) is identity:
            del self._all[identity.key]
            self._idle.pop(identity.key, None)

    async def _open(self, credentials: Credentials, address: str) -> _Outcome:
        said = credentials.user, credentials.password, credentials.token
        try:
            client = await self._login(*said, address)
            await client.flush()
        except ServerRefused as error:
            if str(error).lower().startswith(_REFUSALS):
                return unauthorized("the server does not know these credentials")
            retry = {"Retry-After": "1"}
            detail = f"signing in: the server says {str(error)!r}"
            return Problem(503, "too-many-at-once", detail, headers=retry)
        except (ClientError, OSError, TimeoutError):
            headers = {"Retry-After": "1"}
            return Problem(503, "not-connected", "no connection to the server", headers=headers)
        refused = client.last_error.lower().startswith("permissions violation for subscription")
        client.changed.subscribe(lambda: self._changed(credentials.key, client))
        rights = None if self._rights is None else self._rights(client)
        permissions = None if rights is None else rights.permissions
        return Opened(self._make(client), not refused, rights, permissions)

    def _changed(self, key: bytes, client: Client) -> None:
        """Revoke or compare an identity when its connection is lost or restored."""
        identity = self._all.get(key)
        opened = None if identity is None else identity.opened
        if identity is None or opened is None or opened.gateway.client is not client:
            return
        if client.connected:
            self._compare(identity, opened)
            return
        if client.last_error.lower().startswith(_REFUSALS):
            self.revoke(identity)


def host_of(scope: Scope) -> str:
    """Return the address of the client; empty if it is unknown."""
    client = scope.get("client")
    return str(client[0]) if client else ""


async def _outcome(identity: Identity, scope: Scope) -> _Outcome:
    """Wait for a connection to open. Raises Disconnected if the client disconnects before."""
    opening = identity.opening
    if not opening.done():
        gone: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        with told_of_end(scope, partial(_set, gone)):
            await asyncio.wait((opening, gone), return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            raise Disconnected
    return opening.result()


def _set(gone: "asyncio.Future[bool]") -> None:
    if not gone.done():
        gone.set_result(True)


async def _end(identity: Identity, reason: Ending) -> None:
    await asyncio.wait([identity.opening])
    identity.endings.end(reason)
    if (opened := identity.opened) is not None:
        await opened.gateway.client.close()
