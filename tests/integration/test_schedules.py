"""Schedules over PostgreSQL: what was missed, what a restart knows, and what it costs others."""

# Subject: schedules

import asyncio
import time
from typing import Any

import asyncpg

from core.jetstream.log.subjects import last_by_subject
from core.model.stream import StreamConfig
from core.rules.stream.headers import find
from tests.integration.test_ttl import LaterClock, ask
from tests.support.headers import block
from tests.support.node import Node, Wire, add_stream, running_node
from tests.support.pg import PostgresServer

HOUR = 3600
PAST = "@at 2020-01-01T00:00:00Z"
CONFIG = StreamConfig(name="S", subjects=("s.>",), allow_msg_schedules=True)


def schedule(subject: str, pattern: str, target: str, **more: str) -> bytes:
    """A publish of a schedule."""
    head = block(Nats_Schedule=pattern, Nats_Schedule_Target=target, **more)
    return b"HPUB %b %d %d\r\n%bx\r\n" % (subject.encode(), len(head), len(head) + 1, head)


def machine(node: Node) -> Any:
    return node.registry.streams["S"].machine


async def until(node: Node, wire: Wire, last_seq: int) -> None:
    """Wait until the stream has given a sequence."""
    async with asyncio.timeout(30):
        while machine(node).last_seq < last_seq:
            await wire.flush()


async def count(node: Node, subject: bytes) -> int:
    return int(machine(node).index.count(subject))


