"""One suite for two stores: PostgreSQL, and the store in memory that other tests run over.

Both commit the same plans; what either reads and deletes must be what is written here.
"""

# Subject: storage

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from core.errors import Fenced
from core.model.segment import Segment
from core.rules.stream.plan import PlanBuilder, Position
from core.rules.stream.schedules.pending import Pending
from core.storage.interface import Head, LogReader, StreamCommit, Sweeper
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.reads import PostgresReader
from core.storage.postgres.stream_log import PostgresLog
from core.units import Epoch
from tests.support.headers import block
from tests.support.memory_store import MemoryStore
from tests.support.scenario import run_within

STREAM, EPOCH = 7777, Epoch(5)
Message = tuple[bytes, bytes, bytes]
"""Subject, header block (empty: none) and payload."""


@dataclass
class Store:
    """A stream without messages in one of the stores."""

    reader: LogReader
    sweeper: Sweeper
    commit: Callable[[PlanBuilder], Awaitable[None]]
    head: Callable[[], Awaitable[Head]]

    async def write(self, *messages: Message, **changes: Any) -> None:
        """Commit messages; the time of each is ten times its sequence."""
        before = await self.head()
        seqs = range(before.last_seq + 1, before.last_seq + 1 + len(messages))
        times = [10 * seq for seq in seqs]
        subjects, headers, payloads = (list(column) for column in zip(*messages, strict=True))
        segment = Segment(
            seqs,
            times,
            subjects,
            [each or None for each in headers] if any(headers) else None,
            payloads,
            sum(map(len, payloads)),
        )
        await self.commit(_follow(before, len(messages), segment=segment, **changes))

    async def change(self, **changes: Any) -> None:
        """Commit a plan without messages."""
        await self.commit(_follow(await self.head(), 0, **changes))

    async def seqs(self) -> list[int]:
        """Return the sequences of all rows."""
        return [seq for seq, _ in await self.reader.names(STREAM, 0, 1, 1 << 40)]


def _follow(head: Head, count: int, **changes: Any) -> PlanBuilder:
    last = head.last_seq + count
    return PlanBuilder(
        before=head.last_seq,
        first_seq=head.first_seq,
        last_seq=last,
        last_ts=10 * last,
        msgs=head.msgs + count,
        nbytes=head.bytes,
        **changes,
    )


async def _in_memory(test: Callable[[Store], Awaitable[None]]) -> None:
    memory: Any = MemoryStore(Head(EPOCH, 1, 0, 0, 0, 0))

    async def commit(plan: PlanBuilder) -> None:
        memory.commit(plan.build())

    async def head() -> Head:
        found: Head = memory.head
        return found

    await test(Store(memory, memory, commit, head))


async def _in_postgres(dsn: str, test: Callable[[Store], Awaitable[None]]) -> None:
    connector = Connector(dsn)
    admin = await asyncpg.connect(dsn)
    await admin.execute(
        "insert into jetgate_store.head values ($1, $2, 1, 0, 0, 0, 0)", STREAM, EPOCH
    )
    pool = await connector.pool(Purpose.WRITE, 1)
    log = PostgresLog(lambda: connector.open(Purpose.COMMIT))

    async def commit(plan: PlanBuilder) -> None:
        await log.commit([StreamCommit(STREAM, 0, EPOCH, plan.build(), ids_since=0)])

    async def head() -> Head:
        return (await log.heads([STREAM]))[STREAM]

    reader = PostgresReader(pool)
    try:
        await test(Store(reader, reader, commit, head))
    finally:
        await log.close()
        await pool.close()
        await admin.close()


Play = Callable[[Callable[[Store], Awaitable[None]]], None]


