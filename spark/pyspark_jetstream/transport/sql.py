"""The transport `sql`: reads a stream from the tables of PostgreSQL, as Arrow batches by ADBC.

It reads only views and functions of the schema `jetgate`, so a role without other rights suffices,
and a standby too. One statement reads messages and the state of the stream consistently.
"""

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream.options import ConnectionOptions, checked_dsn
from pyspark_jetstream.transport import idle, sqlstates
from pyspark_jetstream.transport.adbc import AdbcSession, Rows
from pyspark_jetstream.transport.base import RAW_SCHEMA, Consumer, Head, Page, Wanted
from pyspark_jetstream.transport.checksums import verify_rows
from pyspark_jetstream.transport.errors import (
    JetStreamError,
    NotReachable,
    RefusedBySql,
    StreamNotFound,
)
from pyspark_jetstream.transport.statements import Statements

_PAGE = 131_072
"""Sequences read by one statement: many are cheaper, but a long statement delays vacuum."""

_POINTS = 8192
_BOUND = 262_144
_POLL = 0.05
_EVERYTHING = 2**62


class SqlTransport:
    """A `base.Transport` for one account over one PostgreSQL connection, acquired on first use.

    Args:
        options: The connection string, the account, and the timeout.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._statements = Statements(options.account, options.verify)
        self._session: AdbcSession | None = None

    def head(self, stream: str) -> Head:
        """Return the current state of a stream."""
        rows = self._table(self._statements.head(stream)).column("head").to_pylist()
        if not rows:
            raise StreamNotFound(stream, f"in account {self._options.account!r} by SQL")
        return _head(stream, rows[0])

    def seq_at(self, stream: str, ts: int) -> int:
        """Return the first sequence stored at or after a time; `last_seq + 1` if there is none.

        `ts` is in nanoseconds since the epoch.
        """
        seq: int | None = self._table(self._statements.seq_at(stream, ts)).column(0)[0].as_py()
        return self.head(stream).last_seq + 1 if seq is None else seq

    def bound(
        self,
        stream: str,
        after: int,
        last: int,
        filters: tuple[str, ...],
        rows: int | None,
        size: int | None,
    ) -> int:
        """Return the last sequence of a limited batch, counted exactly.

        The arguments are those of `Transport.bound`.
        """
        end, some = after, False
        rows = _EVERYTHING if rows is None else rows
        size = _EVERYTHING if size is None else size
        while end < last and rows > 0:
            step = min(rows, _BOUND)
            found = self._table(
                self._statements.bound(stream, end, last, filters, step, size)
            ).to_pylist()[0]
            if found["n"] == found["looked"] and found["looked"] < step:
                return last
            if not found["n"]:
                return end if some else int(found["first"])
            end, some = int(found["seq"]), True
            rows, size = rows - int(found["n"]), size - int(found["total"])
            if found["n"] < found["looked"]:
                return end
        return end

    def pages(
        self, stream: str, first: int, last: int, filters: tuple[str, ...], wanted: Wanted
    ) -> Iterator[Page]:
        """Yield the messages in a range of sequences; the arguments are those of `Transport.pages`.

        One statement reads at most 131,072 sequences. After a transient failure it continues after
        the last page.
        """
        after = first - 1
        waiting = _Deadline(self._options.timeout)
        while after < last:
            until = min(last, after + _PAGE)
            statement = self._statements.page(stream, after + 1, until, filters, wanted)
            try:
                for page in self._pages(stream, statement, until):
                    if page.through > after:
                        after = page.through
                        waiting.restart()
                    yield page
            except _Away as away:
                waiting.wait_or_raise(str(away))
                continue
            if after < until:
                waiting.wait_or_raise(
                    f"stream {stream!r} is at sequence {page.head.last_seq} here, the read goes to "
                    f"{last}: a standby that lags behind, or a primary that lost its end"
                )

    def points(self, stream: str, seqs: Sequence[int], wanted: Wanted) -> Iterator[Page]:
        """Yield the messages with the given sequences, without those that are not stored."""
        for begin in range(0, len(seqs), _POINTS):
            some = seqs[begin : begin + _POINTS]
            statement = self._statements.points(stream, some, wanted)
            yield from self._whole(stream, statement, some[-1])

    def last_by_subject(
        self, stream: str, filters: tuple[str, ...], up_to: int | None, wanted: Wanted
    ) -> Iterator[Page]:
        """Yield the last message of each subject up to a sequence, in one consistent state.

        The arguments are those of `Transport.last_by_subject`.
        """
        statement = self._statements.last_by_subject(stream, filters, up_to, wanted)
        yield from self._whole(stream, statement, _EVERYTHING if up_to is None else up_to)

    def stored_at(self, stream: str, seq: int) -> int | None:
        """Return the time of the first message at or after a sequence; None if there is none.

        The time is in nanoseconds since the epoch.
        """
        found = self._table(self._statements.stored_at(stream, seq)).column(0).to_pylist()
        return int(found[0]) if found else None

    def consumers(self, stream: str) -> list[Consumer]:
        """Return the stored state of the stream's consumers, sorted by name."""
        rows = self._table(self._statements.consumers(stream)).to_pylist()
        return [Consumer(**row) for row in rows]

    def may_lag(self) -> bool:
        """Return True if the database is a standby, which may lack the last sequences."""
        return bool(self._table(self._statements.is_standby()).column(0)[0].as_py())

    def close(self) -> None:
        """Return the connection to the pool of idle connections of this process."""
        session, self._session = self._session, None
        if session is not None:
            idle.release(self._dsn(), session)

    def _whole(self, stream: str, statement: str, until: int) -> Iterator[Page]:
        """Yield the pages of a statement that cannot resume; retry only before the first page."""
        waiting = _Deadline(self._options.timeout)
        some = False
        while True:
            try:
                for page in self._pages(stream, statement, until):
                    some = True
                    yield page
                return
            except _Away as away:
                if some:
                    raise NotReachable(str(away)) from None
                waiting.wait_or_raise(str(away))

    def _pages(self, stream: str, statement: str, until: int) -> Iterator[Page]:
        """Yield the batches of a statement as they arrive; the last page is complete up to
        `until`.
        """
        found = self._query(statement)
        try:
            head: Head | None = None
            held: pa.RecordBatch | None = None
            for batch in _batches(found):
                if head is None and batch.num_rows:
                    head = _head(stream, batch.column("subject")[0].as_py())
                    batch = batch.slice(1)
                if not batch.num_rows:
                    continue
                if head is not None and held is not None:
                    yield Page(head, held, held.column(0)[-1].as_py())
                held = self._raw(stream, batch)
            if head is None:
                raise StreamNotFound(stream, f"in account {self._options.account!r} by SQL")
            yield Page(head, _nothing() if held is None else held, min(until, head.last_seq))
        finally:
            found.close()

    def _raw(self, stream: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with the columns of `RAW_SCHEMA`, after a check of order and checksums."""
        seq = batch.column("seq")
        if not pc.all(pc.less(seq[:-1], seq[1:]), min_count=0).as_py():
            raise JetStreamError(f"stream {stream!r}: the database gave sequences out of order")
        if self._options.verify:
            verify_rows(stream, batch)
        names = batch.schema.names
        columns = [
            batch.column(field.name).cast(field.type)
            if field.name in names
            else pa.nulls(batch.num_rows, field.type)
            for field in RAW_SCHEMA
        ]
        return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)

    def _table(self, statement: str) -> pa.Table:
        waiting = _Deadline(self._options.timeout)
        while True:
            try:
                found = self._query(statement)
                try:
                    return pa.Table.from_batches(list(_batches(found)), found.reader.schema)
                finally:
                    found.close()
            except _Away as away:
                waiting.wait_or_raise(str(away))

    def _query(self, statement: str) -> Rows:
        """Run a statement. Raises _Away if the failure is temporary."""
        session = self._connected()
        try:
            return session.query(statement)
        except Exception as error:
            raise self._failure(error) from None

    def _connected(self) -> AdbcSession:
        if self._session is not None:
            return self._session
        dsn = self._dsn()
        self._session = idle.acquire(dsn)
        if self._session is not None:
            return self._session
        try:
            self._session = AdbcSession(dsn, autocommit=True)
            self._session.execute("set max_parallel_workers_per_gather = 0")
        except ImportError:
            raise JetStreamError(
                "transport sql needs ADBC in the Python of driver and executors: "
                "pip install 'pyspark-jetstream[sql]'"
            ) from None
        except Exception as error:
            self._discard_session()
            code = getattr(error, "sqlstate", None) or ""
            verdict = sqlstates.of_connection(code, str(error))
            if verdict.is_permanent:
                raise self._refused("refused the connection", verdict, error) from None
            raise _Away(self._told(error)) from None
        return self._session

    def _discard_session(self) -> None:
        """Close the connection, which may be broken."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _failure(self, error: Exception) -> Exception:
        verdict = sqlstates.of_statement(getattr(error, "sqlstate", None) or "")
        if verdict.is_permanent:
            return self._refused("refused a read", verdict, error)
        self._discard_session()
        return _Away(self._told(error))

    def _refused(self, what: str, verdict: sqlstates.Verdict, error: Exception) -> RefusedBySql:
        explanation = f": {verdict.explanation}" if verdict.explanation else ""
        words = " ".join(self._told(error).split())
        return RefusedBySql(f"PostgreSQL {what} ({verdict.code}){explanation}: {words}")

    def _dsn(self) -> str:
        assert self._options.dsn is not None, "checked with the options"
        return checked_dsn(self._options.dsn)

    def _told(self, error: Exception) -> str:
        """Return the driver's error text without the password."""
        assert self._options.dsn is not None
        return self._options.dsn.without(str(error))


class _Away(Exception):
    """A temporary failure; a later attempt may succeed."""


class _Deadline:
    """A time limit for repeated waits.

    Args:
        seconds: Limit in seconds, from the start or the last `restart`.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart()

    def restart(self) -> None:
        """Restart the limit after progress."""
        self._until = time.monotonic() + self._seconds

    def wait_or_raise(self, reason: str) -> None:
        """Wait 50 ms. Raises NotReachable with `reason` if the time limit is over."""
        if time.monotonic() >= self._until:
            raise NotReachable(f"given up after {self._seconds:g} s (option 'timeout'): {reason}")
        time.sleep(_POLL)


def _nothing() -> pa.RecordBatch:
    columns = [pa.nulls(0, field.type) for field in RAW_SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)


def _batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    try:
        yield from rows
    except (pa.ArrowException, OSError) as error:
        raise _Away(str(error)) from None


def _head(stream: str, text: str) -> Head:
    return Head(stream, *map(int, text.split()))
