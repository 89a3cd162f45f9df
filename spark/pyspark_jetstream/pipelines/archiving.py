"""Execution of an archive pipeline, batch by batch.

A run ends when no message is left or it is stopped.
"""

from functools import partial
from typing import TYPE_CHECKING, Protocol

from pyspark_jetstream.pipelines.archive import ParquetLake
from pyspark_jetstream.pipelines.context import Context, Reader
from pyspark_jetstream.pipelines.declaration import Archive
from pyspark_jetstream.pipelines.journal import Entry, Journal, Range
from pyspark_jetstream.pipelines.purging import purge_archived
from pyspark_jetstream.pipelines.rounds import Round, next_round
from pyspark_jetstream.pipelines.table_lake import TableLake

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession


class _Lake(Protocol):
    """Interface of the target of an archive pipeline: `ParquetLake` or `TableLake`."""

    def sequences(self, spark: "SparkSession", stream: str, span: Range, /) -> "DataFrame": ...

    @property
    def journal(self) -> Journal: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    def write(self, rows: "DataFrame", one: Round, check: "Callable[[], None]", /) -> Entry: ...


def run_archive(archive: Archive, context: Context) -> None:
    """Archive the messages after the last archived ones, batch by batch; purge them if declared.

    Raises:
        DataLoss: Messages were removed before they were read, and `failOnDataLoss` is not false.
        StreamRecreated: A stream was recreated, and the declaration does not allow it.
        StoreError: Files of the archive are missing or unusable.
    """
    reader = context.reader(archive.source)
    lake = _open(archive, context, reader)
    report = context.report
    if lake.journal.done:
        report.notes.append(f"the archive went on behind batch {lake.journal.done.batch}")
    purged = -1
    with reader.transport() as transport:
        while not context.stop.is_set():
            one = next_round(
                transport,
                archive.source,
                lake.journal.through(),
                reader.start,
                reader.options.filters,
                archive.limits.messages,
                reader.options.connection.timeout,
            )
            report.skip("sequences that were removed before they were read", sum(one.lost.values()))
            if not one.ranges:
                if archive.purge and report.batches > purged:
                    purged = report.batches
                    through = lake.journal.through()
                    held = partial(lake.sequences, context.spark)
                    purge_archived(archive, context, reader, transport, through, held)
                if context.again(archive.limits.every):
                    continue
                break
            rows = reader.frame(one.ranges, columns=",".join(lake.columns))
            number = report.batches + 1
            check = partial(reader.check_same, transport, one.ranges)
            with context.working(f"batch {number}"):
                entry = lake.write(rows, one, check)
            report.batches = number
            report.read += entry.rows
            report.written += entry.rows
            context.progress.rows = report.read
            context.progress.write(f"batch {number} done, {one.lag:,} sequences behind")
    report.positions.update({s: t.seq for s, t in lake.journal.through().items()})


def _open(archive: Archive, context: Context, reader: Reader) -> _Lake:
    """Open the target of the archive, and complete the batch of an earlier run."""
    if archive.format == "parquet":
        return ParquetLake.open(archive, context.at)
    lake = TableLake.open(archive, context.spark, context.at)
    if lake.journal.begun is not None:
        lake.finish(reader.frame(lake.journal.begun.ranges, columns=",".join(lake.columns)))
    return lake
