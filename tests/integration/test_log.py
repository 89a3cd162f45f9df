"""The write path over a real PostgreSQL: commits of any size stand behind the same fence."""

# Subject: storage

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import asyncpg
import pytest

from core.errors import Fenced, Unavailable
from core.model.segment import Segment
from core.rules.stream.plan import PlanBuilder
from core.storage.interface import Head, StreamCommit
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.reads import PostgresReader
from core.storage.postgres.stream_log import PostgresLog
from core.units import Epoch
from tests.support.memory_store import MemoryStore
from tests.support.pg import PostgresServer

STREAM = 7777


def plan_of(count: int, before: int) -> PlanBuilder:
    """A plan of `count` messages after a sequence, every third one with headers."""
    seqs = range(before + 1, before + count + 1)
    subjects = [b"log.%d" % (seq % 3) for seq in seqs]
    headers = [None if seq % 3 else b"NATS/1.0\r\nA: %d\r\n\r\n" % seq for seq in seqs]
    payloads = [b"%d" % seq for seq in seqs]
    return PlanBuilder(
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
        log = PostgresLog(lambda: connector.open(Purpose.COMMIT))
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
            await log.commit([StreamCommit(STREAM, 0, Epoch(5), plan.build())])
            assert plan.segment is not None
            found = await reader.range(STREAM, 0, last + 1, count + 1)
            assert found is not None
            assert found.payloads == plan.segment.payloads
            assert found.subjects == plan.segment.subjects
            assert (found.headers or [None] * count) == plan.segment.headers
            last += count
        assert (await log.heads([STREAM]))[STREAM].last_seq == last

    scenario(database, run)


def _odd_subjects() -> list[bytes]:
    """Subjects of each kind that a row holds in another way, incompressible where they are long."""
    digits = Random(5).randbytes(32768).hex().encode()
    lengths = (2047, 2048, 2049, 2705, 3900, 8200, 65535)
    return [
        b"log.a",
        *(b"log." + digits[: length - 4] for length in lengths),
        b"log.\xff",
        b"log.nul\0",
        b"log." + "é".encode() * 1500,
        b"log." + b"\xff" * 900,
    ]


@pytest.mark.parametrize("count", [12, 450])
def test_long_subjects_and_those_that_are_no_text_are_read_as_they_were_written(
    postgres: PostgresServer, database: str, count: int
) -> None:
    odd = _odd_subjects()

    async def run(log: PostgresLog, reader: PostgresReader) -> None:
        model = MemoryStore(Head(Epoch(5), 1, 0, 0, 0, 0))
        for size in (count, 1, 3):
            plan = plan_of(size, model.head.last_seq)
            assert plan.segment is not None
            plan.segment.subjects = [odd[seq % len(odd)] for seq in plan.segment.seqs]
            if size == 3:
                plan.purge_filters, plan.purge_up_to = (odd[5], odd[8], b"other.\0.>"), count
            await log.commit([StreamCommit(STREAM, 0, Epoch(5), plan.build())])
            model.commit(plan.build())
        first, last = 1, model.head.last_seq
        assert await _all_that_is_read(reader, odd, last) == await _all_that_is_read(
            model, odd, last
        )
        gone = {s for s, r in model.rows.items() if s <= count and r.subject in (odd[5], odd[8])}
        assert gone
        writers = await Connector(database).pool(Purpose.WRITE, 1)
        await PostgresReader(writers).delete_purged(STREAM, 0, None)
        await writers.close()
        left = [seq for seq, _ in await reader.names(STREAM, 0, first, last)]
        assert left == sorted(model.rows.keys() - gone)

    scenario(database, run)


async def _all_that_is_read(
    reader: PostgresReader | MemoryStore, subjects: list[bytes], last: int
) -> list[Any]:
    """What every read that tells a subject, or asks for one, says of the whole stream."""
    whole, points = await reader.range(STREAM, 0, 1, last), await reader.points(STREAM, 0, [2, 6])
    assert whole is not None
    assert points is not None
    by_subject = [
        (
            await reader.sizes(STREAM, 0, subject, 1, last + 1),
            await reader.last_before(STREAM, 0, subject, last),
            await reader.next_of(STREAM, 0, subject, 3),
        )
        for subject in subjects
    ]
    return [
        [*whole.seqs],
        whole.subjects,
        [*(whole.headers or ())],
        points.subjects,
        await reader.sizes_from(STREAM, 0, 1, last),
        sorted(await reader.subjects(STREAM, 0, 1, last)),
        await reader.sizes(STREAM, 0, None, 1, last + 1),
        [row[:5] for row in await reader.expiry_rows(STREAM, 0, 1, last + 1)],
        await reader.totals(STREAM, 0, 1, last),
        await reader.names(STREAM, 0, 1, last),
        by_subject,
    ]


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize(("epoch", "before"), [(4, 0), (6, 0), (5, 1)])
def test_a_head_that_was_moved_fences_every_commit(
    postgres: PostgresServer, database: str, count: int, epoch: Epoch, before: int
) -> None:
    async def run(log: PostgresLog, reader: PostgresReader) -> None:
        with pytest.raises(Fenced):
            await log.commit([StreamCommit(STREAM, 0, epoch, plan_of(count, before).build())])
        assert await reader.range(STREAM, 0, 1, 1) is None
        assert (await log.heads([STREAM]))[STREAM].last_seq == 0
        # The session is of use afterwards.
        await log.commit([StreamCommit(STREAM, 0, Epoch(5), plan_of(count, 0).build())])
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
        log = PostgresLog(lambda: connector.open(Purpose.COMMIT, connection_class=Canceled))
        with pytest.raises(Unavailable):
            await log.commit([StreamCommit(STREAM, 0, Epoch(5), plan_of(1, 0).build())])
        assert [connection.is_closed() for connection in opened] == [True]

    asyncio.run(run())
