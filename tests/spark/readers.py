"""The readers of the format without Spark: what they plan, and the rows of it."""

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType
from pyspark_jetstream import DefaultSource, schema


def structure(*columns: str) -> StructType:
    """The schema of some columns, as Spark would make it of their DDL.

    Without a name: all that every query may have.
    """
    fields = []
    for name in columns or schema.columns_of("binary"):
        kind: Any = {"bigint": "long"}.get(schema.TYPES[name], schema.TYPES[name])
        if kind.startswith("map"):
            texts = {"type": "array", "elementType": "string", "containsNull": True}
            kind = {
                "type": "map",
                "keyType": "string",
                "valueType": texts,
                "valueContainsNull": True,
            }
        fields.append({"name": name, "type": kind, "nullable": True, "metadata": {}})
    return StructType.fromJson({"fields": fields})


def read(reader: DataSourceReader | DataSourceStreamReader, partitions: Any) -> pa.Table:
    """The rows of partitions, each read as a task reads it."""
    batches = [batch for one in partitions for batch in reader.read(one)]
    return pa.Table.from_batches(batches) if batches else pa.table({"seq": [], "subject": []})


def batch(options: dict[str, str], *columns: str) -> pa.Table:
    """The rows of a batch read."""
    reader = DefaultSource(options).reader(structure(*columns))
    return read(reader, reader.partitions())


def seqs(rows: pa.Table) -> list[int]:
    """The sequences of rows, in the order they came."""
    found: list[int] = rows.column("seq").to_pylist()
    return found


class Query:
    """A streaming query without Spark: plans batches as `MicroBatchExecution` does.

    Args:
        options: Of the format.
        checkpoint: Where another query of the same options got to.
    """

    def __init__(self, options: dict[str, str], checkpoint: dict[str, Any] | None = None) -> None:
        self.reader = DefaultSource(options).streamReader(structure())
        self.offset = checkpoint or self.reader.initialOffset()
        self.log: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def next(self) -> pa.Table | None:
        """The rows of the next batch; None when there is nothing new."""
        end = self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())
        if end == self.offset:
            return None
        rows = self.between(self.offset, end)
        self.log.append((self.offset, end))
        self.offset = end
        return rows

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> pa.Table:
        """The rows between two offsets, as a batch is read again."""
        return read(self.reader, self.reader.partitions(start, end))

    def __iter__(self) -> "Iterator[pa.Table]":
        """Batch after batch, until there is nothing new."""
        while (rows := self.next()) is not None:
            yield rows

    def stop(self) -> None:
        """End it."""
        self.reader.stop()


class Begin(Protocol):
    """Begins a query that is ended with the test."""

    def __call__(
        self, options: dict[str, str], checkpoint: dict[str, Any] | None = None
    ) -> Query: ...
