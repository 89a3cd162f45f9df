"""Reads messages from PostgreSQL, and deletes the rows of removed messages.

Each method is one statement on a session of a small pool. Messages are returned as segments: lists
of sequences, times, subjects, headers and payloads (`core.model.segment`).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import asyncpg

from core.errors import Unavailable
from core.model.segment import Segment
from core.rules.stream.headers import MSG_ID, SCHEDULE, SCHEDULER, STREAM_SOURCE, TTL, find
from core.rules.stream.plan import Position
from core.rules.stream.ttl import KV_OPERATION, MARKER_REASON
from core.storage.postgres import removed_ids
from core.storage.postgres.connect import DATABASE_ERRORS, unavailable
from core.storage.postgres.pages import joined, page_of, segment_of
from core.storage.postgres.subjects import (
    DIGEST_PREFIX,
    WHOLE,
    WHOLE_BYTES,
    key_of,
    subjects_of,
)

# Rows decoded before the event loop runs again.
_SLICE = 20_000
_LONG_AT_ONCE = 500
"""Number of rows whose long subjects (at most 64 KiB each) one statement reads."""
# Condition: a message has a TTL of its own, or is a delete marker of its subject.
_HAS_EXPIRY_HEADER = " or ".join(
    f"position('\\x{name.hex()}'::bytea in hdr) > 0" for name in (TTL, MARKER_REASON, KV_OPERATION)
)


class _TooLarge(Unavailable):
    """Error: a result has more than one gigabyte, the limit of a value in PostgreSQL."""


class PostgresReader:
    """Reads messages of streams and deletes removed ones, over a pool of sessions.

    Args:
        pool: Sessions that may read, and write if rows are to be deleted.
        may_delete: Returns False while the database may be older than this node's memory, for
            example after a failover; nothing is deleted then.
    """

    def __init__(self, pool: Any, may_delete: Callable[[], bool] = lambda: True) -> None:
        self._pool = pool
        self._may_delete = may_delete
        self._under_way: set[asyncio.Future[None]] = set()

    async def _fetch(self, statement: str, *arguments: object) -> list[Any]:
        with self._reading():
            return await self._ask(statement, *arguments)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Count one running read, for `when_settled`."""
        ended = asyncio.get_running_loop().create_future()
        self._under_way.add(ended)
        try:
            yield
        finally:
            self._under_way.remove(ended)
            ended.set_result(None)

    async def _ask(self, statement: str, *arguments: object) -> list[Any]:
        try:
            rows: list[Any] = await self._pool.fetch(statement, *arguments)
        except asyncpg.ProgramLimitExceededError as error:
            raise _TooLarge(f"PostgreSQL cannot answer: {error}") from error
        except DATABASE_ERRORS as error:
            raise await unavailable(self._pool, error) from error
        return rows

    async def _fetch_indexed(
        self, statement: str, stream: int, partition: int, first: int, last: int
    ) -> tuple[list[bytes], list[Any]]:
        """Return the subjects and the rows of a query that reads only the index.

        The rows begin with `subject` and a sequence that has it. For long subjects the index has
        only a digest, so their texts are read from the table.
        """
        with self._reading():
            while True:
                rows = await self._ask(statement, stream, first, last)
                names = await self._names_of(rows, stream, partition)
                if names is not None:
                    return names, rows

    async def _names_of(self, rows: list[Any], stream: int, partition: int) -> list[bytes] | None:
        """Return the subjects of rows; None if a row was deleted before its long subject was read.

        The caller then repeats the query, whose next result does not have that row.
        """
        names: list[bytes] = []
        for start in range(0, len(rows), _SLICE):
            some = rows[start : start + _SLICE]
            joined = "\n".join([row[0] for row in some])
            if DIGEST_PREFIX in joined:
                digests = {row[0]: row[1] for row in some if row[0].startswith(DIGEST_PREFIX)}
                long = await self._long_texts(stream, partition, list(digests.values()))
                if long.keys() < digests.keys():
                    return None
                joined = "\n".join([long.get(row[0], row[0]) for row in some])
            names += subjects_of(joined.encode(), len(some))
            if len(rows) > _SLICE:
                await asyncio.sleep(0)
        return names

    async def _long_texts(self, stream: int, partition: int, seqs: Sequence[int]) -> dict[str, str]:
        """Return the long subjects of rows, by their digests; deleted rows are left out."""
        found: dict[str, str] = {}
        for start in range(0, len(seqs), _LONG_AT_ONCE):
            found |= await self._ask(
                f"select subject, long_subject from jetgate_store.message_{partition} "
                "where stream = $1 and seq = any($2::bigint[]) and long_subject is not null",
                stream,
                seqs[start : start + _LONG_AT_ONCE],
            )
        return found

    async def _delete(self, statement: str, *arguments: object) -> list[Any]:
        """Delete rows of messages that are removed in memory.

        Raises Unavailable if the database may be older than memory, for example after a failover:
        it may lack the message that replaced a row, and the row is then the last of its subject.
        """
        if not self._may_delete():
            raise Unavailable("storage is compared with memory first")
        return await self._fetch(statement, *arguments)

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` once all reads that run now have ended; at once if none runs.

        By then their callers have received the rows and have run up to their next `await`.
        """
        left = len(self._under_way)

        def ended(_: asyncio.Future[None]) -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        for read in self._under_way:
            read.add_done_callback(ended)
        if not left:
            then()

    async def range(self, stream: int, partition: int, seq: int, limit: int) -> Segment | None:
        """Return up to `limit` messages at or after `seq`; None if there are none.

        Fewer than `limit` are returned if the result would exceed one gigabyte.
        """
        statement = page_of("stream = $1 and seq >= $2 order by seq limit $3", partition)
        while True:
            try:
                return segment_of((await self._fetch(statement, stream, seq, limit))[0])
            except _TooLarge:
                if limit < 2:
                    raise
                limit = max(limit // 8, 1)

    async def points(self, stream: int, partition: int, seqs: Sequence[int]) -> Segment | None:
        """Return the messages with the given sequences (ascending); None if none of them exist."""
        statement = page_of("stream = $1 and seq = any($2::bigint[]) order by seq", partition)
        try:
            return segment_of((await self._fetch(statement, stream, seqs))[0])
        except _TooLarge:
            if len(seqs) < 2:
                raise
            middle = len(seqs) // 2
            low = await self.points(stream, partition, seqs[:middle])
            high = await self.points(stream, partition, seqs[middle:])
            return joined(low, high) if low is not None and high is not None else low or high

    async def sizes_from(
        self, stream: int, partition: int, seq: int, limit: int
    ) -> list[tuple[int, bytes, int, int, int]]:
        """Return the sizes of at most `limit` messages with sequences from `seq` on, ascending.

        Each is (sequence, subject, payload bytes, header bytes, time of storage in nanoseconds
        since the Unix epoch).
        """
        rows = await self._fetch(
            f"select seq, {WHOLE}, octet_length(data), coalesce(octet_length(hdr), 0), ts "
            f"from jetgate_store.message_{partition} "
            "where stream = $1 and seq >= $2 order by seq limit $3",
            stream,
            seq,
            limit,
        )
        names = _subjects(rows)
        return [(r[0], name, r[2], r[3], r[4]) for r, name in zip(rows, names, strict=True)]

    async def subjects(
        self, stream: int, partition: int, first: int, last: int
    ) -> list[tuple[bytes, int, int]]:
        """Return each subject of the messages with sequences in [first, last].

        Each is (subject, number of messages, last sequence within the range). The query reads only
        the index.
        """
        names, rows = await self._fetch_indexed(
            f"select subject, max(seq), count(*) from jetgate_store.message_{partition} "
            "where stream = $1 and seq >= $2 and seq <= $3 group by subject",
            stream,
            partition,
            first,
            last,
        )
        found: list[tuple[bytes, int, int]] = []
        for start in range(0, len(rows), _SLICE):
            some = zip(names[start : start + _SLICE], rows[start : start + _SLICE], strict=True)
            found += [(name, row[2], row[1]) for name, row in some]
            await asyncio.sleep(0)
        return found

    async def sizes(
        self, stream: int, partition: int, subject: bytes | None, first: int, below: int
    ) -> list[tuple[int, bytes, int, int]]:
        """Return the sizes of the messages with sequences in [first, below), ascending.

        Each is (sequence, subject, payload bytes, header bytes). With a `subject`, only messages on
        this subject.
        """
        rows = await self._fetch(
            f"select seq, {WHOLE}, octet_length(data), coalesce(octet_length(hdr), 0) "
            f"from jetgate_store.message_{partition} where stream = $1 and seq >= $2 and seq < $3 "
            "and ($4::text is null or subject = $4) order by seq",
            stream,
            first,
            below,
            None if subject is None else key_of(subject),
        )
        return [(r[0], name, r[2], r[3]) for r, name in zip(rows, _subjects(rows), strict=True)]

    async def expiry_rows(
        self, stream: int, partition: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, int, int, bytes | None]]:
        """Return the values that decide when messages with sequences in [first, below) expire.

        Ascending. Each is (sequence, subject, payload bytes, header bytes, time of storage in
        nanoseconds since the Unix epoch, header block). The header block is None unless it has a
        TTL (`Nats-TTL`) or marks the deletion of a subject.
        """
        rows = await self._fetch(
            f"select seq, {WHOLE}, octet_length(data), coalesce(octet_length(hdr), 0), ts, "
            f"case when {_HAS_EXPIRY_HEADER} then hdr end "
            f"from jetgate_store.message_{partition} where stream = $1 and seq >= $2 and seq < $3 "
            "order by seq",
            stream,
            first,
            below,
        )
        names = _subjects(rows)
        return [(r[0], name, r[2], r[3], r[4], r[5]) for r, name in zip(rows, names, strict=True)]

    async def schedules(
        self, stream: int, partition: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, bytes]]:
        """Return the schedules with sequences in [first, below).

        A schedule is a message with the header `Nats-Schedule`, which has the time at which the
        server publishes another message. Each is (sequence, subject, time of storage in
        nanoseconds since the Unix epoch, header block).
        """
        rows = await self._fetch(
            f"select seq, {WHOLE}, ts, hdr from jetgate_store.message_{partition} "
            "where stream = $1 and seq >= $2 and seq < $3 "
            "and hdr is not null and position($4::bytea in hdr) > 0 order by seq",
            stream,
            first,
            below,
            b"\r\n" + SCHEDULE + b":",
        )
        return [(r[0], name, r[2], r[3]) for r, name in zip(rows, _subjects(rows), strict=True)]

    async def replaced(
        self, stream: int, partition: int, schedules: Sequence[tuple[bytes, int]]
    ) -> set[bytes]:
        """Return the subjects of the given schedules to which clients have published since.

        A schedule is a message with the header `Nats-Schedule`; `schedules` has (subject, sequence)
        of each. A message with a higher sequence on the subject counts, unless a schedule has
        published it.
        """
        keys = {key_of(subject): subject for subject, _ in schedules}
        rows = await self._fetch(
            "select s.subject from unnest($2::text[], $3::bigint[]) s(subject, seq) where exists "
            f"(select 1 from jetgate_store.message_{partition} m where m.stream = $1 "
            "and m.seq > s.seq and m.subject = s.subject "
            "and coalesce(position($4::bytea in m.hdr), 0) = 0)",
            stream,
            [key_of(subject) for subject, _ in schedules],
            [seq for _, seq in schedules],
            b"\r\n" + SCHEDULER + b":",
        )
        return {keys[row[0]] for row in rows}

    async def dues(self, stream: int) -> dict[int, int]:
        """Return the next publication time of repeating schedules, by their sequence.

        In nanoseconds since the Unix epoch; schedules that were removed may be included.
        """
        rows = await self._fetch(
            "select seq, due from jetgate_store.schedule where stream = $1", stream
        )
        return dict(rows)

    async def forget_dues(self, stream: int, seqs: Sequence[int]) -> None:
        """Delete the stored next publication times of schedules that have ended.

        `seqs` has the sequences of the messages that contain the schedules.
        """
        await self._delete(
            "delete from jetgate_store.schedule where stream = $1 and seq = any($2::bigint[])",
            stream,
            seqs,
        )

    async def recorded(self, stream: int) -> list[int]:
        """Return the sequences of messages that later messages have replaced, as commits recorded.

        The rows of these messages may be deleted already.
        """
        rows = await self._fetch(
            "select unnest(seqs) from jetgate_store.replaced where stream = $1", stream
        )
        return [row[0] for row in rows]

    async def last_before(self, stream: int, partition: int, subject: bytes, seq: int) -> int:
        """Return the highest sequence below `seq` of a message on `subject`; 0 if there is none."""
        rows = await self._fetch(
            f"select seq from jetgate_store.message_{partition} "
            "where stream = $1 and seq < $2 and subject = $3 order by seq desc limit 1",
            stream,
            seq,
            key_of(subject),
        )
        return rows[0][0] if rows else 0

    async def newest(self, stream: int, partition: int, count: int) -> int:
        """Return the sequence of the `count`-th newest message of a stream; 0 if there are
        fewer.
        """
        rows = await self._fetch(
            f"select seq from jetgate_store.message_{partition} "
            "where stream = $1 order by seq desc offset $2 limit 1",
            stream,
            count - 1,
        )
        return rows[0][0] if rows else 0

    async def totals(
        self, stream: int, partition: int, first: int, last: int
    ) -> tuple[int, int, int]:
        """Count the messages with sequences in [first, last].

        Returns (number of messages, their size in bytes, number of messages with headers).
        """
        rows = await self._fetch(
            f"select count(*), coalesce(sum({WHOLE_BYTES} + octet_length(data) "
            "+ coalesce(octet_length(hdr), 0)), 0)::bigint, count(hdr) "
            f"from jetgate_store.message_{partition} "
            "where stream = $1 and seq >= $2 and seq <= $3",
            stream,
            first,
            last,
        )
        return rows[0][0], rows[0][1], rows[0][2]

    async def next_of(self, stream: int, partition: int, subject: bytes, seq: int) -> int:
        """Return the lowest sequence of a message on `subject` that is not below `seq`; 0: none."""
        rows = await self._fetch(
            f"select seq from jetgate_store.message_{partition} "
            "where stream = $1 and seq >= $2 and subject = $3 order by seq limit 1",
            stream,
            seq,
            key_of(subject),
        )
        return rows[0][0] if rows else 0

    async def names(
        self, stream: int, partition: int, first: int, last: int
    ) -> list[tuple[int, bytes]]:
        """Return (sequence, subject) of the messages with sequences in [first, last], ascending."""
        names, rows = await self._fetch_indexed(
            f"select subject, seq from jetgate_store.message_{partition} "
            "where stream = $1 and seq >= $2 and seq <= $3 order by seq",
            stream,
            partition,
            first,
            last,
        )
        return [(row[1], name) for row, name in zip(rows, names, strict=True)]

    async def message_ids(
        self, stream: int, partition: int, since_ts: int, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        """Return the `Nats-Msg-Id` of the messages with sequences in [first, last].

        Each is (sequence, time, id); only messages stored after `since_ts` count. Both times are
        nanoseconds since the Unix epoch. Includes deleted messages whose ids are kept to detect
        duplicates.
        """
        rows = await self._fetch(
            f"select seq, ts, hdr, null from jetgate_store.message_{partition} "
            "where stream = $1 and seq >= $2 and seq <= $3 and ts > $4 and hdr is not null "
            "union all select u.seq, u.ts, null, u.id from jetgate_store.removed_ids r, "
            "unnest(r.seqs, r.times, r.ids) as u(seq, ts, id) where r.stream = $1 "
            "and r.last_ts > $4 and r.last_seq >= $2 and r.first_seq <= $3 "
            "and u.seq >= $2 and u.seq <= $3 and u.ts > $4 order by 1",
            stream,
            first,
            last,
            since_ts,
        )
        found = ((r[0], r[1], r[3] if r[2] is None else find(r[2], MSG_ID)) for r in rows)
        return [(seq, ts, msg_id) for seq, ts, msg_id in found if msg_id]

    async def first_removed_id(self, stream: int, since_ts: int) -> int | None:
        """Return a lower bound of the sequences of deleted messages whose `Nats-Msg-Id` is kept.

        Only messages stored after `since_ts` (nanoseconds since the Unix epoch) count. None if no
        id is kept.
        """
        rows = await self._fetch(
            "select min(first_seq) from jetgate_store.removed_ids "
            "where stream = $1 and last_ts > $2",
            stream,
            since_ts,
        )
        return None if rows[0][0] is None else int(rows[0][0])

    async def first_at(self, stream: int, partition: int, ts: int, first: int, last: int) -> int:
        """Return the first sequence in [first, last] whose message was stored at `ts` or later.

        `ts` is in nanoseconds since the Unix epoch. Returns last + 1 if there is none. A binary
        search finds the sequence, because times never decrease with it.
        """
        rows = await self._fetch(
            "select jetgate_store.first_at($1, $2, $3, $4)", stream, first, last + 1, ts
        )
        return int(rows[0][0])

    async def positions(self, stream: int) -> list[Position]:
        """Return the last sourced sequence of each source of a stream, former sources included."""
        rows = await self._fetch(
            "select key, seq, identity from jetgate_store.source where stream = $1", stream
        )
        return [Position(*row) for row in rows]

    async def sourced(self, stream: int, partition: int, name: bytes, below: int) -> list[bytes]:
        """Return up to 100 values of the header `Nats-Stream-Source` of a stream, newest first.

        Only values that begin with the stream name `name`, of messages with sequences below
        `below`. Each value is preceded by the sequence of its message and a blank.
        """
        rows = await self._fetch(
            f"select seq, hdr from jetgate_store.message_{partition} "
            "where stream = $1 and seq < $2 "
            "and hdr is not null and position($3::bytea in hdr) > 0 order by seq desc limit 100",
            stream,
            below,
            b"\r\n" + STREAM_SOURCE + b": " + name + b" ",
        )
        return [b"%d %b" % (row[0], find(row[1], STREAM_SOURCE) or b"") for row in rows]

    # -- removal -----------------------------------------------------------------------------

    async def delete_below(
        self, stream: int, partition: int, seq: int, limit: int, ids_since: int | None
    ) -> int:
        """Delete up to `limit` of a stream's oldest rows below sequence `seq`.

        Returns the number of deleted rows. `ids_since` as in `core.storage.interface.Sweeper`.
        """
        rows = await self._delete(
            f"with gone as (delete from jetgate_store.message_{partition} "
            "where stream = $1 and seq < $2 and seq < coalesce((select seq from "
            f"jetgate_store.message_{partition} where stream = $1 and seq < $2 "
            f"order by seq offset $3 limit 1), $2) returning {removed_ids.gone(ids_since)})"
            f"{removed_ids.keeping('$1', ids_since)} select count(*) from gone",
            stream,
            seq,
            limit,
        )
        return int(rows[0][0])

    async def delete_rows(
        self, stream: int, partition: int, seqs: Sequence[int], record: int, ids_since: int | None
    ) -> None:
        """Delete the message rows with the sequences `seqs`, and old records of replaced messages.

        A commit records in one numbered row the sequences of the messages that it has replaced.
        The records with numbers below `record` are deleted. `seqs` must be sorted, so that rows of
        one page share its WAL image. `ids_since` as in `core.storage.interface.Sweeper`.
        """
        # A part that is not selected from runs last: first the rows, as in a commit, then the
        # records.
        await self._delete(
            f"with gone as (delete from jetgate_store.message_{partition} "
            "where stream = $1 and seq = any($2::bigint[]) "
            f"returning {removed_ids.gone(ids_since)})"
            f"{removed_ids.keeping('$1', ids_since)}, "
            "done as (delete from jetgate_store.replaced where stream = $1 and n < $3) "
            "select count(*) from gone",
            stream,
            seqs,
            record,
        )

    async def delete_purged(self, stream: int, partition: int, ids_since: int | None) -> None:
        """Delete the message rows that recorded purges of a stream cover, and the purge records.

        A purge record (`PurgeRow`) has subject filters and a highest sequence.
        """
        await self._delete(
            "with p as (delete from jetgate_store.purge where stream = $1 "
            "returning filters, up_to_seq), "
            f"gone as (delete from jetgate_store.message_{partition} m using p "
            "where m.stream = $1 and m.seq <= p.up_to_seq and exists (select 1 from "
            f"unnest(p.filters) f where jetgate_store.subject_matches(f, {WHOLE})) "
            f"returning {removed_ids.gone(ids_since)})"
            f"{removed_ids.keeping('$1', ids_since)} select count(*) from gone",
            stream,
        )

    async def forget_ids(self, stream: int, ts: int) -> None:
        """Delete the kept ids of messages stored at or before `ts`, in nanoseconds since the Unix
        epoch.
        """
        await self._delete(
            "delete from jetgate_store.removed_ids where stream = $1 and last_ts <= $2", stream, ts
        )


def _subjects(rows: Sequence[Any]) -> list[bytes]:
    """Return the subjects of rows whose second value is the text."""
    if not rows:
        return []
    return subjects_of("\n".join([row[1] for row in rows]).encode(), len(rows))
