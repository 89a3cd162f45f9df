"""Single messages read off PostgreSQL and a standby of it, while one of them is away."""

# Subject: message get

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from crc32c import crc32c

from core.errors import Unavailable
from core.storage.interface import Row
from core.storage.postgres.connect import Connector
from core.storage.postgres.stored_messages import PostgresMessages
from tests.support.eventually import observed
from tests.support.pg import PostgresServer
from tests.support.sessions import ManualClock
from tests.support.sql import on, stored

AWAY = "postgresql://postgres@127.0.0.1:1/none"
DIRECT = '{"allow_direct": true}'


def fill(dsn: str) -> None:
    """Messages 1 to 6 of stream S, with the checksum of what they hold, in a log of their own."""
    stored(dsn, config=DIRECT)
    set_crc = "update jetgate_store.message set crc = $1 where seq = $2"

    async def run() -> None:
        connection = await asyncpg.connect(dsn)
        await connection.executemany(set_crc, [(crc32c(b"m%d" % n), n) for n in range(1, 9)])
        await connection.close()

    asyncio.run(run())


async def read(messages: PostgresMessages, *seqs: int) -> dict[int, bytes | None]:
    """The payloads of messages of S, by sequence."""
    found: dict[int, Row | None] = {}
    async for some in messages.read("$G", [("S", seq) for seq in seqs]):
        found |= {seqs[place]: row for place, row in some}
    return {seq: None if row is None else row[4] for seq, row in found.items()}


def play(messages: PostgresMessages, scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        try:
            await scenario()
        finally:
            messages.close()

    asyncio.run(run())


def test_an_unreachable_standby_is_bypassed_and_reported_once(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(database)
    clock = ManualClock()
    messages = PostgresMessages(Connector(database), Connector(AWAY), clock)

    async def scenario() -> None:
        for _ in range(3):
            assert await read(messages, 1, 6, 7) == {1: b"m1", 6: b"m6", 7: None}
            clock.advance(10)

    with caplog.at_level("INFO", "core.storage"):
        play(messages, scenario)
    [line] = caplog.messages
    assert line.startswith("not reading from the standby at ")
    assert line.endswith("PostgreSQL is not reachable: connection refused")


def test_a_standby_far_behind_is_left_alone_for_a_while(
    postgres: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It lacks a message that is minutes old, and has another one that is not what it was."""
    fill(database)
    copy = postgres.fresh_database()
    fill(copy)
    clock = ManualClock()
    messages = PostgresMessages(Connector(database), Connector(copy), clock)
    same = "update jetgate_store.message m set ts = $1 where seq = $2"

    async def scenario() -> None:
        primary, standby = await asyncpg.connect(database), await asyncpg.connect(copy)
        try:
            times = await primary.fetch("select ts, seq from jetgate_store.message where seq < 5")
            await standby.executemany(same, [tuple(row) for row in times])
            await standby.execute("update jetgate_store.message set data = 'x' where seq = 2")

            assert await read(messages, 1, 4) == {1: b"m1", 4: b"m4"}
            assert not caplog.messages
            assert await read(messages, 1, 2) == {1: b"m1", 2: b"m2"}
            assert "does not match its checksum" in caplog.messages[-1]
            clock.advance(10)
            assert await read(messages, 4, 5) == {4: b"m4", 5: b"m5"}
            clock.advance(10)
            assert await read(messages, 4) == {4: b"m4"}
            assert caplog.messages[-1].startswith("reading from the standby at ")
            assert await read(messages, 5) == {5: b"m5"}
            assert caplog.messages[-1].endswith("it is more than 10 s behind")
        finally:
            await primary.close()
            await standby.close()

    with caplog.at_level("INFO", "core.storage"):
        play(messages, scenario)


def test_a_read_that_postgresql_does_not_answer_in_time_is_repeated(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database)
    monkeypatch.setattr("core.storage.postgres.stored_messages._PRIMARY_S", 0.2)
    messages = PostgresMessages(Connector(database), None, ManualClock())

    async def scenario() -> None:
        other = await asyncpg.connect(database)
        try:
            async with other.transaction():
                await other.execute("lock table jetgate_store.head in access exclusive mode")
                with pytest.raises(Unavailable):
                    await read(messages, 1)

            async def is_read() -> bool:
                try:
                    return await read(messages, 1) == {1: b"m1"}
                except Unavailable:  # within that time
                    return False

            await observed(is_read)
        finally:
            await other.close()

    play(messages, scenario)


def test_streams_that_storage_cannot_answer_for_are_left_out(database: str) -> None:
    fill(database)
    messages = PostgresMessages(Connector(database), None, ManualClock())

    async def answers(config: str, more: str = "select 1") -> int:
        update = f"update jetgate_store.stream set config = '{config}'"
        await asyncio.to_thread(on, database, update, more, "select 1")
        return len(await read(messages, 1, 2))

    async def scenario() -> None:
        assert await answers('{"allow_direct": true, "retention": "limits"}') == 2
        for retention in ("workqueue", "interest"):
            assert await answers(f'{{"allow_direct": true, "retention": "{retention}"}}') == 0
        assert await answers("{}") == 0
        assert await answers('{"allow_direct": false}') == 0
        assert await answers(DIRECT, "update jetgate_store.stream set dropped = true") == 0

    play(messages, scenario)
