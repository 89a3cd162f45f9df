"""The writer classes that Spark calls: `write` in tasks, `commit` on the driver.

Spark pickles a writer to its tasks, and creates a new one on the driver for each commit of a
streaming query.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)

from pyspark_jetstream.schema import to_arrow
from pyspark_jetstream.sink.at_least_once import publish
from pyspark_jetstream.sink.ledger import Attempt, Ledger
from pyspark_jetstream.sink.options import SinkOptions, sink_options
from pyspark_jetstream.sink.staging import stage
from pyspark_jetstream.sink.tasks import this_task
from pyspark_jetstream.transport.errors import JetStreamError

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before PySpark 4.1: see OldStreamWriter
    MODERN = False
else:
    MODERN = True

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructType

_OLD_ROWS = 4096


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The result of a writing task, which Spark passes to `commit` on the driver.

    Attributes:
        run: Identity of the run: `<query>:<run>`, or `batch:<id>`.
        rows: Number of written rows.
        duplicates: Number of them that the stream had stored before.
        attempt: The staged rows, for a transaction; else None.
        is_stored: True if the batch was already committed, so the task staged nothing.
    """

    run: str
    rows: int
    duplicates: int = 0
    attempt: Attempt | None = None
    is_stored: bool = False


def write(options: SinkOptions, run: str, batches: Iterator[pa.RecordBatch]) -> Written:
    """Write the rows of the Spark task that calls this function: publish them, or stage them.

    Args:
        options: Options of the writer.
        run: Identity of the run of a batch write; a streaming query's task has its own.
        batches: The rows.
    """
    task = this_task()
    run = f"{task.query}:{task.run}" if task.query else run
    if not options.transactional:
        published = publish(options, task, run, batches)
        return Written(run, published.rows, published.duplicates)
    ledger = _ledger(options)
    try:
        grant = ledger.open_for(run, task.batch if task.query else options.version or 0)
    finally:
        ledger.close()
    if grant is None:
        rows = sum(batch.num_rows for batch in batches)
        return Written(run, rows, rows, is_stored=True)
    attempt = stage(options, grant, task.partition, batches)
    return Written(run, attempt.rows, attempt=attempt)


def commit(options: SinkOptions, batch: int, messages: list[WriterCommitMessage | None]) -> None:
    """Commit the staged rows of a batch; do nothing without transactions.

    Raises TransactionError if the server refuses the commit, NotReachable if it makes no progress,
    JetStreamError if the results of the tasks do not belong together.

    Args:
        options: Options of the writer.
        batch: Number of the batch.
        messages: Results of the tasks.
    """
    if not options.transactional:
        return
    written = [message for message in messages if isinstance(message, Written)]
    runs = {message.run for message in written}
    if len(runs) != 1 or len(written) != len(messages):
        raise JetStreamError(f"a batch of {len(messages)} tasks has messages of {len(runs)} runs")
    attempts = [one.attempt for one in written if one.attempt is not None and one.attempt.rows]
    ledger = _ledger(options)
    try:
        grant = ledger.open_for(runs.pop(), batch)
        if grant is None:
            return
        if any(message.is_stored for message in written):
            raise JetStreamError(
                f"batch {batch} of app {options.app!r} was in the ledger of stream "
                f"{options.target!r} when its tasks ran, and is not any more"
            )
        ledger.commit(grant, batch, attempts)
    finally:
        ledger.close()


def _ledger(options: SinkOptions) -> Ledger:
    return Ledger(options.settings, options.target, options.app, options.stall_timeout)


class BatchWriter(DataSourceArrowWriter):
    """Spark's writer of a batch query.

    It needs no abort: the server deletes staged rows that no commit names.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._run = f"batch:{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of one partition. Spark calls it in a task."""
        return write(self._options, self._run, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the rows of all partitions. Spark calls it on the driver after all tasks."""
        commit(self._options, self._options.version or 0, messages)


class _StreamWriter:
    """Writer of micro-batches; Spark creates one for each batch, and another for its commit."""

    def __init__(self, options: SinkOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the rows of all partitions. Spark calls it on the driver after all tasks."""
        commit(self._options, batchId, messages)


class OldStreamWriter(_StreamWriter, DataSourceStreamWriter):
    """Spark's streaming writer for PySpark 4.0, which passes rows instead of Arrow batches."""

    def write(self, iterator: "Iterator[Row]") -> Written:
        """Write one partition of a micro-batch. Spark calls it in a task."""
        return write(self._options, "", self._batches(iterator))

    def _batches(self, rows: "Iterator[Row]") -> Iterator[pa.RecordBatch]:
        while some := [row.asDict() for row in islice(rows, _OLD_ROWS)]:
            yield pa.RecordBatch.from_pylist(some, self._schema)


if MODERN:

    class StreamWriter(_StreamWriter, DataSourceStreamArrowWriter):
        """Spark's streaming writer for PySpark 4.1 and newer, which passes Arrow batches."""

        def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
            """Write one partition of a micro-batch. Spark calls it in a task."""
            return write(self._options, "", iterator)


def batch_writer(
    options: Mapping[str, str], schema: "StructType", *, overwrite: bool
) -> BatchWriter:
    """Return the writer of a batch query.

    Raises InvalidOption if an option or column is invalid.
    """
    return BatchWriter(sink_options(options, schema, overwrite=overwrite, streaming=False))


def stream_writer(
    options: Mapping[str, str], schema: "StructType", *, overwrite: bool
) -> DataSourceStreamWriter:
    """Return the writer of a streaming query for the installed PySpark version.

    Raises InvalidOption if an option or column is invalid.
    """
    checked = sink_options(options, schema, overwrite=overwrite, streaming=True)
    return (StreamWriter if MODERN else OldStreamWriter)(checked, to_arrow(schema))
