"""Messages with a time to live over PostgreSQL: in time, after a restart, in bulk, in SQL."""

# Subject: expiry

import asyncio
import base64
import json
import time
from typing import Any

import asyncpg
import pytest

from core.model.stream import StreamConfig
from core.rules.stream.ttl import parse_ttl
from core.runtime.clock import SystemClock
from core.units import NANOS_PER_SECOND, Nanos
from tests.support.best import slowness
from tests.support.headers import block
from tests.support.node import Node, Wire, add_stream, running_node
from tests.support.pg import PostgresServer

MESSAGES = 10_000


class LaterClock(SystemClock):
    """A clock that is ahead of the machine's."""

    def __init__(self, seconds: float) -> None:
        self._ahead = int(seconds * NANOS_PER_SECOND)

    def now(self) -> Nanos:
        return Nanos(time.time_ns() + self._ahead)


class HeldClock(SystemClock):
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.time = time.time_ns()

    def now(self) -> Nanos:
        return Nanos(self.time)


def hpub(subject: str, reply: str = "", **headers: str) -> bytes:
    """One publish with headers; `Nats_TTL="1"` stands for `Nats-TTL: 1`."""
    head = block(**headers)
    size = b"%d %d" % (len(head), len(head) + 1) if head else b"1"
    verb = b"HPUB" if head else b"PUB"
    return b"%b %b %b %b\r\n%bx\r\n" % (verb, subject.encode(), reply.encode(), size, head)


async def ask(wire: Wire, subject: str, body: dict[str, Any] | None = None) -> Any:
    """Call the API."""
    payload = json.dumps(body).encode() if body else b""
    wire.writer.write(b"SUB api 77\r\nUNSUB 77 1\r\n")
    wire.writer.write(
        b"PUB $JS.API.%b api %d\r\n%b\r\n" % (subject.encode(), len(payload), payload)
    )
    data = await wire.until(b"}\r\n")
    return json.loads(data[data.index(b"{") :])


async def there(node: Node, wire: Wire, count: int, within: float = 30.0) -> float:
    """Wait until the stream holds so many messages; return the seconds that took."""
    started = time.monotonic()
    async with asyncio.timeout(within):
        while node.registry.streams["S"].machine.msgs != count:
            await wire.flush()
    return time.monotonic() - started


@pytest.mark.parametrize("before", [0, 3600 * NANOS_PER_SECOND])
def test_a_shorter_max_age_does_not_wait_for_a_publish(
    postgres: PostgresServer, database: str, before: int
) -> None:
    """Nobody publishes any more: only a timer can tell that the time of a message has come."""

    async def scenario() -> None:
        clock = HeldClock()
        async with running_node(database, clock=clock) as node:
            stream = StreamConfig(name="S", subjects=("s",), max_age=before)
            await add_stream(node, stream)
            wire = await Wire.connect(node)
            wire.writer.write(hpub("s") * 2)
            await there(node, wire, 2)
            age = NANOS_PER_SECOND // 10
            config = {"name": "S", "subjects": ["s"], "max_age": age, "duplicate_window": age}
            assert "error" not in await ask(wire, "STREAM.UPDATE.S", config)
            assert node.registry.streams["S"].machine.msgs == 2
            clock.time += 2 * age
            await there(node, wire, 0)
            wire.close()

    asyncio.run(scenario())


