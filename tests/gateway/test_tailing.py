"""A user who may subscribe to some subjects, and nothing else, follows the stream that has them."""

import asyncio
from functools import partial
from typing import Any

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.client import Client, NotPermitted, Options, attach, connect
from core.model.consumer import ConsumerConfig, NextRequest
from core.model.stream import StreamConfig
from core.server import ServerOptions
from core.transport.loopback import connect_trusted
from gateway.app import create_app
from gateway.door import Door
from gateway.problems import Problem
from gateway.tailing import Tail, tail_of
from jetgate.login import login_to, rights_in
from tests.gateway.serving import SETTINGS
from tests.gateway.test_door import _scope, _unreachable
from tests.support.node import add_stream, running_node

_SECOND = 1_000_000_000
READER = Permissions(Rule(()), Rule(("chat.>",), ("chat.secret.>",)))
USERS = Users(
    users=(
        User("boss", "b"),
        User("reader", "r", READER),
        User("stranger", "s", Permissions(Rule(()), Rule(("other.>",)))),
    )
)


async def _with_door(dsn: str, use: Any) -> None:
    async with running_node(dsn, server=ServerOptions(port=0, users=USERS)) as node:
        hub = node.hub
        server = await connect(attach(partial(connect_trusted, hub)))
        nowhere = Client(attach(_unreachable), Options())
        app = create_app(
            SETTINGS, nowhere, login=login_to(hub), rights=rights_in(hub), server=server
        )
        door: Door = app.state.door
        for name, subjects in (("CHAT", ("chat.>", "orders.>")), ("ROOM", ("room.*",))):
            await add_stream(node, StreamConfig(name=name, subjects=subjects))
        await add_stream(node, StreamConfig(name="SMALL", subjects=("chats.>",)))
        try:
            async with asyncio.timeout(60):
                await use(door)
        finally:
            await door.close()
            await server.close()


async def _read(tail: Tail, count: int) -> list[str]:
    """Read so many messages as the reader's endpoint would, and leave out what may not be shown."""
    config = ConsumerConfig(name="T", filter_subjects=tail.filters)
    await tail.js.create_consumer(tail.stream, config)
    fetched = await tail.js.fetch(tail.stream, "T", NextRequest(batch=count, expires=20 * _SECOND))
    await tail.js.delete_consumer(tail.stream, "T")
    subjects = [message.subject for message in fetched.messages]
    return [s.decode() for s in subjects if tail.may_read is None or tail.may_read(s)]


async def _refusal(door: Door, user: str, *asked: str) -> str:
    async with door.enter(_scope(user)) as caller:
        with pytest.raises(Problem) as caught:
            await tail_of(caller, *asked)
    return f"{caught.value.kind}: {caught.value.detail}"


def test_who_may_only_subscribe_follows_a_stream(database: str) -> None:
    async def use(door: Door) -> None:
        async with door.enter(_scope("boss")) as boss:
            for subject in (b"chat.a", b"orders.1", b"chat.secret.b", b"chat.c"):
                await boss.gateway.js.publish(subject, b"x")
        async with door.enter(_scope("reader")) as reader:
            assert not reader.can_ask
            with pytest.raises(NotPermitted):
                await reader.gateway.js.stream_info("CHAT")
            tail = await tail_of(reader, "chat.>")
            assert tail.stream == "CHAT"
            assert await _read(tail, 3) == ["chat.a", "chat.c"]

    asyncio.run(_with_door(database, use))


def test_nothing_else_is_told(database: str) -> None:
    async def use(door: Door) -> None:
        no = "not-permitted: not permitted: subscribing to what is read here"
        for asked in (
            ("orders.>",),
            (">",),
            ("room.a",),
            ("nowhere.a",),
            ("chat.secret.b",),
            ("", "CHAT"),  # it has orders too
            ("", "ROOM"),
            ("", "NOWHERE"),
            ("orders.1", "CHAT"),
            ("nowhere", "NOWHERE"),
        ):
            assert await _refusal(door, "reader", *asked) == no
        assert await _refusal(door, "stranger", "chat.>") == no

    asyncio.run(_with_door(database, use))


def test_who_may_do_everything_reads_whole_streams(database: str) -> None:
    async def use(door: Door) -> None:
        async with door.enter(_scope("boss")) as boss:
            await boss.gateway.js.publish(b"orders.1", b"x")
            tail = await tail_of(boss, "", "CHAT")
            assert (tail.filters, tail.may_read) == ((">",), None)
            assert await _read(tail, 1) == ["orders.1"]
            missing = await _refusal(door, "boss", "nowhere.a")
            several = await _refusal(door, "boss", ">")
        assert missing == "no-stream: no stream has messages of nowhere.a"
        assert several == "no-stream: more than one stream has messages of >"

    asyncio.run(_with_door(database, use))
