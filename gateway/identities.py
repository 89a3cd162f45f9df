"""One connection to the server for each identity that asks.

The server itself judges who somebody is, as it does for every client, and what the identity may
publish and subscribe; nothing is served over a connection of somebody else.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from starlette.types import Scope

from core.client import Client, ClientError, ServerRefused
from core.runtime.tasks import spawn
from gateway.call import Disconnected, Gateway
from gateway.presence import told_of_end
from gateway.problems import Problem
from gateway.signin.credentials import Credentials, unauthorized
from gateway.signin.endings import Ending, Endings
from gateway.signin.rights import Rights, RightsOf

Login = Callable[[str, str, str, str], Awaitable[Client]]
"""Connects as user, password, token (those not given are empty), for who asks from an address.

Raises:
    ServerRefused: in the server's words.
"""

_REFUSALS = (
    "authorization violation",
    "user authentication expired",
    "user authentication revoked",
    "account authentication expired",
)


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection.

    `can_ask`: whether the user may subscribe to the answers of requests. `permissions`: those it
    was opened with, to be compared.
    """

    gateway: Gateway
    can_ask: bool
    rights: Rights | None
    permissions: object


_Outcome = Opened | Problem


class Identity:
    """The connection of one identity, how many requests it serves now, and who is told its end."""

    __slots__ = ("credentials", "endings", "key", "opening", "users")

    def __init__(self, credentials: Credentials, opening: "asyncio.Task[_Outcome]") -> None:
        self.credentials = credentials
        self.key = credentials.key
        self.opening = opening
        self.users = 0
        self.endings = Endings()

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended, or could not be made."""
        if not self.opening.done():
            return False
        if self.opening.cancelled() or self.opening.exception() is not None:
            return True
        outcome = self.opening.result()
        return isinstance(outcome, Problem) or outcome.gateway.client.closed

    @property
    def opened(self) -> Opened | None:
        """The connection, if there is one."""
        if not self.opening.done() or self.is_over:
            return None
        outcome = self.opening.result()
        return outcome if isinstance(outcome, Opened) else None


class Identities:
    """The identities whose connections are open, by a digest of their credentials.

    However many are served at once, each has its connection. Of those that are not, the ones that
    were not for longest are closed when there are more than `idle_max`. `revoked` is called with
    the key of an identity that the server no longer knows.
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
        """Whether the connection of an identity is open, or being opened."""
        identity = self._all.get(key)
        return identity is not None and not identity.is_over

    async def take(self, credentials: Credentials, scope: Scope) -> tuple[Identity, Opened]:
        """Take the connection of an identity, until `give_back`.

        Raises:
            Problem: 401 it is not known; 503 it cannot be known now.
            Disconnected: the caller has gone meanwhile.
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
        """Say that a request, or a socket, no longer needs what it took."""
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
        """Close the connection of who is no longer known, and what lasts as long as it."""
        self._forget(identity)
        self._revoked(identity.key)
        spawn(_end(identity, Ending.REVOKED), name="identity end")

    def renew(self, identity: Identity) -> None:
        """Serve who asks next over a new connection; what lasts ends, and may begin again."""
        self._forget(identity)
        identity.endings.end(Ending.CHANGED)
        if not identity.users:
            spawn(_end(identity, Ending.CHANGED), name="identity end")

    def users_changed(self) -> None:
        """Renew the identities whose permissions are others now."""
        for identity in list(self._all.values()):
            if (opened := identity.opened) is not None:
                self._compare(identity, opened)

    def _compare(self, identity: Identity, opened: Opened) -> None:
        """Renew an identity whose permissions are others than those it was opened with.

        One whose connection was lost is compared when it is there again.
        """
        rights = opened.rights
        if rights and rights.is_connected and rights.permissions != opened.permissions:
            self.renew(identity)

    async def close(self) -> None:
        """End every connection."""
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
        """Look whether a connection was lost because its user is no longer known, or is there
        again for one with other permissions."""
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
    """The address of who asks; empty: it is not known."""
    client = scope.get("client")
    return str(client[0]) if client else ""


async def _outcome(identity: Identity, scope: Scope) -> _Outcome:
    """What becomes of opening a connection. Raises Disconnected when the caller goes before."""
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
