"""A COMMIT of the stream directory whose answer is lost: memory and storage never part over it."""

# Subject: streams, storage faults

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import asyncpg.transaction
import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import ServiceUnavailableError

from core.errors import Refused
from core.model.codec import decode_lenient
from core.model.consumer import ConsumerConfig as StoredConsumer
from core.model.stream import StreamConfig
from core.storage.interface import ConsumerRow, StreamCommit
from core.storage.postgres import outcomes
from core.storage.postgres.locks import ALL_LEASE_GROUPS
from core.units import Epoch
from tests.support.node import Node, add_stream, running_node

Change = Callable[[JetStreamContext], Awaitable[object]]
Found = dict[str, tuple[StreamConfig, dict[str, StoredConsumer]]]

# Each on what those before it left.
CHANGES: dict[str, Change] = {
    "create stream": lambda js: js.add_stream(name="S", subjects=["s"]),
    "update stream": lambda js: js.update_stream(name="S", subjects=["s"], description="new"),
    "create consumer": lambda js: js.add_consumer("S", consumer()),
    "update consumer": lambda js: js.add_consumer("S", consumer(description="new")),
    "delete consumer": lambda js: js.delete_consumer("S", "C"),
    "delete stream": lambda js: js.delete_stream("S"),
}


def consumer(**options: Any) -> ConsumerConfig:
    return ConsumerConfig(durable_name="C", ack_policy=AckPolicy.EXPLICIT, **options)


def lose_answers(patch: pytest.MonkeyPatch, count: int, *, stored: bool) -> None:
    """Break the next so many sessions at the end of a transaction, after its COMMIT or before."""
    left = count
    leave = asyncpg.transaction.Transaction.__aexit__

    async def broken(self: Any, kind: Any, error: Any, trace: Any) -> None:
        nonlocal left
        if kind is not None or not left:
            await leave(self, kind, error, trace)
            return
        left -= 1
        if stored:
            await leave(self, kind, error, trace)
        self._connection.terminate()
        raise asyncpg.ConnectionDoesNotExistError("connection was closed")

    patch.setattr(asyncpg.transaction.Transaction, "__aexit__", broken)


def remembered(node: Node) -> Found:
    return {
        name: (runner.config, {name: found.config for name, found in runner.consumers.items()})
        for name, runner in node.registry.streams.items()
    }


async def stored_by(node: Node) -> Found:
    streams, consumers, _ = await node.directory_store.load(ALL_LEASE_GROUPS)
    return {
        row.name: (
            decode_lenient(StreamConfig, row.config.encode()),
            {
                found.name: decode_lenient(StoredConsumer, found.config.encode())
                for found in consumers
                if found.stream == row.stream
            },
        )
        for row in streams
    }


@asynccontextmanager
async def served(dsn: str) -> AsyncIterator[tuple[Node, JetStreamContext]]:
    async with running_node(dsn) as node:
        nc = await nats.connect(node.nats_address)
        try:
            yield node, nc.jetstream(timeout=30)
        finally:
            await nc.close()


@pytest.mark.parametrize("stored", [False, True], ids=["not-stored", "stored"])
def test_a_change_whose_commit_is_not_answered_is_made_once(
    database: str, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    monkeypatch.setattr(outcomes, "OUTCOME_TIMEOUT_S", 60.0)  # however slow the machine

    async def scenario() -> None:
        async with served(database) as (node, js):
            for name, change in CHANGES.items():
                was = remembered(node)
                with monkeypatch.context() as patch:
                    lose_answers(patch, 1, stored=stored)
                    await change(js)
                assert remembered(node) != was, name
                assert await stored_by(node) == remembered(node), name
            assert not node.deposed.is_set()

    asyncio.run(scenario())


def test_a_node_that_cannot_learn_how_a_change_ended_begins_anew(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "OUTCOME_TIMEOUT_S", 0.05)

    async def scenario() -> None:
        async with served(database) as (node, js):
            lose_answers(monkeypatch, 1000, stored=True)
            with pytest.raises(ServiceUnavailableError):
                await CHANGES["create stream"](js)
            assert node.deposed.is_set()
        monkeypatch.undo()
        async with served(database) as (node, js):
            assert remembered(node) == await stored_by(node)

    asyncio.run(scenario())


def test_a_consumer_created_while_the_epochs_are_bumped_is_of_the_new_one(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its state could never be written, and no double ack of the node be answered."""

    async def scenario() -> None:
        async with served(database) as (node, js):
            await add_stream(node, StreamConfig(name="S", subjects=("s",)))
            add = node.directory_store.add_consumer

            async def late(row: ConsumerRow, epoch: Callable[[], Epoch]) -> tuple[int, int]:
                await node.runtime.recover([])
                return await add(row, epoch)

            monkeypatch.setattr(node.directory_store, "add_consumer", late)
            await js.add_consumer("S", consumer())
            await js.publish("s", b"x")
            [message] = await (await js.pull_subscribe_bind("C", "S")).fetch(1, timeout=30)
            await message.ack_sync(timeout=20)

    asyncio.run(scenario())


def test_an_update_is_kept_although_the_limits_it_tightens_must_wait(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with served(database) as (node, js):
            await js.add_stream(name="S", subjects=["s"])
            for _ in range(3):
                await js.publish("s", b"x")
            commit = node.writer.commit

            async def refused(commits: Sequence[StreamCommit]) -> None:
                raise Refused("no space left on device", is_full=True)

            monkeypatch.setattr(node.writer, "commit", refused)
            await js.update_stream(name="S", subjects=["s"], max_msgs=1)
            assert await stored_by(node) == remembered(node)
            monkeypatch.setattr(node.writer, "commit", commit)
            await js.publish("s", b"x")
            assert (await js.stream_info("S")).state.messages == 1

    asyncio.run(scenario())
