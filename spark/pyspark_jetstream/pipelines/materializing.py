"""Execution of a materialize pipeline: writes the latest message of each subject to a target."""

from typing import TYPE_CHECKING

from pyspark_jetstream.pipelines import postgres
from pyspark_jetstream.pipelines.context import Context, Reader
from pyspark_jetstream.pipelines.declaration import (
    Bucket,
    CatalogTable,
    Materialize,
    Snapshot,
    Table,
)
from pyspark_jetstream.pipelines.journal import Entry, Journal
from pyspark_jetstream.pipelines.latest import READ, as_table, latest
from pyspark_jetstream.pipelines.publishing import publish, sink_options
from pyspark_jetstream.pipelines.queries import bucket_target, json_options
from pyspark_jetstream.pipelines.rounds import next_round
from pyspark_jetstream.pipelines.store import Store
from pyspark_jetstream.pipelines.table_lake import require_format
from pyspark_jetstream.schema import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_materialize(declared: Materialize, context: Context) -> None:
    """Write the messages after the last completed batch to the target, batch by batch.

    Raises:
        DataLoss: Messages were removed before they were read, and `failOnDataLoss` is not false.
        StreamRecreated: The stream was recreated, and the declaration does not allow it.
        StoreError: Spark lacks the table format, or files of the pipeline are unusable.
    """
    reader = context.reader(declared.source)
    if isinstance(declared.target, CatalogTable):
        require_format(context.spark, declared.target.format)
    journal = Journal(Store.at(declared.checkpoint), f"materialize-{declared.name}")
    report = context.report
    if journal.begun is not None:
        report.notes.append(f"batch {journal.begun.batch} was under way and was written again")
        _finish(declared, context, reader, journal)
    with reader.transport() as transport:
        while not context.stop.is_set():
            one = next_round(
                transport,
                declared.source,
                journal.through(),
                reader.start,
                reader.options.filters,
                declared.limits.messages,
                reader.options.connection.timeout,
            )
            report.skip("sequences that were removed before they were read", sum(one.lost.values()))
            if not one.ranges:
                if context.again(declared.limits.every):
                    continue
                break
            journal.begin(journal.next(one.ranges))
            context.at("begun")
            _finish(declared, context, reader, journal)
            context.progress.write(f"{one.lag:,} sequences behind")
    report.positions.update({stream: t.seq for stream, t in journal.through().items()})


def _finish(declared: Materialize, context: Context, reader: Reader, journal: Journal) -> None:
    """Write the begun batch to the target, and record its end in the journal."""
    entry = journal.begun
    assert entry is not None
    report = context.report
    with context.working(f"batch {entry.batch}"):
        read, written = _write(declared, context, reader, entry)
    context.at("written")
    journal.finish(read)
    report.batches += 1
    report.read += read
    report.written += written
    report.skip("replaced by a newer message, or deleted", read - written)
    context.progress.rows = report.read


def _write(
    declared: Materialize, context: Context, reader: Reader, entry: Entry
) -> tuple[int, int]:
    """Write a batch to the target; return the numbers of messages read and of rows written."""
    if isinstance(declared.target, Snapshot):
        return _snapshot(declared, reader, entry, declared.target)
    options = json_options(declared.json)
    rows = reader.frame(entry.ranges, columns=",".join(READ), **options)
    newest = latest(rows, declared.deletes).cache()
    try:
        read, subjects = _counted(newest)
        match declared.target:
            case Table() as table:
                return read, _upsert(newest, table)
            case CatalogTable() as table:
                _merge(newest, table, context)
                return read, subjects
            case Bucket() as bucket:
                _put(newest, bucket, declared, entry)
                return read, subjects
    finally:
        newest.unpersist()


def _counted(newest: "DataFrame") -> tuple[int, int]:
    """Return the number of messages and of subjects of a batch."""
    from pyspark.sql import functions as f

    found = newest.agg(f.coalesce(f.sum("messages"), f.lit(0)), f.count("*")).collect()[0]
    return int(found[0]), int(found[1])


def _upsert(newest: "DataFrame", target: Table) -> int:
    rows = as_table(newest, flat=True)
    postgres.create(target.dsn, target.table, to_arrow(rows.schema))
    upsert = postgres.Upsert(target.dsn, target.table)
    done = rows.mapInArrow(upsert, postgres.RESULT).collect()
    return sum(row["written"] for row in done)


def _merge(newest: "DataFrame", target: CatalogTable, context: Context) -> None:
    """Merge the rows into a table of Spark's catalog; create a missing table."""
    rows = as_table(newest, flat=False)
    spark = context.spark
    if not spark.catalog.tableExists(target.table):
        rows.drop("deleted").limit(0).writeTo(target.table).using(target.format).create()
    view = "jetstream_batch"
    rows.createOrReplaceTempView(view)
    names = [name for name in rows.columns if name != "deleted"]
    sets = ", ".join(f"t.`{name}` = b.`{name}`" for name in names)
    columns = ", ".join(f"`{name}`" for name in names)
    values = ", ".join(f"b.`{name}`" for name in names)
    spark.sql(
        f"merge into {target.table} t using {view} b on t.subject = b.subject"
        " when matched and t.seq < b.seq and b.deleted then delete"
        f" when matched and t.seq < b.seq then update set {sets}"
        f" when not matched and not b.deleted then insert ({columns}) values ({values})"
    )


def _put(newest: "DataFrame", target: Bucket, declared: Materialize, entry: Entry) -> None:
    """Put the rows into a key-value bucket; a deleted key gets the marker `KV-Operation: DEL`."""
    from pyspark.sql import functions as f

    key = f.concat(f.lit(f"$KV.{target.bucket}."), f.expr(target.key))
    marker = f.map_from_arrays(f.array(f.lit("KV-Operation")), f.array(f.array(f.lit("DEL"))))
    kind = "map<string,array<string>>"
    rows = newest.select(
        key.alias("subject"),
        f.when(f.col("deleted"), marker).otherwise(f.lit(None).cast(kind)).alias("headers"),
        f.when(f.col("deleted"), f.lit(b"")).otherwise(f.col("data")).alias("data"),
    )
    to = bucket_target(target)
    options = sink_options(to.stream, to.options, to.delivery, declared.name)
    publish(rows, options, entry.batch)


def _snapshot(
    declared: Materialize, reader: Reader, entry: Entry, target: Snapshot
) -> tuple[int, int]:
    """Write the latest message of every subject as of the end of a batch; delete the previous
    files.

    The directory of the files is named after the sequence. Between the two steps both directories
    exist.
    """
    ((_, through),) = entry.through.items()
    options = json_options(declared.json)
    rows = reader.as_of(through.seq, columns=",".join(READ), **options)
    newest = latest(rows, declared.deletes).where("not deleted").drop("deleted")
    name = f"as_of={through.seq:020}"
    as_table(newest, flat=False).write.mode("overwrite").parquet(f"{target.path}/{name}")
    store = Store.at(target.path)
    for other in store.names(""):
        if other.startswith("as_of=") and other != name:
            store.remove_all(other)
    written = reader.count_parquet(f"{target.path}/{name}")
    return written, written