async def in_sql(dsn: str) -> list[int]:
    """Return the sequences that the view shows."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("select seq from jetgate.messages order by seq")
        return [row[0] for row in rows]
    finally:
        await connection.close()


def test_messages_that_expired_without_a_node_are_gone_at_once(
    postgres: PostgresServer, database: str
) -> None:
    """Messages, the consumer's pending and unacknowledged ones, and the marker in their place."""
    config = StreamConfig(
        name="S", subjects=("s.>",), allow_msg_ttl=True,
        subject_delete_marker_ttl=3600 * NANOS_PER_SECOND,
        max_msgs_per_subject=1, allow_rollup_hdrs=True, max_age=7200 * NANOS_PER_SECOND,
    )  # fmt: skip

    async def scenario() -> None:
        async with running_node(database) as node:
            await add_stream(node, config)
            wire = await Wire.connect(node)
            consumer = {"name": "C", "durable_name": "C", "ack_policy": "explicit"}
            request = {"stream_name": "S", "config": consumer}
            assert "error" not in await ask(wire, "CONSUMER.CREATE.S.C", request)
            for subject, ttl in (("a", "60"), ("b", "never"), ("c", "1h"), ("d", "60")):
                wire.writer.write(hpub(f"s.{subject}", Nats_TTL=ttl))
            wire.writer.write(hpub("s.gone", Nats_TTL="60", KV_Operation="PURGE"))
            wire.writer.write(b"SUB in 5\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C in 1\r\n1\r\n")
            assert b"s.a" in await wire.until(b"x\r\n")
            await there(node, wire, 5)
            wire.close()
        async with running_node(database, clock=LaterClock(100)) as node:
            wire = await Wire.connect(node)
            state = (await ask(wire, "STREAM.INFO.S"))["state"]
            assert (state["messages"], state["first_seq"], state["last_seq"]) == (4, 2, 7)
            seen = await ask(wire, "CONSUMER.INFO.S.C")
            assert (seen["num_pending"], seen["num_ack_pending"]) == (4, 0)
            marker = (await ask(wire, "STREAM.MSG.GET.S", {"last_by_subj": "s.d"}))["message"]
            assert b"Nats-Marker-Reason: MaxAge" in base64.b64decode(marker["hdrs"])
            gone = await ask(wire, "STREAM.MSG.GET.S", {"last_by_subj": "s.gone"})
            assert gone["error"]["err_code"] == 10037
            wire.close()
        async with running_node(database, clock=LaterClock(7400)) as node:
            assert node.registry.streams["S"].machine.msgs == 2, (
                "s.b never expires, s.c left a marker"
            )

    asyncio.run(scenario())


@pytest.mark.parametrize("restarts", [False, True])
def test_a_short_time_does_not_wait_for_a_long_one(
    postgres: PostgresServer, database: str, restarts: bool
) -> None:
    async def scenario() -> None:
        async with running_node(database) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s.>",), allow_msg_ttl=True))
            wire = await Wire.connect(node)
            wire.writer.write(hpub("s.a", Nats_TTL="1h"))
            await there(node, wire, 1)
            wire.writer.write(hpub("s.b", Nats_TTL="1"))
            async with asyncio.timeout(30):
                while node.registry.streams["S"].machine.last_seq < 2:
                    await wire.flush()
            if not restarts:
                await there(node, wire, 1)
            wire.close()
        async with running_node(database) as node:
            wire = await Wire.connect(node)
            await there(node, wire, 1)
            wire.close()

    asyncio.run(scenario())


def test_ten_thousand_expire_in_few_commits_and_reach_the_consumers(
    postgres: PostgresServer, database: str
) -> None:
    async def scenario() -> tuple[int, Any, list[int], float]:
        clock = HeldClock()  # however long it takes to store them, none expires meanwhile
        async with running_node(database, clock=clock) as node:
            await add_stream(node, StreamConfig(name="S", subjects=("s.>",), allow_msg_ttl=True))
            wire = await Wire.connect(node)
            request = {"stream_name": "S", "config": {"name": "C", "durable_name": "C"}}
            await ask(wire, "CONSUMER.CREATE.S.C", request)
            wire.writer.write(hpub("s.stays"))
            wire.writer.write(b"".join(hpub(f"s.{i % 500}", Nats_TTL="1") for i in range(MESSAGES)))
            await there(node, wire, MESSAGES + 1)
            commits = node.committer.commits
            clock.time += 2 * NANOS_PER_SECOND
            took = await there(node, wire, 1)
            commits = node.committer.commits - commits
            consumer = await ask(wire, "CONSUMER.INFO.S.C")
            stream = node.registry.streams["S"]
            await node.janitor.finish(stream.log)
            held = range(stream.log.tail.start, MESSAGES + 2)
            assert not stream.log.removed.hidden.difference(held)
            wire.close()
            return commits, consumer, await in_sql(database), took

    commits, consumer, rows, took = asyncio.run(scenario())

    assert commits <= 20
    assert consumer["num_pending"] == 1
    assert rows == [1]
    assert took < 1 + 5 * slowness()


