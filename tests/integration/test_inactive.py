"""A consumer that nobody uses is deleted once, however long the commit of that takes."""

# Subject: consumers

import asyncio
from collections.abc import Callable

import pytest

from core.errors import StorageError
from core.jetstream.consumer.consumers import Consumers
from core.jetstream.consumer.runner import ConsumerRunner
from core.model.consumer import ConsumerConfig
from core.model.stream import StreamConfig
from core.units import Epoch
from tests.support.eventually import observed
from tests.support.node import add_stream, running_node
from tests.support.pg import PostgresServer

CONFIG = ConsumerConfig(name="C", inactive_threshold=1_000_000)
ROUNDS = 300


def test_it_is_deleted_once(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    deadlines = 0
    on_deadline = ConsumerRunner.on_deadline

    def counted(runner: ConsumerRunner, now: int) -> None:
        nonlocal deadlines
        deadlines += 1
        on_deadline(runner, now)

    async def scenario() -> tuple[int, int, int]:
        gate = asyncio.Event()
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s",)))
            stream = node.registry.stream("S")
            directory_store = stream.services.directory_store
            drop = directory_store.drop_consumer

            async def slow(stream: int, consumer: int, epoch: Callable[[], Epoch]) -> int:
                asked.append(consumer)
                await gate.wait()
                return await drop(stream, consumer, epoch)

            monkeypatch.setattr(directory_store, "drop_consumer", slow)
            await stream.consumers.create(CONFIG)
            await observed(lambda: len(asked) == 1)
            before = deadlines
            for _ in range(ROUNDS):
                await asyncio.sleep(0)
            spun = deadlines - before
            gate.set()
            await observed(lambda: not stream.consumers)
            return len(asked), spun, len(stream.consumers)

    monkeypatch.setattr(ConsumerRunner, "on_deadline", counted)
    asked_for, spun, left = asyncio.run(scenario())
    assert (asked_for, left) == (1, 0)
    assert spun < ROUNDS / 10


def test_a_failed_deletion_is_repeated(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> Consumers:
        asked: list[int] = []
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s",)))
            stream = node.registry.stream("S")
            directory_store = stream.services.directory_store
            drop = directory_store.drop_consumer

            async def failing(stream: int, consumer: int, epoch: Callable[[], Epoch]) -> int:
                asked.append(consumer)
                if len(asked) == 1:
                    raise StorageError("away")
                return await drop(stream, consumer, epoch)

            monkeypatch.setattr(directory_store, "drop_consumer", failing)
            await stream.consumers.create(CONFIG)
            await observed(lambda: len(asked) == 2)
            await observed(lambda: not stream.consumers)
            return stream.consumers

    assert not asyncio.run(scenario())


@pytest.mark.parametrize(
    ("deliver", "threshold", "grace"),
    [("", 1_000_000_000, 100_000_000), ("in", 1_000_000_000, 0), ("in", 0, 100_000_000)],
)
def test_a_push_consumer_expires_at_its_inactive_threshold(
    postgres: PostgresServer, database: str, deliver: str, threshold: int, grace: int
) -> None:
    async def scenario() -> int:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s",)))
            config = ConsumerConfig(deliver_subject=deliver, inactive_threshold=threshold)
            runner = await node.registry.stream("S").consumers.create(config)
            return (runner.deadline() or 0) - runner.used - runner.config.inactive_threshold

    assert asyncio.run(scenario()) == grace
