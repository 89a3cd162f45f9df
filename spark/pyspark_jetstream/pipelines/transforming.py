"""Execution of a transform pipeline: a streaming query from streams through SQL to its target."""

import json
from typing import TYPE_CHECKING, Any

from pyspark_jetstream.pipelines.context import Context
from pyspark_jetstream.pipelines.declaration import Snapshot, Target, Transform
from pyspark_jetstream.pipelines.fields import delay
from pyspark_jetstream.pipelines.queries import transform_query, write_query
from pyspark_jetstream.pipelines.store import Store, StoreError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_POLL = 1


def run_transform(declared: Transform, context: Context) -> None:
    """Run the streaming query until no message is left or the run is stopped.

    Raises the exception of the query if it fails.
    """
    # A new session, because the view `input` differs between pipelines.
    session = context.spark.newSession()
    rows = _result(declared, session)
    query = _start(declared, rows)
    try:
        _watch(query, context)
    finally:
        query.stop()
        _account(query, context)
    failure = query.exception()
    if failure is not None:
        raise failure


def _result(declared: Transform, session: "SparkSession") -> "DataFrame":
    options = transform_query(declared).options
    rows = session.readStream.format("jetstream").options(**options).load()
    if declared.watermark:
        column, late = declared.watermark
        rows = rows.withWatermark(column, delay(late))
    rows.createOrReplaceTempView("input")
    result = session.sql(declared.sql)
    if isinstance(declared.target, Target):
        for name in ("subject", "data"):
            if name not in result.columns:
                raise ValueError(f"the query of {declared.name!r} returns no column {name!r}")
    from pyspark.sql import functions as f

    return result.observe("written", f.count(f.lit(1)).alias("rows"))


def _start(declared: Transform, rows: "DataFrame") -> "StreamingQuery":
    writer = rows.writeStream.queryName(declared.name).outputMode("append")
    writer = writer.option("checkpointLocation", declared.checkpoint)
    if declared.every is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{declared.every} seconds")
    if isinstance(declared.target, Snapshot):
        return _into_parquet(declared, declared.target, writer).start()
    target = declared.target
    options = write_query(target, declared.name, streaming=True).options
    return writer.format("jetstream").options(**options).start()


def _into_parquet(
    declared: Transform, target: Snapshot, writer: "DataStreamWriter"
) -> "DataStreamWriter":
    """Write each batch to a directory named after its number; a repeated batch replaces it.

    So every reader of the files sees each row once, not only readers of Spark's file metadata.
    """
    store = Store.at(target.path)
    owner = f"_jetstream/{declared.name}/query"
    path = target.path

    def write(rows: "DataFrame", batch: int) -> None:
        # The checkpoint contains the id of the query, which a new checkpoint would not have.
        query = Store.at(declared.checkpoint).read("metadata")
        if store.exists(owner) and store.read(owner) != query:
            raise StoreError(
                f"{path} holds batches of another checkpoint than {declared.checkpoint}, which "
                "would be overwritten: put that checkpoint back, or choose another path"
            )
        store.write(owner, query)
        rows.write.mode("overwrite").parquet(f"{path}/batch={batch:012}")

    return writer.foreachBatch(write)


def _watch(query: "StreamingQuery", context: Context) -> None:
    """Report progress until the query ends or the run is stopped."""
    while not query.awaitTermination(_POLL):
        if context.stop.is_set():
            return
        last = query.lastProgress
        if last is not None:
            context.progress.rows = sum(_rows(one) for one in query.recentProgress)
            context.progress.write(f"batch {last['batchId']}{_behind(last)}")


def _account(query: "StreamingQuery", context: Context) -> None:
    report = context.report
    batches = {one["batchId"]: one for one in query.recentProgress if _rows(one) or _written(one)}
    report.batches = len(batches)
    report.read = sum(_rows(one) for one in batches.values())
    report.written = sum(_written(one) for one in batches.values())
    if query.lastProgress is not None:
        ends = _offset(query.lastProgress, "endOffset").get("streams", {})
        report.positions.update({stream: int(one["seq"]) for stream, one in ends.items()})


def _rows(progress: Any) -> int:
    return int(progress["numInputRows"])


def _written(progress: Any) -> int:
    observed = progress["observedMetrics"].get("written")
    return int(observed["rows"] or 0) if observed is not None else 0


def _offset(progress: Any, which: str) -> dict[str, Any]:
    """Return an offset of the source; {} if there is none."""
    text = progress["sources"][0][which]
    return (json.loads(text) if isinstance(text, str) else text) or {}


def _behind(progress: Any) -> str:
    streams = _offset(progress, "latestOffset").get("streams", {})
    lag = sum(int(one.get("lag", 0)) for one in streams.values())
    return f", {lag:,} messages behind" if streams else ""
