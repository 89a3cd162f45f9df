"""The last message of each subject: finding them, and reading them while the stream changes.

The driver finds their sequences, and tasks read them. In between, a newer message of a subject may
remove the one that was found; then its subject leads to the newer one. So every subject that is not
deleted has a row, however fast the stream changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream.splits import even
from pyspark_jetstream.transport.base import Page, Transport, Wanted

_FEW = 64
"""Up to this number, subjects are looked up by name, in statements that also read the messages."""

_ROUNDS = 4
_DELETED = rb"\r\n(KV-Operation: *(DEL|PURGE)|Nats-Marker-Reason:)"
_NOTHING = Wanted(headers=False, data=False, ts=False)


@dataclass(frozen=True, slots=True)
class Latest:
    """Last messages of subjects, by ascending sequence; small when pickled.

    Attributes:
        table: Columns seq, subject and size, as a stream of Arrow's IPC format.
    """

    table: bytes

    @classmethod
    def of(cls, table: pa.Table) -> "Latest":
        """Encode the columns seq, subject and size of a table."""
        sink = pa.BufferOutputStream()
        chosen = table.select(["seq", "subject", "size"])
        codec = "zstd" if pa.Codec.is_available("zstd") else None
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_stream(sink, chosen.schema, options=options) as writer:
            writer.write_table(chosen)
        return cls(sink.getvalue().to_pybytes())

    def rows(self) -> pa.Table:
        """Return the table."""
        return pa.ipc.open_stream(self.table).read_all()


def find_latest(
    transport: Transport, stream: str, filters: tuple[str, ...], up_to: int, *, current: bool
) -> pa.Table:
    """Return the last message of each subject as of a sequence: columns seq, subject, size.

    Args:
        transport: Reads the stream.
        stream: Its name.
        filters: Subjects; empty for all.
        up_to: Later messages do not count.
        current: True to include the last message of a subject with later messages only, because the
            earlier one may have been replaced since.
    """
    found = _table(transport.last_by_subject(stream, filters, up_to, _NOTHING))
    if current:
        # The order matters: a subject that is replaced in between is in one of both results.
        now = _table(transport.last_by_subject(stream, filters, None, _NOTHING))
        now = now.filter(pc.greater(now["seq"], up_to))
        known = pc.is_in(now["subject"], value_set=found["subject"].combine_chunks())
        found = pa.concat_tables([found, now.filter(pc.invert(known))])
    return found.sort_by("seq")


def divide(table: pa.Table, parts: int) -> list[Latest]:
    """Cut a table into at most `parts` parts of nearly equal length."""
    return [Latest.of(table.slice(a, b - a)) for a, b in even(table.num_rows, parts)]


def read_latest(
    transport: Transport, stream: str, latest: Latest, wanted: Wanted, kind: str
) -> Iterator[pa.RecordBatch]:
    """Read the found messages, raw.

    Args:
        transport: Reads the stream.
        stream: Its name.
        latest: The found messages.
        wanted: Columns to read.
        kind: As in `LatestSplit`.
    """
    planned = latest.rows()
    if kind == "found":
        for page in transport.points(stream, planned["seq"].to_pylist(), wanted):
            yield page.rows
        return
    wanted = replace(wanted, headers=True)  # headers mark deleted keys
    if kind == "exact":
        for page in transport.points(stream, planned["seq"].to_pylist(), wanted):
            yield without_deleted(page.rows)
        return
    rounds = 0
    while planned.num_rows:
        seen: list[pa.Array] = []
        for page in transport.points(stream, planned["seq"].to_pylist(), wanted):
            seen.append(page.rows.column("seq"))
            yield without_deleted(page.rows)
        found = pa.chunked_array(seen, pa.int64()).combine_chunks()
        missing = planned.filter(pc.invert(pc.is_in(planned["seq"], value_set=found)))["subject"]
        rounds += 1
        if len(missing) <= _FEW or rounds == _ROUNDS:
            yield from _one_by_one(transport, stream, missing.to_pylist(), wanted)
            return
        now = _table(transport.last_by_subject(stream, (), None, _NOTHING))
        planned = now.filter(pc.is_in(now["subject"], value_set=missing.combine_chunks()))


def without_deleted(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Remove the rows that mark a key as deleted or expired."""
    blocks = rows.column("headers")
    if blocks.null_count == len(blocks):
        return rows
    deleted = pc.match_substring_regex(blocks, _DELETED.decode("latin-1"))
    return rows.filter(pc.invert(pc.fill_null(deleted, False)))


def _one_by_one(
    transport: Transport, stream: str, subjects: list[str], wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    """Read the last messages of subjects; each statement sees one state of the stream."""
    for begin in range(0, len(subjects), _FEW):
        some = tuple(subjects[begin : begin + _FEW])
        for page in transport.last_by_subject(stream, some, None, wanted):
            yield without_deleted(page.rows)


def _table(pages: Iterator[Page]) -> pa.Table:
    batches = [page.rows.select(["seq", "subject", "size"]) for page in pages]
    schema = pa.schema([("seq", pa.int64()), ("subject", pa.string()), ("size", pa.int64())])
    return pa.Table.from_batches(batches, schema)
