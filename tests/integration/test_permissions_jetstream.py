"""Permissions and JetStream: what may not be published is not stored, asked, or acknowledged."""

# Subject: permissions, transactions

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import nats
import pytest
from nats.js.errors import NotFoundError

from core.auth.users import Permissions, Responses, Rule, User, Users
from core.node.server import ServerOptions
from tests.support.node import running_node
from tests.support.transactions import App

_API = ("$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.>")
USERS = Users(
    users=(
        User("boss", "b"),
        User(
            "writer", "w", Permissions(Rule(("orders.>",), ("orders.secret",)), Rule(("_INBOX.>",)))
        ),
        User("reader", "r", Permissions(Rule((*_API, "$JS.ACK.ORDERS.>")), Rule(("_INBOX.>",)))),
        User("stager", "s", Permissions(Rule(("$JG.STAGE.ORDERS.>",)), Rule(("_INBOX.>",)))),
        User("driver", "d", Permissions(Rule(("$JG.API.TXN.>",)), Rule(("_INBOX.>",)))),
        User("looker", "l", Permissions(Rule(_API), Rule(("_INBOX.>",)))),
        User("answerer", "a", Permissions(Rule(_API), Rule(("_INBOX.>",)), Responses())),
    )
)
Step = Callable[[Callable[[str], Awaitable[Any]]], Awaitable[None]]


async def _serve(dsn: str, step: Step) -> None:
    async with running_node(dsn, server=ServerOptions(port=0, users=USERS)) as node:
        opened: list[Any] = []

        async def connect(user: str) -> Any:
            async def quiet(_: Exception) -> None:
                """Refusals are expected here."""

            nc = await nats.connect(node.nats_address, user=user, password=user[0], error_cb=quiet)
            opened.append(nc)
            return nc

        boss = (await connect("boss")).jetstream(timeout=30)
        await boss.add_stream(name="ORDERS", subjects=["orders.>"])
        try:
            await step(connect)
        finally:
            for nc in opened:
                await nc.close()


def test_a_refused_publish_is_not_stored(database: str) -> None:
    async def step(connect: Callable[[str], Awaitable[Any]]) -> None:
        writer = await connect("writer")
        js = writer.jetstream(timeout=0.3)
        assert (await js.publish("orders.new", b"1", timeout=20)).seq == 1
        with pytest.raises(nats.errors.TimeoutError):
            await js.publish("orders.secret", b"2")
        with pytest.raises(nats.errors.TimeoutError):
            await js.stream_info("ORDERS")
        boss = (await connect("boss")).jetstream(timeout=30)
        assert (await boss.stream_info("ORDERS")).state.messages == 1
        with pytest.raises(NotFoundError):
            await boss.get_last_msg("ORDERS", "orders.secret")

    asyncio.run(_serve(database, step))


def test_workers_stage_and_the_driver_of_a_transaction_commits(database: str) -> None:
    """Neither may publish on the subjects of the rows."""

    async def step(connect: Callable[[str], Awaitable[Any]]) -> None:
        stager, driver = (
            App(await connect("stager"), "ORDERS"),
            App(await connect("driver"), "ORDERS"),
        )
        await driver.open()
        staged = await stager.stage("one", [("orders.secret", b"1")])
        body = json.dumps({"app": "app", "token": 1, "batch": 0}).encode()
        with pytest.raises(nats.errors.TimeoutError):
            await stager.client.request("$JG.API.TXN.COMMIT.ORDERS", body, timeout=0.3)
        with pytest.raises(nats.errors.TimeoutError):
            await driver.client.request("$JG.STAGE.ORDERS.two", b"", timeout=0.3)

        assert (await driver.commit(0, staged))["state"] == "done"

        boss = (await connect("boss")).jetstream(timeout=30)
        assert (await boss.get_last_msg("ORDERS", "orders.secret")).data == b"1"

    asyncio.run(_serve(database, step))


@pytest.mark.parametrize(("user", "left"), [("reader", 0), ("looker", 1), ("answerer", 0)])
def test_an_ack_needs_permission(database: str, user: str, left: int) -> None:
    """Whoever may answer what was received may acknowledge it too."""

    async def step(connect: Callable[[str], Awaitable[Any]]) -> None:
        boss = (await connect("boss")).jetstream(timeout=30)
        await boss.publish("orders.new", b"1")
        nc = await connect(user)
        js = nc.jetstream(timeout=30)
        pull = await js.pull_subscribe("orders.>", durable="C", stream="ORDERS")
        (msg,) = await pull.fetch(1, timeout=30)
        assert msg.data == b"1"
        await msg.ack()
        # On the same connection, for the question not to overtake the acknowledgement.
        info = await js.consumer_info("ORDERS", "C")
        assert info.num_ack_pending == left

    asyncio.run(_serve(database, step))
