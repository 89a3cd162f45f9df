"""Batch reads of `mode=log`: a range of sequences, or the last message of each subject."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_jetstream import schema as columns
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.planning import Planner
from pyspark_jetstream.positions import place_of
from pyspark_jetstream.pushdown import Narrowed, narrow
from pyspark_jetstream.reading import Split, read_split
from pyspark_jetstream.transport import open_transport
from pyspark_jetstream.transport.base import Transport
from pyspark_jetstream.values import InvalidOption

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


class BatchReader(DataSourceReader):
    """Spark's reader of one batch query: the driver computes partitions, and tasks read their rows.

    Args:
        options: Checked options of the query.
        schema: Columns of the result, as Spark determined them.
    """

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        known = columns.columns_of(options.payload, as_of=options.as_of is not None)
        columns.check(schema, known, options.payload)
        self._options = options
        self._schema = columns.to_arrow(schema)
        self._narrowed = Narrowed(options.streams, options.filters)

    def partitions(self) -> list[InputPartition]:
        """Return the partitions of all streams. Spark calls it once, on the driver.

        Positions such as `latest` are resolved to sequences at this call.
        """
        transport = open_transport(self._options.connection)
        try:
            splits = [
                split
                for stream in self._narrowed.streams
                for split in self._splits(transport, Planner(self._options, transport), stream)
            ]
        finally:
            transport.close()
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition as Arrow batches. Spark calls it in a task."""
        return read_split(self._options, self._schema, partition.value)

    def _splits(self, transport: Transport, planner: Planner, stream: str) -> list[Split]:
        what, options = self._narrowed, self._options
        head = transport.head(stream)
        if what.filters is None:
            return []
        if options.as_of is not None:
            place = place_of(options.as_of, stream, "latest")
            last = planner.end(head, place, inclusive=True)
            kind = "exact" if options.as_of_exact else "current"
            return planner.latest(head, last, what.filters, kind)
        start = planner.start(head)
        last = planner.end(head, place_of(options.end, stream, "latest"))
        if start.snapshot:
            return planner.latest(head, last, what.filters, "found")
        first = max(start.seq + 1, what.first)
        last = min(last, what.last)
        # jetgate's times never decrease within a stream, so a range of times is a range of
        # sequences
        if options.connection.transport == "sql":
            if what.begin > 0:
                first = max(first, transport.seq_at(stream, what.begin))
            if what.end <= head.last_ts:
                last = min(last, transport.seq_at(stream, what.end) - 1)
        return planner.ranges(head, first - 1, last, what.filters)


class PushdownBatchReader(BatchReader):
    """A batch reader that evaluates some conditions of the query itself, instead of Spark.

    It is a separate class, because Spark refuses a query whose reader has `pushFilters` unless
    `spark.sql.python.filterPushdown.enabled` is true.
    """

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":
        """Apply the filters that this reader can evaluate; return the others for Spark."""
        if self._options.as_of is not None or any(
            place.kind == "lastPerSubject" for place in self._options.start.values()
        ):
            # Conditions apply to the last messages, so they must not change the search for these
            return filters
        self._narrowed, rest = narrow(self._narrowed, filters)
        return rest


def batch_reader(options: ReadOptions, schema: "StructType") -> BatchReader:
    """Return the reader of a batch query; with `pushdown=true`, one that evaluates conditions.

    Raises InvalidOption if `pushdown` is true and PySpark is older than 4.1.
    """
    if options.pushdown and not hasattr(DataSourceReader, "pushFilters"):
        raise InvalidOption("pushdown", "true", "false before PySpark 4.1, which has no pushdown")
    kind = PushdownBatchReader if options.pushdown else BatchReader
    return kind(options, schema)
