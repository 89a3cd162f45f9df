"""Reads of the last message of each subject, also while the stream changes.

The driver finds the sequences of the messages, and tasks read them later. In between, a newer
message of the same subject may replace a found one; then the task reads the newer one. So every
subject has a row unless its key is deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream.splits import even
from pyspark_jetstream.transport.base import Page, Transport, Wanted

_FEW = 64
"""Largest number of subjects that one statement looks up by name and reads at once."""

_ROUNDS = 4
_DELETED = rb"\r\n(KV-Operation: *(DEL|PURGE)|Nats-Marker-Reason:)"
_NOTHING = Wanted(headers=False, data=False, ts=False)


@dataclass(frozen=True, slots=True)
class Latest:
    """Sequences and subjects of the last messages of some subjects, for a Spark partition.

    They are encoded compactly, by ascending sequence.

    Attributes:
        table: Columns seq, subject and size (bytes), as a stream of Arrow's IPC format.
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
        """Decode the messages to a table with the columns seq, subject and size (bytes)."""
        return pa.ipc.open_stream(self.table).read_all()


def find_latest(
    transport: Transport, stream: str, filters: tuple[str, ...], up_to: int, *, current: bool
) -> pa.Table:
    """Find the last message of each subject as of a sequence; columns seq, subject, size (bytes).

    Args:
        transport: Connection that reads the stream.
        stream: Name of the stream.
        filters: Subjects to read; empty for all.
        up_to: Messages with a higher sequence are ignored.
        current: True to include also the last message of a subject whose messages all have higher
            sequences, because an earlier message may have been replaced.
    """
    found = _table(transport.last_by_subject(stream, filters, up_to, _NOTHING))
    if current:
        # This order is required: if a message is replaced in between, its subject is still in one
        # of the two results.
        now = _table(transport.last_by_subject(stream, filters, None, _NOTHING))
        now = now.filter(pc.greater(now["seq"], up_to))
        known = pc.is_in(now["subject"], value_set=found["subject"].combine_chunks())
        found = pa.concat_tables([found, now.filter(pc.invert(known))])
    return found.sort_by("seq")


def divide(table: pa.Table, parts: int) -> list[Latest]:
    """Divide the rows of a table among at most `parts` partitions of nearly equal length."""
    return [Latest.of(table.slice(a, b - a)) for a, b in even(table.num_rows, parts)]


def read_latest(
    transport: Transport, stream: str, latest: Latest, wanted: Wanted, kind: str
) -> Iterator[pa.RecordBatch]:
    """Yield the found messages as batches with the columns of the transport.

    Args:
        transport: Connection that reads the stream.
        stream: Name of the stream.
        latest: The found messages.
        wanted: Parts of a message to read.
        kind: `current`: a message that is no longer stored is replaced by the newest of its
            subject, and deleted keys are left out. `exact`: the same without replacement. `found`:
            all messages that are still stored, with deleted keys.
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
    """Remove the rows whose headers mark a key as deleted, purged or expired."""
    blocks = rows.column("headers")
    if blocks.null_count == len(blocks):
        return rows
    deleted = pc.match_substring_regex(blocks, _DELETED.decode("latin-1"))
    return rows.filter(pc.invert(pc.fill_null(deleted, False)))


def _one_by_one(
    transport: Transport, stream: str, subjects: list[str], wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    """Read the last message of each subject; one statement reads up to 64 of them consistently."""
    for begin in range(0, len(subjects), _FEW):
        some = tuple(subjects[begin : begin + _FEW])
        for page in transport.last_by_subject(stream, some, None, wanted):
            yield without_deleted(page.rows)


def _table(pages: Iterator[Page]) -> pa.Table:
    batches = [page.rows.select(["seq", "subject", "size"]) for page in pages]
    schema = pa.schema([("seq", pa.int64()), ("subject", pa.string()), ("size", pa.int64())])
    return pa.Table.from_batches(batches, schema)