@pytest.mark.parametrize("limit", [-1, 1])
def test_a_purge_of_many_subjects_marks_each_and_its_rows_leave_later(
    postgres: PostgresServer, database: str, limit: int
) -> None:
    """More rows than go in one transaction: the removal is recorded, the markers are not of it."""
    config = StreamConfig(
        name="S", subjects=("s.>",), allow_msg_ttl=True, allow_rollup_hdrs=True,
        subject_delete_marker_ttl=3600 * NANOS_PER_SECOND, max_msgs_per_subject=limit,
        metadata={"jetgate.markers": "Purge"},
    )  # fmt: skip
    count = MESSAGES + 2000

    async def scenario() -> tuple[Any, list[int], list[int]]:
        async with running_node(database) as node:
            await add_stream(node, config)
            wire = await Wire.connect(node)
            wire.writer.write(b"".join(hpub(f"s.{i}") for i in range(count)))
            await there(node, wire, count)
            purged = await ask(wire, "STREAM.PURGE.S")
            assert node.registry.streams["S"].machine.msgs == count
            shown = await in_sql(database)
            wire.close()
        async with running_node(database) as node:
            machine = node.registry.streams["S"].machine
            assert (machine.msgs, len(machine.index)) == (count, count)
        return purged, shown, await in_sql(database)

    purged, before, after = asyncio.run(scenario())

    assert purged["purged"] == count
    assert before == after == list(range(count + 1, 2 * count + 1))


@pytest.mark.parametrize("limit", [-1, 1])
def test_sql_shows_no_message_whose_time_is_over(
    postgres: PostgresServer, database: str, limit: int
) -> None:
    """No node has to be there for it."""
    config = StreamConfig(
        name="S", subjects=("s.>",), allow_msg_ttl=True, max_msgs_per_subject=limit,
        max_age=1800 * NANOS_PER_SECOND,
    )  # fmt: skip

    async def scenario() -> tuple[list[int], list[int]]:
        async with running_node(database, clock=LaterClock(-100)) as node:
            await add_stream(node, config)
            wire = await Wire.connect(node)
            for i, ttl in enumerate(("99", "1m1.5s", "never", "1h", "200", "00")):
                wire.writer.write(hpub(f"s.{i}", Nats_TTL=ttl))
            wire.writer.write(hpub("s.6"))
            await there(node, wire, 7)
            before = await in_sql(database)
            wire.close()
        connection = await asyncpg.connect(database)
        late = 1750 * NANOS_PER_SECOND
        await connection.execute(f"update jetgate_store.message set ts = ts - {late}")
        await connection.close()
        return before, await in_sql(database)

    before, after = asyncio.run(scenario())

    assert before == [3, 4, 5, 6, 7]
    assert after == [3]


def test_sql_reads_a_time_to_live_as_the_server_does(
    postgres: PostgresServer, database: str
) -> None:
    texts = [
        "1",
        "90",
        "00",
        "1s",
        "1.5s",
        "+5s",
        "1m30.9s",
        "1h",
        "1000000us",
        "1000000µs",
        "1000000μs",
        "never",
        "NEVER",
    ]
    texts += ["0.5s0.5s", "1.s", "1500ms", "18446744073709551617", "soon", "1d"]
    expected = {text: parse_ttl(text.encode()) or 0 for text in texts}

    async def read() -> dict[str, int]:
        connection = await asyncpg.connect(database)
        found = {}
        for text in texts:
            block = f"NATS/1.0\r\nA: \x00\\\r\nNats-TTL: {text}\r\nB: c\r\n\r\n".encode()
            nanos = await connection.fetchval("select jetgate_store.ttl($1)", block) or 0
            found[text] = int(nanos) // NANOS_PER_SECOND if nanos > 0 else int(nanos)
        await connection.close()
        return found

    assert asyncio.run(read()) == expected
