"""Writes the messages of all streams in one transaction, usually by one COPY.

The transaction is fenced: it checks that this node still has the epoch of every stream. A query
string of several statements is one implicit transaction. The string is `select fence(...); [delete
...;] copy ... from stdin (format binary)`. The function `fence` locks and updates every head row,
or raises `JG001`, which aborts the transaction. A commit takes two round trips, regardless of the
numbers of messages and streams. The string contains only integers and escaped texts; subjects,
headers and payloads are in the binary COPY data. A commit of one message is one prepared INSERT,
which checks the epoch itself: one round trip.

asyncpg has no public call for statements before a COPY, so `_copy` makes one private call; the
driver's minor version is pinned for it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

import asyncpg
from crc32c import crc32c

from core.errors import Fenced, OutcomeUnknown, Refused, Unavailable
from core.rules.stream.plan import Position
from core.rules.stream.schedules.pending import Pending
from core.storage.interface import Head, StreamCommit
from core.storage.postgres import removed_ids
from core.storage.postgres.connect import DATABASE_ERRORS, READ_ONLY, trouble
from core.storage.postgres.ledger import ledger_text
from core.storage.postgres.pages import checksum
from core.storage.postgres.subjects import columns_of, key_of, text_of
from core.storage.postgres.texts import sql_text

COLUMNS = "seq, ts, stream, shelf, crc, subject, hdr, data"
ALL_COLUMNS = f"{COLUMNS}, long_subject"
"""The columns with `long_subject`, which few rows have; a COPY names it only if it has such
rows.
"""
FENCED = "JG001"

# A single message is one prepared statement without arrays: COPY would cost another round trip and
# parsing, and the fence function more than the insertion itself. It inserts nothing if the head
# differs from the state that this node left.
_INSERT_ONE = f"""
    with fence as (
      update jetgate_store.head
         set last_seq = $4::bigint, first_seq = $5::bigint, last_ts = $6::bigint,
             msgs = $7::bigint, bytes = $8::bigint
       where stream = $1::int and epoch = $2::bigint and last_seq = $3::bigint
      returning 1)
    insert into jetgate_store.message ({COLUMNS})
    select $9::bigint, $10::bigint, $11::int, $12::int, $13::oid, $14::text, $15::bytea, $16::bytea
    from fence
"""
# The same for a message that replaces others of its subject.
_INSERT_REPLACING = _INSERT_ONE.replace(
    "returning 1)",
    """returning 1),
    replaced as (
      insert into jetgate_store.replaced (stream, n, seqs)
      select $1::int, $17::bigint, $18::bigint[] from fence)""",
)
_INSERTED = "INSERT 0 1"
_HEADS = """
    select stream, epoch, first_seq, last_seq, last_ts, msgs, bytes
      from jetgate_store.head where stream = any($1::int[])
"""
_CONSUMER_CHANGES = """
    select stream, consumer_changes from jetgate_store.stream where stream = any($1::int[])
