"""A user who may subscribe to some subjects, and nothing else, follows the stream that has them."""

# Subject: permissions, HTTP

import asyncio
from functools import partial
from typing import Any

import pytest

from core.auth.users import Permissions, Rule, User, Users
from core.client import Client, NotPermitted, Options, attach, connect
from core.errors import ApiError
from core.model.consumer import DeliverPolicy
from core.model.stream import StreamConfig, StreamSource
from core.node.server import ServerOptions
from core.transport.loopback import connect_trusted
from gateway.app import create_app
from gateway.auth.authenticator import Authenticator
from gateway.feeds.tail_source import Tail, tail_of
from gateway.http.problems import Problem, problem_of
from gateway.readers.entries import Start
from jetgate.login import login_to, rights_in
from tests.gateway.serving import SETTINGS
from tests.gateway.test_authenticator import _scope, _unreachable
from tests.support.node import add_stream, running_node

_FROM_THE_FIRST = Start(DeliverPolicy.ALL)
READER = Permissions(Rule(()), Rule(("chat.>",), ("chat.secret.>",)))
USERS = Users(
    users=(
        User("boss", "b"),
        User("reader", "r", READER),
        User("censored", "c", Permissions(subscribe=Rule(None, ("room.>",)))),
        User("stranger", "s", Permissions(Rule(()), Rule(("other.>",)))),
    )
)


async def _with_authenticator(dsn: str, use: Any) -> None:
    async with running_node(dsn, server=ServerOptions(port=0, users=USERS)) as node:
        hub = node.hub
        server = await connect(attach(partial(connect_trusted, hub)))
        nowhere = Client(attach(_unreachable), Options())
        app = create_app(
            SETTINGS, nowhere, login=login_to(hub), rights=rights_in(hub), server=server
        )
        authenticator: Authenticator = app.authenticator
        for name, subjects in (("CHAT", ("chat.>", "orders.>")), ("ROOM", ("room.*",))):
            await add_stream(node, StreamConfig(name=name, subjects=subjects))
        await add_stream(node, StreamConfig(name="SMALL", subjects=("chats.>",)))
        await add_stream(node, StreamConfig(name="COPY", mirror=StreamSource(name="CHAT")))
        try:
            async with asyncio.timeout(60):
                await use(authenticator)
        finally:
            await authenticator.close()
            await server.close()


async def _read(tail: Tail, count: int, start: Start = _FROM_THE_FIRST) -> list[str]:
    """Read so many messages."""
    change = asyncio.Event()
    reader = tail.reader(change.set)
    await reader.open(start)
    subjects: list[str] = []
    while len(subjects) < count:
        change.clear()
        found = reader.next_slice(1, 1 << 20)
        if found is None:
            assert reader.error is None
            await change.wait()
        else:
            subjects += [entry.msg.subject.decode() for entry in found.messages()]
    await reader.close()
    return subjects


async def _refusal(authenticator: Authenticator, user: str, *asked: str) -> str:
    async with authenticator.authenticated(_scope(user)) as caller:
        with pytest.raises((ApiError, NotPermitted, Problem)) as caught:
            await tail_of(caller, *asked)
    problem = problem_of(caught.value)
    return f"{problem.kind}: {problem.detail}"


def test_a_caller_that_may_only_subscribe_follows_a_stream(database: str) -> None:
    async def use(authenticator: Authenticator) -> None:
        async with authenticator.authenticated(_scope("boss")) as boss:
            for subject in (b"chat.a", b"orders.1", b"chat.secret.b", b"chat.c"):
                await boss.gateway.js.publish(subject, b"x")
        async with authenticator.authenticated(_scope("reader")) as reader:
            assert not reader.can_receive_replies
            with pytest.raises(NotPermitted):
                await reader.gateway.js.stream_info("CHAT")
            tail = await tail_of(reader, "chat.>")
            assert tail.stream == "CHAT"
            assert await _read(tail, 2) == ["chat.a", "chat.c"]
            assert await _read(tail, 1, Start(DeliverPolicy.LAST)) == ["chat.c"]

    asyncio.run(_with_authenticator(database, use))


def test_nothing_else_is_disclosed(database: str) -> None:
    async def use(authenticator: Authenticator) -> None:
        no = "not-permitted: not permitted: subscribing to "
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
            ("*.a", "CHAT"),
        ):
            assert await _refusal(authenticator, "reader", *asked) == no + (asked[0] or ">")
        assert await _refusal(authenticator, "stranger", "chat.>") == no + "chat.>"
        missing = await _refusal(authenticator, "reader", "chat.a", "NOWHERE")
        assert missing == "stream-not-found: stream not found"
        # Nothing of it is for him, or by its configuration nothing is.
        for stream in ("ROOM", "SMALL", "COPY"):
            assert await _refusal(authenticator, "reader", "chat.a", stream) == missing
        assert await _refusal(authenticator, "censored", "", "ROOM") == missing

    asyncio.run(_with_authenticator(database, use))


def test_a_caller_with_all_permissions_reads_whole_streams(database: str) -> None:
    async def use(authenticator: Authenticator) -> None:
        async with authenticator.authenticated(_scope("boss")) as boss:
            await boss.gateway.js.publish(b"orders.1", b"x")
            tail = await tail_of(boss, "", "CHAT")
            assert (tail.filters, tail.may_read) == ((), None)
            assert await _read(tail, 1) == ["orders.1"]
            missing = await _refusal(authenticator, "boss", "nowhere.a")
            several = await _refusal(authenticator, "boss", ">")
        assert missing == "no-stream: no stream has messages of nowhere.a"
        assert several == "no-stream: more than one stream has messages of >"

    asyncio.run(_with_authenticator(database, use))
