"""Who asks, where the server knows users: one connection to it for each identity.

A request names itself in `Authorization`, `Basic` with user and password or `Bearer` with a token.
The server itself judges that, as it does for every client, and what the identity may publish and
subscribe; nothing is served over a connection of somebody else.
"""

import asyncio
import hashlib
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Awaitable, Callable

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


class Identities:
    """The connections in use, by a digest of their credentials.

    When there are too many, the one that was not used for longest is closed.
    """

    def __init__(self, login: Login, make: Callable[[Client], Gateway]) -> None:
        self._login = login
        self._make = make
        self._kept: OrderedDict[bytes, asyncio.Task[_Outcome]] = OrderedDict()

    async def of(self, headers: Headers) -> Gateway:
        """Return what serves a request. Raises Problem 401 or 403."""
        user, password, token = credentials(headers.get("authorization", ""))
        key = hashlib.sha256(f"{len(user)}:{user}{len(token)}:{token}{password}".encode()).digest()
        task = self._kept.get(key)
        if task is not None and task.done() and _is_over(task):
            task = None
        if task is None:
            task = self._kept[key] = spawn(self._open(user, password, token), name="identity")
        self._kept.move_to_end(key)
        outcome = await asyncio.shield(task)
        if isinstance(outcome, Exception):
            self._kept.pop(key, None)
            raise outcome
        return outcome

    async def _open(self, user: str, password: str, token: str) -> _Outcome:
        await self._make_room()
        try:
            client = await self._login(user, password, token)
            await client.flush()
        except ServerRefused:
            return unauthorized("the server does not know these credentials")
        except (ClientError, OSError, TimeoutError):
            return Problem(503, "not-connected", "no connection to the server")
        if client.last_error.lower().startswith("permissions violation for subscription"):
            await client.close()
            return Problem(403, "no-inbox", "this user may not subscribe to _INBOX.>")
        return self._make(client)

    async def _make_room(self) -> None:
        while len(self._kept) > _KEPT_MAX:
            _, task = self._kept.popitem(last=False)
            await _end(task)

    async def close(self) -> None:
        """End every connection."""
        kept, self._kept = list(self._kept.values()), OrderedDict()
        for task in kept:
            await _end(task)


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
    if not task.cancelled() and isinstance(outcome := task.result(), Gateway):
        await outcome.client.close()