@pytest.fixture(params=["memory", "postgres"])
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a test over a stream without messages."""
    if request.param == "memory":
        return lambda test: run_within(60, lambda: _in_memory(test))
    dsn: str = request.getfixturevalue("database")
    return lambda test: run_within(60, lambda: _in_postgres(dsn, test))


A, B = b"s.a", b"s.b"
PLAIN: tuple[Message, ...] = ((A, b"", b"1"), (B, b"", b"22"), (A, b"", b"333"))


def test_rows_are_read_as_they_were_written(play: Play) -> None:
    async def test(store: Store) -> None:
        headers = block(Name="value")
        await store.write(*PLAIN)
        await store.write((b"\xff.\0", headers, b"\0\r\n"))
        whole = await store.reader.range(STREAM, 0, 1, 10)
        assert whole is not None
        assert [*whole.seqs] == [1, 2, 3, 4]
        assert [*whole.times] == [10, 20, 30, 40]
        assert whole.subjects == [A, B, A, b"\xff.\0"]
        assert whole.payloads == [b"1", b"22", b"333", b"\0\r\n"]
        assert whole.headers == [None, None, None, headers]
        assert await store.head() == Head(EPOCH, 1, 4, 40, 4, 0)

    play(test)


def test_parts_of_a_stream_are_read_in_the_order_of_their_sequences(play: Play) -> None:
    async def test(store: Store) -> None:
        await store.write(*PLAIN, (B, block(A="b"), b"4"))
        reader = store.reader
        some = await reader.range(STREAM, 0, 2, 2)
        assert some is not None
        assert [*some.seqs] == [2, 3]
        assert some.headers is None
        points = await reader.points(STREAM, 0, [1, 4, 9])
        assert points is not None
        assert [*points.seqs] == [1, 4]
        assert await reader.range(STREAM, 0, 5, 10) is None
        assert await reader.points(STREAM, 0, [9]) is None
        hdr = len(block(A="b"))
        assert await reader.sizes_from(STREAM, 0, 3, 9) == [(3, A, 3, 0, 30), (4, B, 1, hdr, 40)]
        assert await reader.sizes(STREAM, 0, None, 2, 4) == [(2, B, 2, 0), (3, A, 3, 0)]
        assert await reader.sizes(STREAM, 0, B, 1, 5) == [(2, B, 2, 0), (4, B, 1, hdr)]
        assert await reader.names(STREAM, 0, 2, 3) == [(2, B), (3, A)]
        assert await reader.totals(STREAM, 0, 2, 4) == (3, 9 + 2 + 3 + 1 + hdr, 1)

    play(test)


def test_places_in_a_stream_are_found_by_subject_time_and_count(play: Play) -> None:
    async def test(store: Store) -> None:
        await store.write(*PLAIN)
        reader = store.reader
        assert sorted(await reader.subjects(STREAM, 0, 1, 3)) == [(A, 2, 3), (B, 1, 2)]
        assert [await reader.last_before(STREAM, 0, A, seq) for seq in (1, 3, 4)] == [0, 1, 3]
        assert [await reader.next_of(STREAM, 0, A, seq) for seq in (1, 2, 4)] == [1, 3, 0]
        assert [await reader.newest(STREAM, 0, count) for count in (1, 3, 4)] == [3, 1, 0]
        assert [await reader.first_at(STREAM, 0, ts, 1, 3) for ts in (5, 20, 21, 31)] == [
            1,
            2,
            3,
            4,
        ]

    play(test)


def test_header_blocks_are_read_for_expiry_where_they_decide_it(play: Play) -> None:
    ttl, marker, other = block(Nats_TTL="1s"), block(Nats_Marker_Reason="MaxAge"), block(A="b")

    async def test(store: Store) -> None:
        await store.write((A, ttl, b""), (A, marker, b""), (A, other, b""), (A, b"", b""))
        assert await store.reader.expiry_rows(STREAM, 0, 1, 5) == [
            (1, A, 0, len(ttl), 10, ttl),
            (2, A, 0, len(marker), 20, marker),
            (3, A, 0, len(other), 30, None),
            (4, A, 0, 0, 40, None),
        ]

    play(test)


def test_a_plan_behind_another_head_is_fenced_and_changes_nothing(play: Play) -> None:
    async def test(store: Store) -> None:
        await store.write(*PLAIN)
        with pytest.raises(Fenced):
            await store.commit(_follow(Head(EPOCH, 1, 2, 20, 2, 0), 0, erased=[1]))
        assert await store.seqs() == [1, 2, 3]
        assert (await store.head()).last_seq == 3

    play(test)


def test_removed_rows_are_deleted_oldest_first_or_by_sequence(play: Play) -> None:
    async def test(store: Store) -> None:
        await store.write(*PLAIN, *PLAIN)
        assert await store.sweeper.delete_below(STREAM, 0, 4, 2, None) == 2
        assert await store.seqs() == [3, 4, 5, 6]
        assert await store.sweeper.delete_below(STREAM, 0, 4, 2, None) == 1
        await store.sweeper.delete_rows(STREAM, 0, [4, 6], 0, None)
        assert await store.seqs() == [5]
        await store.write((B, b"", b"7"), erased=[5])
        assert await store.seqs() == [7]

    play(test)


def test_records_of_replaced_rows_end_with_their_deletion(play: Play) -> None:
    async def test(store: Store) -> None:
        await store.write(*PLAIN)
        await store.write((A, b"", b"4"), replaced=[1, 3])  # record 8
        await store.write((B, b"", b"5"), replaced=[2])  # record 10
        assert sorted(await store.reader.recorded(STREAM)) == [1, 2, 3]
        await store.sweeper.delete_rows(STREAM, 0, [1, 3], 9, None)
        assert await store.reader.recorded(STREAM) == [2]
        await store.write((B, b"", b"6"), ends_replaced=True)
        assert await store.reader.recorded(STREAM) == []

    play(test)


def test_a_recorded_purge_deletes_the_rows_of_its_subjects_up_to_its_end(play: Play) -> None:
    async def test(store: Store) -> None:
        await store.write(*PLAIN)
        await store.change(purge_filters=(b"*.a", b"other"), purge_up_to=3, purged_below=1)
        await store.write((A, b"", b"4"))
        await store.sweeper.delete_purged(STREAM, 0, None)
        assert await store.seqs() == [2, 4]
        await store.write((B, b"", b"5"))
        await store.sweeper.delete_purged(STREAM, 0, None)
        assert await store.seqs() == [2, 4, 5]

    play(test)


def test_ids_outlive_their_rows_until_they_are_forgotten(play: Play) -> None:
    async def test(store: Store) -> None:
        ids = [(A, block(Nats_Msg_Id=name), b"") for name in ("one", "two", "three")]
        await store.write(*ids, (A, block(Other="x"), b""))
        everything = [(1, 10, b"one"), (2, 20, b"two"), (3, 30, b"three")]
        assert await store.reader.message_ids(STREAM, 0, 0, 1, 4) == everything
        assert await store.reader.first_removed_id(STREAM, 0) is None
        await store.sweeper.delete_rows(STREAM, 0, [2], 0, 15)
        await store.sweeper.delete_rows(STREAM, 0, [1], 0, 15)
        assert await store.reader.message_ids(STREAM, 0, 0, 1, 4) == everything[1:]
        assert await store.reader.message_ids(STREAM, 0, 20, 1, 4) == everything[2:]
        assert await store.reader.first_removed_id(STREAM, 0) == 2
        await store.sweeper.forget_ids(STREAM, 20)
        assert await store.reader.message_ids(STREAM, 0, 0, 1, 4) == everything[2:]
        assert await store.reader.first_removed_id(STREAM, 0) is None

    play(test)


def test_the_last_position_of_each_source_is_kept(play: Play) -> None:
    async def test(store: Store) -> None:
        await store.change(positions=[Position("one", 3, "i"), Position("two", 1, "j")])
        await store.change(positions=[Position("one", 9, "k")])
        found = sorted((p.key, p.seq, p.identity) for p in await store.reader.positions(STREAM))
        assert found == [("one", 9, "k"), ("two", 1, "j")]

    play(test)


def test_the_origins_of_sourced_messages_are_read_newest_first(play: Play) -> None:
    async def test(store: Store) -> None:
        values = ("ORIGIN 1 > > s.a", "OTHER 5 > > s.a", "ORIGIN 2 > > s.a")
        await store.write(*((A, block(Nats_Stream_Source=value), b"") for value in values))
        assert await store.reader.sourced(STREAM, 0, b"ORIGIN", 4) == [
            b"3 ORIGIN 2 > > s.a",
            b"1 ORIGIN 1 > > s.a",
        ]
        assert await store.reader.sourced(STREAM, 0, b"ORIGIN", 3) == [b"1 ORIGIN 1 > > s.a"]

    play(test)


def test_schedules_are_read_with_their_due_times_until_these_are_forgotten(play: Play) -> None:
    async def test(store: Store) -> None:
        schedule, fired = block(Nats_Schedule="@every 1s"), block(Nats_Scheduler="s.a")
        await store.write((A, schedule, b""), (B, schedule, b""), firings=[Pending(A, 1, 100)])
        await store.write((A, fired, b""), (B, b"", b""), firings=[Pending(A, 1, 200)])
        assert await store.reader.schedules(STREAM, 0, 1, 5) == [
            (1, A, 10, schedule),
            (2, B, 20, schedule),
        ]
        assert await store.reader.replaced(STREAM, 0, [(A, 1), (B, 2)]) == {B}
        assert await store.reader.dues(STREAM) == {1: 200}
        await store.sweeper.forget_dues(STREAM, [1, 2])
        assert await store.reader.dues(STREAM) == {}

    play(test)
