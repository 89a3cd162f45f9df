"""The write path: all plans of a group commit as one fenced COPY.

A simple-query string of several statements is one implicit transaction. The string is
`select fence(...); [delete ...;] copy ... from stdin (format binary)`: the fence locks and moves
every head row or raises `JG001`, in which case no row stays. Two waits per commit, whatever the
number of messages and streams. The text holds only integers formatted here; everything a client
chose travels in the binary COPY stream. A commit of one message is one prepared INSERT behind a
fence of its own: one wait.

asyncpg has no public call for statements before a COPY, so `FencedConnection` makes one private
call, in one place; the driver's minor version is pinned for it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import asyncpg
from crc32c import crc32c

from core.errors import Fenced, OutcomeUnknown, Refused, Unavailable
from core.storage.interface import Head, StreamCommit
from core.storage.postgres.connect import LOST, READ_ONLY
from core.storage.postgres.pages import checksum
from core.stream.plan import Position
from core.stream.schedules import Pending

COLUMNS = "seq, ts, stream, shelf, crc, subject, hdr, data"
FENCED = "JG001"

# A lone message goes as one prepared statement without arrays: COPY would cost it another wait
# and a parse, the function of the fence more than the insertion itself. Where the head is not as
# this node left it, it inserts nothing.
_LONE = f"""
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
_INSERTED = "INSERT 0 1"
_LATEST = (1 << 63) - 1
# Seconds for a goodbye that nobody needs.
_CLOSE_S = 0.2

# COPY holds a slot for each of up to a thousand rows, and the more it holds the longer PostgreSQL
# looks for the place of the next in its list of resources: at a thousand rows that is a third of
# the work. A condition that may change from row to row has it insert them one by one, which costs
# more for few rows, and for many, over which the slots are used again and again.
_ROW_BY_ROW = range(400, 3000)
_ALWAYS = " where clock_timestamp() is not null"

Row = tuple[int, int, int, int, int, str, bytes | None, bytes]
Connect = Callable[[], Awaitable[Any]]


def rows_of(commit: StreamCommit) -> Iterator[Row]:
    """Yield the COPY rows of one plan without a Python step per message where possible."""
    segment = commit.plan.segment
    if segment is None:
        return iter(())
    payloads = segment.payloads
    headers: Iterable[bytes | None]
    crcs: Iterable[int]
    if segment.headers is None:
        headers, crcs = repeat(None), map(crc32c, payloads)
    else:
        headers, crcs = segment.headers, map(checksum, segment.headers, payloads)
    return zip(
        segment.seqs,
        segment.times,
        repeat(commit.stream),
        repeat(commit.shelf),
        crcs,
        commit.plan.texts,
        headers,
        payloads,
    )


def _array(values: Iterable[int], kind: str) -> str:
    return "'{" + ",".join(map(str, values)) + "}'::" + kind


def _head_of(commit: StreamCommit) -> tuple[int, ...]:
    """What the fence compares and sets for one stream, in the order of its arguments."""
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
    """Return the statement that moves the heads of all streams of a commit, or raises."""
    columns = zip(*map(_head_of, commits), strict=True)
    kinds = ("int[]", *(["bigint[]"] * 7))
    arguments = map(_array, columns, kinds)
    return f"select jetgate_store.fence({','.join(arguments)});"


def _erase_text(commit: StreamCommit) -> str:
    if not commit.plan.erased:
        return ""
    seqs = _array(sorted(commit.plan.erased), "bigint[]")
    return (
        f"delete from jetgate_store.message_{commit.shelf} "
        f"where stream = {commit.stream} and seq = any({seqs});"
    )


