"""A lake that is a table of Spark's catalog: Delta or Iceberg, as the target of an archive.

A batch is written down with its ranges, appended in one commit of the table that carries its
number, and done. A run that finds a batch which was not done appends it again: Delta leaves out a
number that it knows (`txnAppId`, `txnVersion`), in Iceberg the snapshots are asked for it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark_jetstream.pipelines.declaration import Archive
from pyspark_jetstream.pipelines.journal import Entry, Journal, Range
from pyspark_jetstream.pipelines.rounds import Round
from pyspark_jetstream.pipelines.store import Store, StoreError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ = (
    "stream",
    "subject",
    "seq",
    "timestamp",
    "timestamp_ns",
    "headers",
    "header_block",
    "data",
    "size",
)
"""Columns of the source that the table has, too; `incarnation` and `day` are added."""

_PROPERTY = "jetstream-batch"


_PACKAGES = {"delta": "io.delta:delta-spark", "iceberg": "org.apache.iceberg:iceberg-spark-runtime"}
"""What brings a format; names go on with the versions of Spark and Scala."""


def require_format(spark: "SparkSession", name: str) -> None:
    """Make sure that Spark knows a format of tables. Raises StoreError."""
    try:
        spark.read.format(name).load("/nowhere/at/all")
    except Exception as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            raise StoreError(
                f"this Spark {spark.version} has no format {name!r}: start it with --conf "
                f"spark.jars.packages={_PACKAGES[name]}..., if there is a release for this Spark"
            ) from None


@dataclass(frozen=True, slots=True)
class TableLake:
    """A table of the catalog.

    Args:
        archive: What is archived.
        spark: The session that knows the table's format.
        journal: The archive's batches.
        at: Is told each point between two steps.
    """

    archive: Archive
    spark: "SparkSession"
    journal: Journal
    at: Callable[[str], None]

    @classmethod
    def open(
        cls, archive: Archive, spark: "SparkSession", at: Callable[[str], None]
    ) -> "TableLake":
        """Take the archive over from runs before. Raises StoreError."""
        require_format(spark, archive.format)
        journal = Journal(Store.at(archive.path), f"_jetstream/{archive.name}")
        return cls(archive, spark, journal, at)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the source that are read."""
        return READ

    def write(self, rows: "DataFrame", one: Round, check: Callable[[], None]) -> Entry:
        """Archive a batch and return its entry."""
        check()
        self.journal.begin(self.journal.next(one.ranges))
        self.at("begun")
        return self.finish(rows)

    def finish(self, rows: "DataFrame") -> Entry:
        """Append the batch that was begun, unless the table has it."""
        entry = self.journal.begun
        assert entry is not None
        table = self._as_table(rows, {s: r.incarnation for s, r in entry.ranges.items()})
        if self.archive.format == "delta":
            self._append_delta(table, entry)
        else:
            self._append_iceberg(table, entry)
        self.at("visible")
        return self.journal.finish(self._count(entry))

    def sequences(self, spark: "SparkSession", stream: str, span: Range) -> "DataFrame":
        """The sequences (`seq`) of a range of a stream that the table holds."""
        rows = spark.table(self.archive.table)
        mine = (rows["stream"] == stream) & (rows["incarnation"] == span.incarnation)
        return rows.where(mine & rows["seq"].between(span.first, span.last)).select("seq")

    def _as_table(self, rows: "DataFrame", incarnations: Mapping[str, int]) -> "DataFrame":
        from pyspark.sql import functions as f

        known = [f.lit(value) for pair in incarnations.items() for value in pair]
        return rows.withColumns(
            {
                "incarnation": f.create_map(*known)[f.col("stream")],
                "day": f.to_date("timestamp"),
            }
        )

    def _append_delta(self, rows: "DataFrame", entry: Entry) -> None:
        if not self.spark.catalog.tableExists(self.archive.table):
            empty = rows.limit(0).write.format("delta").partitionBy("day", "stream")
            empty.saveAsTable(self.archive.table)
        writer = rows.write.format("delta").mode("append")
        writer = writer.option("txnAppId", f"jetstream-{self.archive.name}")
        writer.option("txnVersion", str(entry.batch)).saveAsTable(self.archive.table)

    def _append_iceberg(self, rows: "DataFrame", entry: Entry) -> None:
        from pyspark.sql import functions as f

        table = self.archive.table
        if not self.spark.catalog.tableExists(table):
            made = rows.limit(0).writeTo(table).using("iceberg")
            made.partitionedBy(f.col("day"), f.col("stream")).create()
        number = f"{self.archive.name}:{entry.batch}"
        snapshots = self.spark.table(f"{table}.snapshots")
        if snapshots.where(f.col("summary")[_PROPERTY] == number).count():
            return
        rows.writeTo(table).option(f"snapshot-property.{_PROPERTY}", number).append()

    def _count(self, entry: Entry) -> int:
        """How many messages of the batch the table holds."""
        return sum(
            self.sequences(self.spark, stream, one).count() for stream, one in entry.ranges.items()
        )