async def in_table(dsn: str) -> list[tuple[str, int]]:
    """Return subject and sequence of the schedules that are noted to have come due."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "select subject, seq from jetgate_store.schedule order by subject"
        )
        return [(row[0], row[1]) for row in rows]
    finally:
        await connection.close()


def test_missed_schedules_are_sent_once(postgres: PostgresServer, database: str) -> None:
    """However long nobody was there, and whether a schedule came due before or not.

    By the nodes' clocks it is half past something, so that nothing comes due meanwhile.
    """
    half = (HOUR / 2 - time.time()) % HOUR

    async def scenario() -> None:
        async with running_node(database, clock=LaterClock(half)) as node:
            await add_stream(node, CONFIG)
            wire = await Wire.connect(node)
            wire.writer.write(schedule("s.a", "@every 1h", "s.out.a"))
            wire.writer.write(schedule("s.b", "0 0 * * * *", "s.out.b"))
            wire.writer.write(schedule("s.c", "@at 2100-01-01T00:00:00Z", "s.out.c"))
            await until(node, wire, 3)
            wire.close()
        for hours, wanted in ((10, 5), (10.1, 5), (100, 7)):
            later = LaterClock(half + hours * HOUR)
            async with running_node(database, clock=later) as node:
                wire = await Wire.connect(node)
                await until(node, wire, wanted)
                assert machine(node).last_seq == wanted
                due = machine(node).schedules.next_due()
                assert due > later.now(), "what comes next lies ahead"
                assert await count(node, b"s.out.a") == await count(node, b"s.out.b")
                wire.close()
        assert await in_table(database) == [("s.a", 1), ("s.b", 2)]

    asyncio.run(scenario())


def test_a_time_that_passed_meanwhile_is_sent_at_once_and_never_again(
    postgres: PostgresServer, database: str
) -> None:
    async def scenario() -> None:
        async with running_node(database) as node:
            await add_stream(node, CONFIG)
            wire = await Wire.connect(node)
            wire.writer.write(schedule("s.a", "@at 2099-01-01T00:00:00Z", "s.out"))
            await until(node, wire, 1)
            wire.close()
        century = LaterClock(75 * 366 * 86_400)
        async with running_node(database, clock=century) as node:
            wire = await Wire.connect(node)
            await until(node, wire, 2)
            assert (await ask(wire, "STREAM.INFO.S"))["state"]["messages"] == 1
            wire.close()
        async with running_node(database, clock=century) as node:
            assert len(machine(node).schedules) == 0
            assert (machine(node).msgs, machine(node).last_seq) == (1, 2)

    asyncio.run(scenario())


def test_a_restart_knows_which_schedules_are_over(postgres: PostgresServer, database: str) -> None:
    """Replaced, cancelled, deleted, purged, and ended by another message of their subject."""

    async def scenario() -> None:
        async with running_node(database) as node:
            await add_stream(node, CONFIG)
            wire = await Wire.connect(node)
            for name in "abcdef":
                wire.writer.write(schedule(f"s.{name}", "@every 1s", f"s.out.{name}"))
            await until(node, wire, 6)
            async with asyncio.timeout(30):
                while len(await in_table(database)) < 6:
                    await wire.flush()
            wire.writer.write(b"PUB s.a 1\r\nx\r\n")
            ending = b"NATS/1.0\r\nNats-Scheduler: s.b\r\nNats-Schedule-Next: purge\r\n\r\n"
            wire.writer.write(b"HPUB s.x %d %d\r\n%b\r\n" % (len(ending), len(ending), ending))
            assert (await ask(wire, "STREAM.MSG.DELETE.S", {"seq": 3}))["success"]
            assert (await ask(wire, "STREAM.PURGE.S", {"filter": "s.d"}))["success"]
            wire.writer.write(schedule("s.e", "@every 1h", "s.out.e"))
            await wire.flush()
            assert (await ask(wire, "STREAM.MSG.GET.S", {"seq": 6}))["message"]["subject"] == "s.f"
            assert len(machine(node).schedules) == 2
            wire.close()
        async with running_node(database) as node:
            known = machine(node).schedules
            assert len(known) == 2
            assert known.seq_of(b"s.f") == 6
            assert known.seq_of(b"s.e") > 6
        assert await in_table(database) == [("s.f", 6)]

    asyncio.run(scenario())


def test_mirrored_schedules_come_due_once_the_mirror_is_a_stream_with_schedules(
    postgres: PostgresServer, database: str
) -> None:
    """On file storage too, where the reference server leaves it alone."""

    async def scenario() -> None:
        async with running_node(database) as node:
            await add_stream(node, CONFIG)
            wire = await Wire.connect(node)
            assert "error" not in await ask(
                wire, "STREAM.CREATE.M", {"name": "M", "mirror": {"name": "S"}}
            )
            wire.writer.write(schedule("s.a", "@every 1s", "s.out"))
            mirror = node.registry.streams["M"].machine
            async with asyncio.timeout(30):
                while mirror.last_seq < 1:
                    await wire.flush()
            assert mirror.schedules is None
            assert (await ask(wire, "STREAM.DELETE.S"))["success"]
            copied = mirror.last_seq
            update = {"name": "M", "subjects": ["s.>"], "allow_msg_schedules": True}
            assert "error" not in await ask(wire, "STREAM.UPDATE.M", update)
            async with asyncio.timeout(30):
                while mirror.last_seq < copied + 2:
                    await wire.flush()
            wire.close()

    asyncio.run(scenario())


def test_a_hundred_at_once_are_one_commit_and_reach_consumers(
    postgres: PostgresServer, database: str
) -> None:
    async def scenario() -> None:
        async with running_node(database, clock=LaterClock(0)) as node:
            await add_stream(node, CONFIG)
            wire = await Wire.connect(node)
            consumer = {"durable_name": "C", "deliver_subject": "d", "filter_subject": "s.out.>"}
            request = {"stream_name": "S", "config": {**consumer, "ack_policy": "none"}}
            assert "error" not in await ask(wire, "CONSUMER.DURABLE.CREATE.S.C", request)
            wire.writer.write(b"SUB d 1\r\n")
            await wire.flush()
            runner = node.registry.streams["S"]
            commits = runner.services.committer.commits
            for n in range(100):
                wire.writer.write(schedule(f"s.{n}", PAST, f"s.out.{n}"))
            assert await wire.count(b"Nats-Schedule-Next: purge", 100) == 100
            assert runner.services.committer.commits - commits <= 4
            assert (machine(node).msgs, len(machine(node).schedules)) == (100, 0)
            message = await last_by_subject(runner.log, b"s.out.99")
            assert message is not None
            assert find(message[3], b"Nats-Scheduler") == b"s.99"
            wire.close()

    asyncio.run(scenario())


def test_a_stream_without_schedules_has_no_timer_and_no_lookup(
    postgres: PostgresServer, database: str
) -> None:
    async def scenario() -> None:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s.>",)))
            assert machine(node).schedules is None
            assert not machine(node).ends_schedules
            assert not node.registry.streams["S"].scheduler._timer.is_armed

    asyncio.run(scenario())
