"""One test body, played against the reference server and against jetgate, and what both answered.

A body is a coroutine function that gets a `Place`. It asserts what it knows, and returns what the
server said (without times and generated names); both servers must have said the same.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from itertools import zip_longest
from typing import Any

from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerInfo

from tests.clients.python.watchers import attentive
from tests.support.eventually import observed
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.wire.transcript import clean

Server = JetgateServer | NatsServer
TIMEOUT = 20
_VARIES = {"created", "cluster", "time", "last_active", "pause_remaining", "timestamp"}


class Place:
    """One server as a body sees it; its connections end with the body."""

    def __init__(self, server: Server | None = None, *, at: tuple[str, int] = ("", 0)) -> None:
        self.address = server.address if server else at
        self.url = "nats://{}:{}".format(*self.address)
        self.errors: list[Exception] = []
        self._clients: list[Client] = []

    async def connect(self, url: str | list[str] = "", **options: Any) -> Client:
        """A connection; errors that nobody waits for are gathered in `errors`."""
        client = Client()
        self._clients.append(client)
        defaults: dict[str, Any] = {"error_cb": self._note, "connect_timeout": TIMEOUT}
        await client.connect(url or self.url, **defaults | options)
        return client

    async def jetstream(self, **options: Any) -> JetStreamContext:
        """A JetStream context over a connection of its own."""
        return (await self.connect()).jetstream(**{"timeout": TIMEOUT} | options)

    async def _note(self, error: Exception) -> None:
        self.errors.append(error)

    async def close(self) -> None:
        for client in self._clients:
            if not client.is_closed:
                await client.close()


Body = Callable[[Place], Awaitable[Any]]


def on_both(body: Body) -> Callable[[NatsServer, JetgateServer], None]:
    """Make a test of a body: the reference server first, since it is right."""

    def test(nats_server: NatsServer, jetgate_server: JetgateServer) -> None:
        expected = play(nats_server, body)
        answered = play(jetgate_server, body)
        assert not list(differences(answered, expected))

    test.__name__ = body.__name__
    test.__doc__ = body.__doc__
    test.__module__ = body.__module__
    return test


def play(server: Server, body: Body) -> Any:
    """Play a body against one server and leave that empty."""

    async def run() -> Any:
        place = Place(server)
        try:
            return await asyncio.wait_for(body(place), 60)
        finally:
            await place.close()

    try:
        with attentive(server):
            return asyncio.run(run())
    finally:
        clean(server)


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where two answers differ, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in {**ours, **theirs}:
            yield from differences(ours.get(name), theirs.get(name), f"{path}.{name}")
    elif isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        for i, (left, right) in enumerate(zip_longest(ours, theirs)):
            yield from differences(left, right, f"{path}[{i}]")
    elif ours != theirs:
        yield f"{path}: jetgate {ours!r:.300}, nats-server {theirs!r:.300}"


async def until(observe: Callable[[], Any], within: float = TIMEOUT) -> Any:
    """Wait until something is true, without a word to the server."""
    return await observed(observe, within=within)


async def consumer(js: JetStreamContext, stream: str, name: str, **wanted: Any) -> ConsumerInfo:
    """What the server tells of a consumer once these members are so.

    What was sent before a question may be counted a little after its answer.
    """

    async def look() -> ConsumerInfo | None:
        info = await js.consumer_info(stream, name)
        told = {name: getattr(info, name) or 0 for name in wanted}  # what is 0 is left out
        return info if told == wanted else None

    found: ConsumerInfo = await until(look)
    return found


async def through(nc: Client) -> None:
    """Wait until the server has seen what was sent; `flush` may overtake what is buffered."""
    inbox = nc.new_inbox()
    sub = await nc.subscribe(inbox)
    await nc.publish(inbox, b"")
    await sub.next_msg(TIMEOUT)
    await sub.unsubscribe()


def stable(value: Any) -> Any:
    """An answer of the server as plain values, without what differs from run to run."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return stable(named)
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k not in _VARIES and not k.startswith("_nats.")}
        return {name: stable(member) for name, member in kept.items() if member is not None}
    if isinstance(value, list | tuple):
        return [stable(member) for member in value]
    return value.value if isinstance(value, Enum) else value
