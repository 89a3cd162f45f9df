"""Archive of streams in a Delta or Iceberg table of Spark's catalog: each message exactly once.

A journal (`pipelines.journal`) records a batch with its ranges. One commit of the table appends the
rows, with the number of the batch. Then the journal records the end. The next run appends an
unfinished batch again, but only if the table does not contain it: Delta skips a known number
(`txnAppId`, `txnVersion`), and for Iceberg the run looks for the number in the table's snapshots.
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
"""Columns of the stream that the table contains, besides `incarnation` and `day`."""

_PROPERTY = "jetstream-batch"


_PACKAGES = {"delta": "io.delta:delta-spark", "iceberg": "org.apache.iceberg:iceberg-spark-runtime"}
"""Start of the Maven package of each format; versions of Spark and Scala follow."""


def require_format(spark: "SparkSession", name: str) -> None:
    """Check that Spark has a table format, such as `delta`. Raises StoreError if it has not."""
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
    """A Delta or Iceberg table that an archive writes.

    Life cycle: `open`; `finish` if the journal has an unfinished batch; `write` for each batch.

    Attributes:
        archive: The declaration of the archive.
        spark: A Spark session that has the table format.
        journal: Record of the archive's batches.
        at: Called with the name of each point between two steps, for tests.
    """

    archive: Archive
    spark: "SparkSession"
    journal: Journal
    at: Callable[[str], None]

    @classmethod
    def open(
        cls, archive: Archive, spark: "SparkSession", at: Callable[[str], None]
    ) -> "TableLake":
        """Open the archive's journal, the record of its batches.

        Raises StoreError if Spark lacks the table format.
        """
        require_format(spark, archive.format)
        journal = Journal(Store.at(archive.path), f"_jetstream/{archive.name}")
        return cls(archive, spark, journal, at)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the stream that an archive reads."""
        return READ

    def write(self, rows: "DataFrame", one: Round, check: Callable[[], None]) -> Entry:
        """Archive a batch; return its entry in the journal.

        Args:
            rows: The messages of the batch, with the columns `READ`.
            one: The sequences of the batch, by stream.
            check: Called before the batch begins; raises if the rows must not be archived.
        """
        check()
        self.journal.begin(self.journal.next(one.ranges))
        self.at("begun")
        return self.finish(rows)

    def finish(self, rows: "DataFrame") -> Entry:
        """Append the batch that the journal records as begun, unless the table contains it.

        Returns the batch's entry in the journal.
        """
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
        """Return the archived sequences in a range of a stream, in the column `seq`."""
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
        """Return the number of the batch's messages in the table."""
        return sum(
            self.sequences(self.spark, stream, one).count() for stream, one in entry.ranges.items()
        )
