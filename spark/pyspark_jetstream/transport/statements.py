"""The SQL statements of the transport `sql`, over the documented views of the schema `jetgate`.

Statements contain their values, because ADBC reads by COPY, which has no parameters. The first row
of a result is the state of the stream: its `seq` is null, and its `subject` contains the numbers of
`base.Head`, separated by blanks.
"""

from collections.abc import Sequence

from pyspark_jetstream.subjects import sql_condition, sql_text
from pyspark_jetstream.transport.base import Wanted

_HEAD = "concat_ws(' ', incarnation, first_seq, last_seq, messages, bytes, last_ts)"

_KINDS = {"size": "integer", "headers": "bytea", "data": "bytea"}


class Statements:
    """Builder of SQL statements about the streams of one account.

    Args:
        account: Name of the account.
        verify: True to read also the checksum of each message.
    """

    def __init__(self, account: str, verify: bool) -> None:
        self._account = sql_text(account)
        self._verify = verify

    def head(self, stream: str) -> str:
        """Return the SQL for the state of a stream.

        The result is one row with the numbers of `base.Head` as text, or none if there is no such
        stream.
        """
        return f"select {_HEAD} as head from jetgate.heads where {self._of(stream)}"

    def page(
        self, stream: str, first: int, last: int, filters: tuple[str, ...], wanted: Wanted
    ) -> str:
        """Return the SQL for the state of a stream, and the messages of a range of sequences."""
        return self._under_head(
            stream,
            wanted,
            f"jetgate.log where {self._id(stream)} and seq between {first:d} and {last:d}"
            f" and {sql_condition(filters)} order by seq",
        )

    def points(self, stream: str, seqs: Sequence[int], wanted: Wanted) -> str:
        """Return the SQL for the state of a stream, and the messages with the given sequences."""
        listed = ",".join(map(str, seqs))
        return self._under_head(
            stream,
            wanted,
            f"jetgate.log where {self._id(stream)} and seq = any('{{{listed}}}'::bigint[])"
            f" and seq between {min(seqs):d} and {max(seqs):d} order by seq",
        )

    def last_by_subject(
        self, stream: str, filters: tuple[str, ...], up_to: int | None, wanted: Wanted
    ) -> str:
        """Return the SQL for the state of a stream, and the last message of each subject."""
        limit = "null" if up_to is None else f"{up_to:d}"
        found = " union all ".join(
            f"select * from jetgate.last_by_subject({sql_text(stream)}, {sql_text(one)},"
            f" {limit}::bigint, {self._account})"
            for one in filters or (">",)
        )
        if len(filters) > 1:  # a subject may match several filters
            found = f"select distinct on (seq) * from ({found}) as each order by seq"
        return self._under_head(stream, wanted, f"({found}) as found order by seq")

    def bound(
        self, stream: str, after: int, last: int, filters: tuple[str, ...], rows: int, size: int
    ) -> str:
        """Return the SQL for the end of a batch of at most `rows` messages and `size` bytes.

        The result is one row. Columns seq, n and total: last sequence, number and bytes of the
        messages in the batch. Columns looked and first: number of examined messages, and the first
        of them.
        """
        fits = f"n <= {rows:d} and total <= {size:d}"
        return (
            f"select max(seq) filter (where {fits}) as seq, count(*) filter (where {fits}) as n,"
            f" max(total) filter (where {fits})::bigint as total, count(*) as looked,"
            " min(seq) as first"
            " from (select seq, row_number() over up as n, sum(size) over up as total from ("
            f"select seq, size from jetgate.log where {self._id(stream)}"
            f" and seq > {after:d} and seq <= {last:d} and {sql_condition(filters)}"
            f" order by seq limit {rows:d}) as read"
            " window up as (order by seq rows unbounded preceding)) as counted"
        )

    def seq_at(self, stream: str, ts: int) -> str:
        """Return the SQL for the first sequence stored at or after `ts`, in ns since the epoch."""
        return f"select jetgate.seq_at({sql_text(stream)}, {ts:d}::bigint, {self._account}) as seq"

    def consumers(self, stream: str) -> str:
        """Return the SQL for a stream's consumers, with the field names of `CONSUMER.INFO`."""
        return (
            "select name, delivered_stream_seq + lag as last_seq, delivered_stream_seq,"
            " ack_floor_stream_seq, ack_pending as num_ack_pending,"
            " redelivered as num_redelivered, null::bigint as num_pending"
            f" from jetgate.consumers where {self._of(stream)} order by name"
        )

    def is_standby(self) -> str:
        """Return the SQL whose one row tests whether the database is a standby."""
        return "select pg_is_in_recovery() as is_standby"

    def stored_at(self, stream: str, seq: int) -> str:
        """Return the SQL for the time of the first message at or after a sequence."""
        return (
            f"select ts from jetgate.log where {self._id(stream)} and seq >= {seq:d}"
            " order by seq limit 1"
        )

    def _under_head(self, stream: str, wanted: Wanted, source: str) -> str:
        chosen = {
            "ts": wanted.ts,
            "size": wanted.size,
            "headers": wanted.headers or self._verify,
            "data": wanted.data or self._verify,
            "crc": self._verify,
        }
        names = [name for name, is_wanted in chosen.items() if is_wanted]
        nulls = "".join(f", null::{_KINDS.get(name, 'bigint')} as {name}" for name in names)
        subject = "subject" if wanted.subject else "null"
        rows = ", ".join(["seq", subject, *names])
        return (
            f"select null::bigint as seq, {_HEAD} as subject{nulls}"
            f" from jetgate.heads where {self._of(stream)} union all (select {rows} from {source})"
        )

    def _id(self, stream: str) -> str:
        """Return the condition on `jetgate.log` by which PostgreSQL reads in index order."""
        return f"id = (select id from jetgate.heads where {self._of(stream)})"

    def _of(self, stream: str) -> str:
        return f"stream = {sql_text(stream)} and account = {self._account}"
