"""Who asks, where the server knows users: one connection to it for each identity.

A request names itself in `Authorization`, `Basic` with user and password or `Bearer` with a token.
The server itself judges that, as it does for every client, and what the identity may publish and
subscribe; nothing is served over a connection of somebody else.
"""

import asyncio
import hashlib
from base64 import b64decode
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.datastructures import Headers

from core.client import Client, ClientError, ServerRefused
from core.runtime.tasks import spawn
from gateway.call import Gateway
from gateway.problems import Problem

Login = Callable[[str, str, str], Awaitable[Client]]
"""Connects as user, password, token (those not given are empty). Raises ServerRefused."""

_Outcome = Gateway | Problem
_KEPT_MAX = 256
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="jetgate", Bearer realm="jetgate"'}


class _Kept:
    """The connection of one identity, and how many requests it serves now."""

    __slots__ = ("opening", "users")

    def __init__(self, opening: "asyncio.Task[_Outcome]") -> None:
        self.opening = opening
        self.users = 0


class Identities:
    """The connections in use, by a digest of their credentials.

    When there are too many, those that were not used for longest are closed; none that serves a
    request is.
    """

    def __init__(self, login: Login, make: Callable[[Client], Gateway]) -> None:
        self._login = login
        self._make = make
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()

    @asynccontextmanager
    async def use(self, headers: Headers) -> AsyncIterator[Gateway]:
        """Lend what serves a request, until it is answered. Raises Problem 401 or 403."""
        user, password, token = credentials(headers.get("authorization", ""))
        key = hashlib.sha256(f"{len(user)}:{user}{len(token)}:{token}{password}".encode()).digest()
        kept = self._kept.get(key)
        if kept is None or (kept.opening.done() and _is_over(kept.opening)):
            kept = _Kept(spawn(self._open(user, password, token), name="identity"))
            self._kept[key] = kept
        self._kept.move_to_end(key)
        kept.users += 1
        try:
            outcome = await asyncio.shield(kept.opening)
            if isinstance(outcome, Problem):
                if self._kept.get(key) is kept:
                    del self._kept[key]
                raise outcome
            yield outcome
        finally:
            kept.users -= 1
            self._make_room()

    async def _open(self, user: str, password: str, token: str) -> _Outcome:
        try:
            client = await self._login(user, password, token)
            await client.flush()
        except ServerRefused:
            return unauthorized("the server does not know these credentials")
        except (ClientError, OSError, TimeoutError):
            headers = {"Retry-After": "1"}
            return Problem(503, "not-connected", "no connection to the server", headers=headers)
        if client.last_error.lower().startswith("permissions violation for subscription"):
            await client.close()
            return Problem(403, "no-inbox", "this user may not subscribe to _INBOX.>")
        return self._make(client)

    def _make_room(self) -> None:
        while len(self._kept) > _KEPT_MAX:
            idle = next((key for key, kept in self._kept.items() if not kept.users), None)
            if idle is None:
                return
            spawn(_end(self._kept.pop(idle).opening), name="identity end")

    async def close(self) -> None:
        """End every connection."""
        all_kept, self._kept = list(self._kept.values()), OrderedDict()
        for kept in all_kept:
            await _end(kept.opening)


def credentials(authorization: str) -> tuple[str, str, str]:
    """Read the header: user, password, token. Raises Problem 401."""
    scheme, _, value = authorization.strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return "", "", value
    if scheme.lower() == "basic" and value:
        try:
            user, colon, password = b64decode(value, validate=True).decode().partition(":")
        except ValueError:
            raise unauthorized("Authorization: Basic needs base64 of user:password") from None
        if colon:
            return user, password, ""
    raise unauthorized("Authorization: Basic or Bearer credentials are needed")


def unauthorized(detail: str) -> Problem:
    """A 401."""
    return Problem(401, "unauthorized", detail, headers=_CHALLENGE)


def _is_over(task: "asyncio.Task[_Outcome]") -> bool:
    if task.cancelled() or task.exception() is not None:
        return True
    outcome = task.result()
    return isinstance(outcome, Problem) or outcome.client.closed


async def _end(task: "asyncio.Task[_Outcome]") -> None:
    await asyncio.wait([task])
    if task.cancelled() or task.exception() is not None:
        return
    if isinstance(outcome := task.result(), Gateway):
        await outcome.client.close()
