"""The format in real Spark: what users write, and what Spark does with it."""

# Subject: Spark cluster

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import spark as support

support.require()

from tests.spark.feeds import Feed  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Options = dict[str, str]
BLOCK = b"NATS/1.0\r\nTrace: a\r\nTrace: b\r\n\r\n"


def read(spark: "SparkSession", options: Options, **more: str) -> "DataFrame":
    return spark.read.format("jetstream").options(**{**options, **more}).load()


def run(
    spark: "SparkSession", options: Options, place: Path, name: str = "out", **more: str
) -> "StreamingQuery":
    """Copy what is available now into Parquet; return the query when it has ended."""
    source = spark.readStream.format("jetstream").options(**{**options, **more}).load()
    query = (
        source.writeStream.format("parquet")
        .option("path", str(place / name))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return query


def sequences(frame: "DataFrame") -> list[int]:
    return sorted(row.seq for row in frame.select("seq").collect())


def test_a_stream_is_a_table_without_registration(
    spark: "SparkSession", feed: Feed, options: Options
) -> None:
    feed.publish([("a", b'{"n": 1}', BLOCK), ("b", b"no json", b"")])

    frame = read(spark, options)
    rows = frame.orderBy("seq").collect()

    assert frame.schema.simpleString() == (
        "struct<stream:string,subject:string,seq:bigint,timestamp:timestamp,timestamp_ns:bigint,"
        "headers:map<string,array<string>>,data:binary,size:bigint>"
    )
    assert [(row.stream, row.subject, row.seq, row.size) for row in rows] == [
        (feed.name, f"{feed.name}.a", 1, 8),
        (feed.name, f"{feed.name}.b", 2, 7),
    ]
    assert [row.headers for row in rows] == [{"Trace": ["a", "b"]}, None]
    assert [bytes(row.data) for row in rows] == [b'{"n": 1}', b"no json"]
    assert all(int(row.timestamp.timestamp()) == row.timestamp_ns // 10**9 for row in rows)


def test_payloads_are_parsed_as_asked_for(
    spark: "SparkSession", feed: Feed, options: Options
) -> None:
    feed.publish([("a", b'{"n": 1, "tags": ["x"]}', b""), ("b", b"\xff", b"")])
    json_schema = {"payload": "json", "jsonSchema": "n int, tags array<string>"}

    parsed = read(spark, options, **json_schema, columns="seq,data").orderBy("seq").collect()
    text = read(spark, options, payload="string", columns="data").collect()
    none = read(spark, options, payload="none")

    assert [row.data.asDict() for row in parsed] == [
        {"n": 1, "tags": ["x"]},
        {"n": None, "tags": None},
    ]
    assert [row.data for row in text] == ['{"n": 1, "tags": ["x"]}', None]
    assert "data" not in none.columns


def test_a_schema_may_choose_the_columns(
    spark: "SparkSession", feed: Feed, options: Options
) -> None:
    feed.put("a")

    frame = spark.read.format("jetstream").schema("size bigint, seq bigint").options(**options)

    assert [tuple(row) for row in frame.load().collect()] == [(1, 1)]


CONDITIONS = {
    "seq > 3 and seq <= 7": "exact",
    "seq in (2, 4)": "again",
    "subject = '{0}.a.0'": "exact",
    "subject in ('{0}.a.0', '{0}.b.1', 'none')": "exact",
    "subject like '{0}.a.%'": "exact",
    "stream = '{0}' and seq >= 9": "exact",
    "stream = 'other'": "exact",
    "timestamp_ns >= {1} and timestamp_ns < {2}": "again",
    "timestamp > timestamp_micros({1} div 1000)": "again",
    "subject like '{0}.%.0' and size > 0": "again",
    "seq = 4 or subject = '{0}.b.1'": "again",
    "not seq = 5": "again",
}


def test_conditions_at_the_source_give_the_rows_that_spark_gives(
    spark: "SparkSession", feed: Feed, options: Options
) -> None:
    feed.put(*(f"{letter}.{number % 2}" for number in range(3) for letter in "abc"), "a", "aa.0")
    everything = read(spark, options).cache()
    at = [row.timestamp_ns for row in everything.orderBy("seq").collect()]
    pushed = read(spark, options, pushdown="true")
    for text, expected in CONDITIONS.items():
        condition = text.format(feed.name, at[2], at[6])

        found = pushed.where(condition)

        assert sequences(found) == sequences(everything.where(condition)), condition
        plan = found._jdf.queryExecution().executedPlan().toString()
        assert ("Filter " in plan) == (expected == "again"), plan
    everything.unpersist()


def test_pushdown_needs_sparks_own_switch_and_names_it(
    spark: "SparkSession", feed: Feed, options: Options
) -> None:
    feed.put("a")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert read(spark, options).where("seq = 1").count() == 1
        with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
            read(spark, options, pushdown="true").where("seq = 1").count()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_mistake_is_reported_by_name(spark: "SparkSession", options: Options) -> None:
    with pytest.raises(Exception, match="did you mean filterSubjects"):
        read(spark, options, filterSubject="a.>")


def test_a_query_goes_on_at_its_checkpoint(
    spark: "SparkSession", feed: Feed, options: Options, tmp_path: Path
) -> None:
    """The last batch of an AvailableNow run is never committed at the source: nothing needs it."""
    feed.put(*"abcde")
    limited = {"startingPosition": "earliest", "maxMessagesPerTrigger": "2"}

    first = run(spark, options, tmp_path, **limited)
    feed.put(*"fgh")
    second = run(spark, options, tmp_path, **limited)
    third = run(spark, options, tmp_path, **limited)

    assert [p.numInputRows for p in first.recentProgress if p.numInputRows] == [2, 2, 1]
    assert [p.numInputRows for p in second.recentProgress if p.numInputRows] == [2, 1]
    assert [p.numInputRows for p in third.recentProgress if p.numInputRows] == []
    assert sequences(spark.read.parquet(str(tmp_path / "out"))) == list(range(1, 9))
    (told,) = [p.sources[0] for p in first.recentProgress if p.batchId == 0]
    latest = json.loads(told.latestOffset)["streams"][feed.name]
    assert (latest["last_seq"], latest["lag"]) == (5, 3)
    assert 0 < latest["lag_seconds"] < 300


@pytest.mark.thorough
def test_a_batch_whose_commit_is_lost_is_the_same_again(
    spark: "SparkSession", feed: Feed, options: Options, tmp_path: Path
) -> None:
    """The driver died before the commit of its first batch, which began at the latest message."""
    seen: list[tuple[int, list[int]]] = []

    def note(frame: "DataFrame", batch: int) -> None:
        seen.append((batch, sequences(frame)))

    def run_noting(**more: str) -> None:
        source = spark.readStream.format("jetstream").options(**{**options, **more}).load()
        place = str(tmp_path / "checkpoint")
        writer = source.writeStream.foreachBatch(note).option("checkpointLocation", place)
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    feed.put(*"ab")
    run_noting()
    feed.put(*"cde")
    run_noting(maxMessagesPerTrigger="2")
    done = dict(seen)
    assert [found for found in done.values() if found] == [[3, 4], [5]]

    last = max(done)
    for number in range(last - 1, last + 1):
        for name in (f"{number}", f".{number}.crc"):
            (tmp_path / "checkpoint/commits" / name).unlink(missing_ok=True)
    for name in (f"{last}", f".{last}.crc"):
        (tmp_path / "checkpoint/offsets" / name).unlink()
    feed.put("f")
    seen.clear()
    run_noting()

    assert seen == [(last - 1, [3, 4]), (last, [5, 6])]


@pytest.mark.thorough
def test_a_lost_first_batch_begins_where_it_began(
    spark: "SparkSession", feed: Feed, options: Options, tmp_path: Path
) -> None:
    feed.put(*"abc")
    run(spark, options, tmp_path, startingPosition="seq:2")
    shutil.rmtree(tmp_path / "checkpoint/commits")
    shutil.rmtree(tmp_path / "out")
    feed.put("d")

    run(spark, options, tmp_path, startingPosition="latest")  # the option no longer counts

    assert sequences(spark.read.parquet(str(tmp_path / "out"))) == [2, 3, 4]


@pytest.mark.thorough
def test_a_query_that_was_stopped_reports_lost_messages(
    spark: "SparkSession", feed: Feed, options: Options, tmp_path: Path
) -> None:
    feed.put(*"ab")
    run(spark, options, tmp_path, startingPosition="earliest")
    feed.put(*"cde")
    feed.purge(seq=5)

    with pytest.raises(Exception, match="sequences 3 to 4 are not stored any more"):
        run(spark, options, tmp_path)
    run(spark, options, tmp_path, failOnDataLoss="false")

    assert sequences(spark.read.parquet(str(tmp_path / "out"))) == [1, 2, 5]


def test_a_bucket_is_a_table(spark: "SparkSession", feed: Feed, options: Options) -> None:
    feed.put("a", "b", "a")

    found: list[Any] = read(spark, options, asOf="latest", columns="subject,seq").collect()

    assert sorted(tuple(row) for row in found) == [(f"{feed.name}.a", 3), (f"{feed.name}.b", 2)]