"""
_BIGINT_MAX = (1 << 63) - 1
_CLOSE_TIMEOUT_S = 0.2

# COPY buffers up to a thousand rows, with a tuple slot for each. The more slots there are, the
# longer PostgreSQL takes to register the next with its resource owner: at a thousand rows that is a
# third of the work. A volatile WHERE condition makes it insert row by row instead. That is slower
# for few rows, and for many, over which the slots are reused.
_ROW_BY_ROW = range(400, 3000)
_VOLATILE_TRUE = " where clock_timestamp() is not null"

Row = tuple[int | str | bytes | None, ...]
"""The values of COLUMNS, or of ALL_COLUMNS, of one row."""
Subjects = tuple[list[str], list[str | None] | None]
Connect = Callable[[], Awaitable[Any]]


def rows_of(commit: StreamCommit, subjects: Subjects, *, is_wide: bool = False) -> Iterator[Row]:
    """Yield the COPY rows of the messages of one stream, by iterators in C where possible.

    Args:
        commit: The writes to one stream; `commit.plan` has messages.
        subjects: The subject columns of the rows, as `columns_of` returns them.
        is_wide: True if rows have ALL_COLUMNS.
    """
    segment = commit.plan.segment
    assert segment is not None, "only plans with rows are asked for them"
    payloads = segment.payloads
    headers: Iterable[bytes | None]
    crcs: Iterable[int]
    if segment.headers is None:
        headers, crcs = repeat(None), map(crc32c, payloads)
    else:
        headers, crcs = segment.headers, map(checksum, segment.headers, payloads)
        blocks = [block for block in segment.headers if block]
        if len(blocks) == len(payloads):  # no Python call per message
            crcs = map(crc32c, payloads, map(crc32c, blocks))
    texts, long = subjects
    columns: tuple[Iterable[int | str | bytes | None], ...] = (
        segment.seqs,
        segment.times,
        repeat(commit.stream),
        repeat(commit.partition),
        crcs,
        texts,
        headers,
        payloads,
    )
    if is_wide:
        columns = *columns, long or repeat(None)
    return zip(*columns, strict=False)


def _array(values: Iterable[int], kind: str) -> str:
    return "'{" + ",".join(map(str, values)) + "}'::" + kind


def _head_of(commit: StreamCommit) -> tuple[int, ...]:
    """Return the arguments of the SQL function `fence` for one stream: values to compare and to
    set.
    """
    plan = commit.plan
    return (
        commit.stream,
        commit.epoch,
        plan.before,
        plan.last_seq,
        max(plan.first_seq, plan.purged_below),
        plan.last_ts,
        plan.msgs,
        plan.nbytes,
    )


def fence_text(commits: Sequence[StreamCommit]) -> str:
    """Return the SQL statement that checks the epoch of each stream and updates its head row.

    It raises the error JG001 if the epoch or the last sequence of a stream is another one.
    """
    columns = zip(*map(_head_of, commits), strict=True)
    kinds = ("int[]", *(["bigint[]"] * 7))
    arguments = map(_array, columns, kinds)
    recorded = "".join(_replaced_call(commit) for commit in commits if commit.plan.replaced)
    return f"select jetgate_store.fence({','.join(arguments)}){recorded};"


def _erase_text(commit: StreamCommit) -> str:
    plan, since = commit.plan, commit.ids_since
    text = ""
    if plan.erased:
        seqs = _array(sorted(plan.erased), "bigint[]")
        text = (
            f"delete from jetgate_store.message_{commit.partition} "
            f"where stream = {commit.stream} and seq = any({seqs})"
        )
        if since is not None:
            kept = removed_ids.keeping(str(commit.stream), since)
            text = f"with gone as ({text} returning {removed_ids.gone(since)}){kept} select 1"
        text += ";"
    return text + removed_ids.keep_text(commit.stream, plan.last_ts, plan.unwritten_ids())


def _end_text(commit: StreamCommit) -> str:
    # After the rows, like the janitor, so that the two cannot deadlock.
    return (
        f"delete from jetgate_store.replaced where stream = {commit.stream} "
        f"and n < {commit.plan.record};"
    )


class PostgresLog:
    """Writes messages and head rows over one connection, which is reopened after it is lost.

    Attributes:
        commits: Number of transactions since the start.
        rows: Number of messages written since the start.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Any = None
        self._row_state: Any = None
        self._wide_row_state: Any = None
        self._insert_one: Any = None
        self._insert_replacing: Any = None
        self.commits = 0
        self.rows = 0

    async def _ready(self) -> Any:
        connection = self._connection
        if connection is None or connection.is_closed():
            try:
                connection = await self._connect()
                await self._prepare(connection)
            except DATABASE_ERRORS as error:
                raise Unavailable(trouble(error)) from error
            self._connection = connection
        return connection

    async def _prepare(self, connection: Any) -> None:
        try:
            sample, wide = [
                await connection.prepare(f"select {columns} from jetgate_store.message limit 0")
                for columns in (COLUMNS, ALL_COLUMNS)
            ]
            self._insert_one = await connection.prepare(_INSERT_ONE)
            self._insert_replacing = await connection.prepare(_INSERT_REPLACING)
        except BaseException:
            # No other code has this connection yet, so close it here.
            connection.terminate()
            raise
        self._row_state, self._wide_row_state = sample._state, wide._state

    async def commit(self, commits: Sequence[StreamCommit]) -> None:
        """Write messages, removals and head rows of several streams in one transaction.

        Raises:
            Fenced: Another node leads one of the streams now; nothing was written.
            Refused: PostgreSQL refused the statement; nothing was written.
            Unavailable: PostgreSQL is unreachable; nothing was written.
            OutcomeUnknown: The connection was lost while the commit was in flight.
        """
        connection = await self._ready()
        ordered = sorted(commits, key=lambda commit: commit.stream)
        written = [commit for commit in ordered if commit.plan.rows]
        subjects = [columns_of(c.plan.segment.subjects) for c in written if c.plan.segment]
        count = sum(commit.plan.rows for commit in written)
        try:
            if count == 1 and len(ordered) == 1 and not _has_other_writes(ordered[0], subjects[0]):
                await self._insert(ordered[0], subjects[0])
            else:
                await self._copy(connection, ordered, written, subjects)
        except asyncpg.PostgresError as error:
            raise self._translated(error) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            self._drop()
            if isinstance(error, ValueError):
                # The driver could not encode a value, so nothing was sent.
                raise Refused(str(error)) from error
            raise OutcomeUnknown(f"connection lost during COMMIT: {error}") from error
        except asyncio.CancelledError:
            # A connection in the middle of a COPY cannot be used again.
            self._drop()
            raise
        self.commits += 1
        self.rows += count

    async def _insert(self, commit: StreamCommit, subjects: Subjects) -> None:
        """Write one message and its head row in one round trip.

        Raises Fenced if another node leads.
        """
        plan, statement = commit.plan, self._insert_one
        values: tuple[Any, ...] = (*_head_of(commit), *next(rows_of(commit, subjects)))
        if plan.replaced:
            statement, values = self._insert_replacing, (*values, plan.record, plan.replaced)
        await statement.fetch(*values)
        if statement.get_statusmsg() != _INSERTED:
            raise Fenced(f"fenced: the head of stream {commit.stream} is not where it was left")

    async def _copy(
        self,
        connection: Any,
        commits: Sequence[StreamCommit],
        written: Sequence[StreamCommit],
        subjects: Sequence[Subjects],
    ) -> None:
        """Write any commits: fence, deletions and COPY in one string, in two round trips."""
        text = fence_text(commits) + "".join(map(_erase_text, commits))
        text += "".join(_end_text(c) for c in commits if c.plan.ends_replaced)
        text += "".join(_purge_text(c) for c in commits if c.plan.purge_filters)
        text += "".join(_position_text(c) for c in commits if c.plan.positions)
        text += "".join(_firing_text(c) for c in commits if c.plan.firings)
        text += "".join(ledger_text(c.stream, w) for c in commits for w in c.plan.ledger)
        if not written:
            await connection.execute(text)
            return
        partitions = {c.partition for c in written}
        table = f"message_{partitions.pop()}" if len(partitions) == 1 else "message"
        is_wide = any(long is not None for _, long in subjects)
        columns = ALL_COLUMNS if is_wide else COLUMNS
        text += f"copy jetgate_store.{table} ({columns}) from stdin (format binary)"
        if sum(commit.plan.rows for commit in written) in _ROW_BY_ROW:
            text += _VOLATILE_TRUE
        rows = chain.from_iterable(map(partial(rows_of, is_wide=is_wide), written, subjects))
        state = self._wide_row_state if is_wide else self._row_state
        # Private: there is no public call for a COPY with statements before it.
        await connection._protocol.copy_in(text, None, None, rows, state, None)

    def _translated(self, error: asyncpg.PostgresError) -> Exception:
        if error.sqlstate == FENCED:
            return Fenced(str(error))
        state = error.sqlstate or ""
        # Class 57P and a lost connection end the session: the outcome of COMMIT is unknown.
        if state.startswith(("57P", "08")) or getattr(error, "severity_en", "") in (
            "FATAL",
            "PANIC",
        ):
            self._drop()
            return OutcomeUnknown(str(error))
        if isinstance(error, READ_ONLY):
            # After a failover: the next session may reach the new primary.
            self._drop()
        return Refused(str(error), is_full=state.startswith("53"))

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.terminate()

    async def heads(self, streams: Sequence[int]) -> dict[int, Head]:
        """Return the head rows (epoch, sequences at both ends, totals) of streams, by stream
        number.

        Raises Unavailable if PostgreSQL does not answer.
        """
        rows = await self._fetch(_HEADS, streams)
        return {row[0]: Head(*row[1:]) for row in rows}

    async def consumer_changes(self, streams: Sequence[int]) -> dict[int, int]:
        """Return the number of changes of the consumers of each stream, by stream number.

        Raises Unavailable if PostgreSQL does not answer.
        """
        return dict(await self._fetch(_CONSUMER_CHANGES, streams))

    async def _fetch(self, statement: str, streams: Sequence[int]) -> list[Any]:
        connection = await self._ready()
        try:
            return list(await connection.fetch(statement, list(streams)))
        except DATABASE_ERRORS as error:
            self._drop()
            raise Unavailable(trouble(error)) from error

    async def close(self) -> None:
        """Close the connection with PostgreSQL. Errors are ignored."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close(timeout=_CLOSE_TIMEOUT_S)


def _has_other_writes(commit: StreamCommit, subjects: Subjects) -> bool:
    """Return whether a commit of one message writes more than the message and the head row."""
    plan, (_, long) = commit.plan, subjects
    return bool(
        long
        or plan.erased
        or plan.ends_replaced
        or plan.unwritten_ids()
        or plan.purge_filters
        or plan.positions
        or plan.firings
        or plan.ledger
    )


def _replaced_call(commit: StreamCommit) -> str:
    """Return the SQL function call that records the replaced messages of a commit.

    A function has a cached plan; an INSERT statement of its own takes much longer.
    """
    plan = commit.plan
    seqs = _array(plan.replaced, "bigint[]")
    return f",jetgate_store.record_replaced({commit.stream},{plan.record},{seqs})"


def _purge_text(commit: StreamCommit) -> str:
    filters, up_to = commit.plan.purge_filters, commit.plan.purge_up_to
    hexed = ",".join(sql_text(text_of(each)) for each in filters)
    return (
        "insert into jetgate_store.purge (stream, n, filters, up_to_seq) "
        f"select {commit.stream}, coalesce(max(n), 0) + 1, array[{hexed}]::text[], {up_to} "
        f"from jetgate_store.purge where stream = {commit.stream};"
    )


def _position_text(commit: StreamCommit) -> str:
    def row(position: Position) -> str:
        texts = sql_text(position.key), position.seq, sql_text(position.identity)
        return f"({commit.stream},{texts[0]},{texts[1]},{texts[2]})"

    return (
        "insert into jetgate_store.source (stream, key, seq, identity) "
        f"values {','.join(map(row, commit.plan.positions))} "
        "on conflict (stream, key) do update set seq = excluded.seq, identity = excluded.identity;"
    )


def _firing_text(commit: StreamCommit) -> str:
    def row(pending: Pending) -> str:
        subject = sql_text(key_of(pending.subject))
        return f"({commit.stream},{subject},{pending.seq},{min(pending.due, _BIGINT_MAX)})"

    return (
        "insert into jetgate_store.schedule (stream, subject, seq, due) "
        f"values {','.join(map(row, commit.plan.firings))} "
        "on conflict (stream, subject) do update set seq = excluded.seq, due = excluded.due;"
    )
