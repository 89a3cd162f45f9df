"""Execution of an analytics pipeline: tables about streams, consumers, advisories, ack latency."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_jetstream.pipelines.context import Context
from pyspark_jetstream.pipelines.declaration import Analytics, Source
from pyspark_jetstream.pipelines.queries import events_query, log_query
from pyspark_jetstream.pipelines.store import Store
from pyspark_jetstream.transport.base import Consumer
from pyspark_jetstream.transport.errors import StreamNotFound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 10
"""Largest number of rows of a table that the report prints."""

_PREFIX = "array_join(slice(split(subject, '[.]'), 1, {depth}), '.')"

_TABLES = {
    "rates": """
        select stream, window.start as begin, count(*) as messages, sum(size) as bytes,
               round(count(*) / {bucket}, 1) as messages_per_second
        from (select *, window(timestamp, '{bucket} seconds') as window from input)
        group by stream, window order by stream, begin""",
    "sizes": """
        select stream, {prefix} as prefix, count(*) as messages, sum(size) as bytes,
               min(size) as smallest, percentile(size, 0.5) as p50, percentile(size, 0.95) as p95,
               percentile(size, 0.99) as p99, max(size) as largest
        from input group by stream, prefix order by messages desc, prefix""",
    "subjects": """
        select stream, {prefix} as prefix, count(distinct subject) as subjects,
               count(*) as messages, max(timestamp) as newest
        from input group by stream, prefix order by subjects desc, prefix""",
}

_ADVISORIES = """
    select get_json_object(data, '$.type') as type, get_json_object(data, '$.stream') as of_stream,
           get_json_object(data, '$.consumer') as consumer, count(*) as advisories,
           min(timestamp) as first, max(timestamp) as last
    from events where subject like '$JS.EVENT.ADVISORY.%'
    group by 1, 2, 3 order by advisories desc, type"""

_ACKS = """
    select get_json_object(data, '$.stream') as of_stream,
           get_json_object(data, '$.consumer') as consumer, count(*) as samples,
           round(percentile(ms, 0.5), 3) as p50_ms, round(percentile(ms, 0.95), 3) as p95_ms,
           round(percentile(ms, 0.99), 3) as p99_ms, round(max(ms), 3) as max_ms,
           max(cast(get_json_object(data, '$.deliveries') as int)) as most_deliveries
    from (select data, cast(get_json_object(data, '$.ack_time') as double) / 1e6 as ms
          from events where subject like '$JS.EVENT.METRIC.CONSUMER.ACK.%')
    group by 1, 2 order by samples desc, of_stream, consumer"""

_CONSUMER = (
    "of_stream string, consumer string, delivered_stream_seq bigint, ack_floor_stream_seq bigint,"
    " num_ack_pending bigint, num_redelivered bigint, num_pending bigint, lag bigint,"
    " ack_lag bigint"
)


def run_analytics(declared: Analytics, context: Context) -> None:
    """Compute all tables of an analytics pipeline and overwrite the Parquet files of its last run.

    A run that crashes may leave old and new tables; the next run overwrites all.
    """
    session = context.spark.newSession()
    reader = context.reader(declared.source)
    options = log_query(declared.source).options
    columns = "stream,subject,seq,timestamp,size"
    rows = session.read.format("jetstream").options(**options, columns=columns).load().cache()
    rows.createOrReplaceTempView("input")
    with context.working("reading the streams"):
        context.report.read = rows.count()
    context.progress.rows = context.report.read
    prefix = _PREFIX.format(depth=declared.depth)
    for name, sql in _TABLES.items():
        query = sql.format(prefix=prefix, bucket=declared.bucket)
        _write(declared, context, name, session.sql(query))
    _write(declared, context, "consumers", _consumers(session, declared.source, context))
    if declared.events:
        _events(declared, session)
        _write(declared, context, "advisories", session.sql(_ADVISORIES))
        _write(declared, context, "ack_latency", session.sql(_ACKS))
    rows.unpersist()
    with reader.transport() as transport:
        for stream in declared.source.streams:
            context.report.positions[stream] = transport.head(stream).last_seq


def _events(declared: Analytics, session: "SparkSession") -> None:
    events = session.read.format("jetstream").options(**events_query(declared).options).load()
    events.createOrReplaceTempView("events")


def _consumers(session: "SparkSession", source: Source, context: Context) -> "DataFrame":
    """Return the current state of the streams' consumers, with the columns `_CONSUMER`."""
    rows = []
    with context.reader(source).transport() as transport:
        for stream in source.streams:
            try:
                found = transport.consumers(stream)
            except StreamNotFound:
                continue
            rows += [(stream, *_consumer(one)) for one in found]
    return session.createDataFrame(rows, _CONSUMER)


def _consumer(one: Consumer) -> tuple[Any, ...]:
    """Return a consumer's columns, in the order of `_CONSUMER`."""
    return (
        one.name,
        one.delivered_stream_seq,
        one.ack_floor_stream_seq,
        one.num_ack_pending,
        one.num_redelivered,
        one.num_pending,
        one.lag,
        one.ack_lag,
    )


def _write(declared: Analytics, context: Context, name: str, rows: "DataFrame") -> None:
    """Write a table as Parquet, and add its first rows to the report."""
    path = f"{declared.path}/{name}"
    with context.working(f"table {name}"):
        rows.coalesce(1).write.mode("overwrite").parquet(path)
    written = _read(path)
    context.report.written += written.num_rows
    context.report.batches += 1
    shown = [[_text(value) for value in row.values()] for row in written[:SHOWN].to_pylist()]
    title = f"{name} ({written.num_rows} rows)" if written.num_rows > SHOWN else name
    context.report.tables.append((title, written.column_names, shown))


def _read(path: str) -> pa.Table:
    """Read a table that was just written; it is one file."""
    store = Store.at(path)
    (name,) = (name for name in store.names("") if name.endswith(".parquet"))
    with store.files.open_input_file(store.full(name)) as source:
        return pq.ParquetFile(source).read()


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
