"""The write path over a real PostgreSQL: commits of any size stand behind the same fence."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from core.errors import Fenced, Unavailable
from core.storage.interface import StreamCommit
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.reads import PostgresReader
from core.storage.postgres.stream_log import PostgresLog
from core.stream.plan import StreamPlan
from core.stream.segment import Segment
from tests.support.pg import PostgresServer

STREAM = 7777


def plan_of(count: int, before: int) -> StreamPlan:
    """A plan of `count` messages after a sequence, every third one with headers."""
    seqs = range(before + 1, before + count + 1)
    subjects = [b"log.%d" % (seq % 3) for seq in seqs]
    headers = [None if seq % 3 else b"NATS/1.0\r\nA: %d\r\n\r\n" % seq for seq in seqs]
    payloads = [b"%d" % seq for seq in seqs]
    return StreamPlan(
        before=before,
        first_seq=1,
        last_seq=before + count,
        last_ts=before + count,
        msgs=before + count,
        nbytes=10,
        segment=Segment(seqs, seqs, subjects, headers, payloads, 10),
    )


def scenario(dsn: str, run: Callable[[PostgresLog, PostgresReader], Awaitable[None]]) -> None:
    async def main() -> None:
        connector = Connector(dsn)
        admin = await asyncpg.connect(dsn)
        await admin.execute("delete from jetgate_store.head where stream = $1", STREAM)
        await admin.execute("insert into jetgate_store.head values ($1, 5, 1, 0, 0, 0, 0)", STREAM)
        pool = await connector.pool(Purpose.READ, 1)
        log = PostgresLog(lambda: connector.open(Purpose.LANE))
        try:
            await run(log, PostgresReader(pool))
        finally:
            await log.close()
            await pool.close()
            await admin.close()

    asyncio.run(main())


# One message, a few, as many as go row by row, and more.
SIZES = (1, 2, 399, 400, 2999, 3000)


def test_commits_of_every_size_are_read_as_they_were_written(
    postgres: PostgresServer, database: str
) -> None:
    async def run(log: PostgresLog, reader: PostgresReader) -> None:
        last = 0
        for count in SIZES:
            plan = plan_of(count, last)
            await log.commit([StreamCommit(STREAM, 0, 5, plan)])
            assert plan.segment is not None
            found = await reader.range(STREAM, 0, last + 1, count + 1)
            assert found is not None
            assert found.payloads == plan.segment.payloads
            assert found.subjects == plan.segment.subjects
            assert (found.headers or [None] * count) == plan.segment.headers
            last += count
        assert (await log.heads([STREAM]))[STREAM].last_seq == last

    scenario(database, run)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize(("epoch", "before"), [(4, 0), (6, 0), (5, 1)])
def test_a_head_that_somebody_moved_lets_nothing_through(
    postgres: PostgresServer, database: str, count: int, epoch: int, before: int
) -> None:
    async def run(log: PostgresLog, reader: PostgresReader) -> None:
        with pytest.raises(Fenced):
            await log.commit([StreamCommit(STREAM, 0, epoch, plan_of(count, before))])
        assert await reader.range(STREAM, 0, 1, 1) is None
        assert (await log.heads([STREAM]))[STREAM].last_seq == 0
        # The session is of use afterwards.
        await log.commit([StreamCommit(STREAM, 0, 5, plan_of(count, 0))])
        assert (await log.heads([STREAM]))[STREAM].last_seq == count

    scenario(database, run)


def test_a_session_that_cannot_be_prepared_is_ended(
    postgres: PostgresServer, database: str
) -> None:
    """Else each attempt during an outage would leave one, until PostgreSQL has no more."""
    opened: list[asyncpg.Connection] = []

    class Canceled(asyncpg.Connection):  # type: ignore[misc]  # the driver is not typed
        async def prepare(self, *_arguments: object, **_options: object) -> None:
            opened.append(self)
            raise asyncpg.QueryCanceledError("canceling statement due to statement timeout")

    async def run() -> None:
        connector = Connector(database)
        log = PostgresLog(lambda: connector.open(Purpose.LANE, connection_class=Canceled))
        with pytest.raises(Unavailable):
            await log.commit([StreamCommit(STREAM, 0, 5, plan_of(1, 0))])
        assert [connection.is_closed() for connection in opened] == [True]

    asyncio.run(run())