class PostgresLog:
    """LogWriter over one dedicated connection, opened again after it was lost."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._connection: Any = None
        self._row_state: Any = None
        self._lone: Any = None
        self.commits = 0
        self.rows = 0

    async def _ready(self) -> Any:
        connection = self._connection
        if connection is None or connection.is_closed():
            try:
                connection = await self._connect()
                await self._prepare(connection)
            except LOST as error:
                raise Unavailable(f"PostgreSQL is not reachable: {error}") from error
            self._connection = connection
        return connection

    async def _prepare(self, connection: Any) -> None:
        try:
            sample = await connection.prepare(
                f"select {COLUMNS} from jetgate_store.message limit 0"
            )
            self._lone = await connection.prepare(_LONE)
        except BaseException:
            # Nobody would ever close it.
            connection.terminate()
            raise
        self._row_state = sample._state

    async def commit(self, commits: Sequence[StreamCommit]) -> None:
        """Write the plans of all streams in one transaction.

        Raises:
            Fenced: another node leads one of the streams now; nothing was written.
            Refused: PostgreSQL refused the statement; nothing was written.
            Unavailable: PostgreSQL is not reachable; nothing was written.
            OutcomeUnknown: the connection was lost while the commit was in flight.
        """
        connection = await self._ready()
        ordered = sorted(commits, key=lambda commit: commit.stream)
        written = [c for c in ordered if c.plan.segment is not None and len(c.plan.segment)]
        count = sum(len(c.plan.texts) for c in written)
        try:
            if count == 1 and len(ordered) == 1 and not _says_more(ordered[0]):
                await self._insert(ordered[0])
            else:
                await self._copy(connection, ordered, written, count)
        except asyncpg.PostgresError as error:
            raise self._translated(error) from error
        except (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
            self._drop()
            if isinstance(error, ValueError):
                # A value that the driver cannot encode never left this process.
                raise Refused(str(error)) from error
            raise OutcomeUnknown(f"connection lost during COMMIT: {error}") from error
        except asyncio.CancelledError:
            # A connection in the middle of a COPY is of no further use.
            self._drop()
            raise
        self.commits += 1
        self.rows += count

    async def _insert(self, commit: StreamCommit) -> None:
        """Write the one message of a plan that does nothing else: one wait."""
        await self._lone.fetch(*_head_of(commit), *next(rows_of(commit)))
        if self._lone.get_statusmsg() != _INSERTED:
            raise Fenced(f"fenced: the head of stream {commit.stream} is not where it was left")

    async def _copy(
        self,
        connection: Any,
        commits: Sequence[StreamCommit],
        written: Sequence[StreamCommit],
        count: int,
    ) -> None:
        """Write any plans: fence, removals and COPY in one string, two waits."""
        text = fence_text(commits) + "".join(map(_erase_text, commits))
        text += "".join(_purge_text(c) for c in commits if c.plan.purge_filters)
        text += "".join(_position_text(c) for c in commits if c.plan.positions)
        text += "".join(_firing_text(c) for c in commits if c.plan.firings)
        if not written:
            await connection.execute(text)
            return
        shelves = {c.shelf for c in written}
        table = f"message_{shelves.pop()}" if len(shelves) == 1 else "message"
        text += f"copy jetgate_store.{table} ({COLUMNS}) from stdin (format binary)"
        if count in _ROW_BY_ROW:
            text += _ALWAYS
        rows = chain.from_iterable(map(rows_of, written))
        # The one private call: a COPY with statements of the same transaction before it.
        await connection._protocol.copy_in(text, None, None, rows, self._row_state, None)

    def _translated(self, error: asyncpg.PostgresError) -> Exception:
        if error.sqlstate == FENCED:
            return Fenced(str(error))
        state = error.sqlstate or ""
        # Class 57P and a lost connection end the session: whether COMMIT happened is unknown.
        if state.startswith(("57P", "08")) or getattr(error, "severity_en", "") in (
            "FATAL",
            "PANIC",
        ):
            self._drop()
            return OutcomeUnknown(str(error))
        if isinstance(error, READ_ONLY):
            # As after a fail-over: the next session may be with a server that can write.
            self._drop()
        return Refused(str(error), is_full=state.startswith("53"))

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.terminate()

    async def heads(self, streams: Sequence[int]) -> dict[int, Head]:
        """Return head rows (all streams when none are named).

        Raises Unavailable.
        """
        connection = await self._ready()
        try:
            rows = await connection.fetch(
                "select stream, epoch, first_seq, last_seq, last_ts, msgs, bytes "
                "from jetgate_store.head where stream = any($1::int[])",
                list(streams),
            )
        except LOST as error:
            self._drop()
            raise Unavailable(f"PostgreSQL is not reachable: {error}") from error
        return {row[0]: Head(*row[1:]) for row in rows}

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close(timeout=_CLOSE_S)


def _says_more(commit: StreamCommit) -> bool:
    """Whether a plan writes more than messages and the head."""
    plan = commit.plan
    return bool(plan.erased or plan.purge_filters or plan.positions or plan.firings)


def _purge_text(commit: StreamCommit) -> str:
    filters, up_to = commit.plan.purge_filters, commit.plan.purge_up_to
    hexed = ",".join(map(_text, filters))
    return (
        "insert into jetgate_store.purge (stream, n, filters, up_to_seq) "
        f"select {commit.stream}, coalesce(max(n), 0) + 1, array[{hexed}]::text[], {up_to} "
        f"from jetgate_store.purge where stream = {commit.stream};"
    )


def _position_text(commit: StreamCommit) -> str:
    def row(position: Position) -> str:
        texts = _text(position.key), position.seq, _text(position.identity)
        return f"({commit.stream},{texts[0]},{texts[1]},{texts[2]})"

    return (
        "insert into jetgate_store.source (stream, key, seq, identity) "
        f"values {','.join(map(row, commit.plan.positions))} "
        "on conflict (stream, key) do update set seq = excluded.seq, identity = excluded.identity;"
    )


def _firing_text(commit: StreamCommit) -> str:
    def row(pending: Pending) -> str:
        subject = _text(pending.subject.decode())
        return f"({commit.stream},{subject},{pending.seq},{min(pending.due, _LATEST)})"

    return (
        "insert into jetgate_store.schedule (stream, subject, seq, due) "
        f"values {','.join(map(row, commit.plan.firings))} "
        "on conflict (stream, subject) do update set seq = excluded.seq, due = excluded.due;"
    )


def _text(value: str) -> str:
    """Return a text that a client chose as SQL that cannot break out of it."""
    return f"convert_from('\\x{value.encode().hex()}'::bytea,'UTF8')"
