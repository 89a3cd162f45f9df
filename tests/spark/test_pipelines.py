"""Pipelines other than archives and replays, run again and again, with real Spark."""

# Subject: Spark pipelines

import asyncio
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import spark as support

support.require()

import nats  # noqa: E402
from adbc_driver_postgresql import dbapi  # noqa: E402
from nats.js.api import ConsumerConfig  # noqa: E402
from pyspark_jetstream.pipelines.declaration import pipeline  # noqa: E402
from pyspark_jetstream.pipelines.report import Report  # noqa: E402
from pyspark_jetstream.pipelines.run import run  # noqa: E402

from tests.spark.feeds import Feed  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402
from tests.support.kill_points import Killed, dying  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Runner = Callable[..., Report]
BUCKET = {
    "subjects": ["$KV.>"],
    "max_msgs_per_subject": 1,
    "allow_rollup_hdrs": True,
    "discard": "new",
}
DELETED = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"


@pytest.fixture
def go(spark: "SparkSession", options: dict[str, str], tmp_path: Path) -> Runner:
    """Runs a pipeline of the test's stream."""
    connection = {"dsn": options["dsn"]}

    def make(
        kind: str,
        target: dict[str, Any],
        at: Callable[[str], None] = lambda _: None,
        **fields: Any,
    ) -> Report:
        own = fields.pop("options", {})
        source = {"stream": options["stream"], "options": connection | own}
        declared = {"kind": kind, "name": "made", "source": source, "target": target, **fields}
        if kind != "analytics":
            declared["checkpoint"] = str(tmp_path / "checkpoint")
        (report,) = run([pipeline(declared)], spark, out=io.StringIO(), at=at)
        assert report.failed == ""
        return report

    return make


@pytest.fixture
def other(jetgate_server: JetgateServer) -> Iterator[Feed]:
    """A stream that is written."""
    with Feed(jetgate_server) as made:
        yield made


@pytest.fixture
def servers(jetgate_server: JetgateServer) -> str:
    """The server's address."""
    host, port = jetgate_server.address
    return f"nats://{host}:{port}"


def reading(subject: str, value: int) -> tuple[str, bytes, bytes]:
    """A message with a JSON object."""
    return subject, json.dumps({"value": value, "tags": ["a", "b"]}).encode(), b""


def test_a_table_holds_the_latest_message_of_each_subject(go: Runner, feed: Feed, dsn: str) -> None:
    table = f"public.latest_{feed.name.lower()}"
    target = {"dsn": dsn, "table": table}
    given = {"json": "value int, tags array<string>"}

    def rows() -> list[tuple[Any, ...]]:
        with dbapi.connect(dsn) as connection, connection.cursor() as cursor:
            cursor.execute(f"select subject, seq, value, tags from {table} order by seq")
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    tags = '["a","b"]'
    feed.publish([reading("a", 1), reading("b", 2), reading("a", 3), reading("c", 4)])
    report = go("materialize", target, **given)
    assert (report.read, report.written) == (4, 3)
    before = [
        (f"{feed.name}.{s}", n, v, tags) for s, n, v in (("b", 2, 2), ("a", 3, 3), ("c", 4, 4))
    ]
    assert rows() == before
    feed.publish([reading("a", 5), ("c", b"", DELETED), reading("d", 7)])
    with pytest.raises(Killed):
        go("materialize", target, at=dying("written"), **given)
    report = go("materialize", target, **given)
    assert report.notes == ["batch 2 was under way and was written again"]
    assert [row[:3] for row in rows()] == [
        (f"{feed.name}.b", 2, 2),
        (f"{feed.name}.a", 5, 5),
        (f"{feed.name}.d", 7, 7),
    ]


def test_a_directory_holds_the_latest_message_of_each_subject(
    go: Runner, feed: Feed, spark: "SparkSession", tmp_path: Path
) -> None:
    target = {"path": str(tmp_path / "latest")}
    feed.put("a", "b", "a")
    assert go("materialize", target).written == 2
    feed.publish([("b", b"", DELETED), ("c", b"new", b"")])
    go("materialize", target)
    found = spark.read.parquet(str(tmp_path / "latest")).orderBy("seq").collect()
    assert [(row["seq"], bytes(row["data"]), row["as_of"]) for row in found] == [
        (3, b"a", 5),
        (5, b"new", 5),
    ]
    assert go("materialize", target).batches == 0


def test_a_transformation_writes_each_row_once_into_parquet(
    go: Runner, feed: Feed, spark: "SparkSession", tmp_path: Path
) -> None:
    target = {"path": str(tmp_path / "out")}
    given = {
        "json": "value int",
        "sql": "select seq, data.value * 2 as twice from input where data.value > 1",
        "options": {"maxMessagesPerTrigger": "2"},
    }
    feed.publish([reading("a", n) for n in range(5)])
    report = go("transform", target, **given)
    assert (report.read, report.written, report.positions) == (5, 3, {feed.name: 5})
    feed.publish([reading("a", 5)])
    report = go("transform", target, **given)
    assert (report.read, report.written) == (1, 1)
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("seq").collect()
    assert [(row["seq"], row["twice"]) for row in found] == [(3, 4), (4, 6), (5, 8), (6, 10)]


@pytest.mark.thorough
def test_a_new_checkpoint_does_not_overwrite_what_another_wrote(
    go: Runner, feed: Feed, tmp_path: Path
) -> None:
    target = {"path": str(tmp_path / "out")}
    feed.put("a")
    go("transform", target, sql="select seq from input")
    (tmp_path / "checkpoint").rename(tmp_path / "elsewhere")
    with pytest.raises(AssertionError, match="holds batches of another checkpoint"):
        go("transform", target, sql="select seq from input")


def test_windows_of_one_stream_become_messages_of_another_once(
    go: Runner, feed: Feed, other: Feed, servers: str, dsn: str, spark: "SparkSession"
) -> None:
    target = {"stream": other.name, "options": {"servers": servers}}
    given = {
        "json": "value int",
        "watermark": {"delay": "0 seconds"},
        "sql": f"""
            select '{other.name}.sums' as subject, cast(sum(data.value) as string) as data
            from input group by window(timestamp, '1 millisecond')""",
    }
    feed.publish([reading("a", n) for n in range(5)])
    assert go("transform", target, **given).read == 5
    feed.publish([reading("a", 90)])  # closes the windows of the others, but not its own
    for _ in range(2):
        go("transform", target, **given)
        rows = spark.read.format("jetstream").options(dsn=dsn, stream=other.name).load()
        assert sum(int(bytes(row["data"])) for row in rows.collect()) == 10


def test_a_bucket_holds_the_latest_message_of_each_subject(
    go: Runner,
    feed: Feed,
    jetgate_server: JetgateServer,
    servers: str,
    dsn: str,
    spark: "SparkSession",
) -> None:
    name = f"LATEST_{feed.name}"
    key = "substring_index(subject, '.', -1)"
    target = {"bucket": name, "key": key, "options": {"servers": servers}}
    own = {"name": f"KV_{name}", "subjects": [f"$KV.{name}.>"]}
    made = Feed(jetgate_server, **BUCKET | own)
    made.name = f"KV_{name}"
    with made as bucket:
        feed.put("a", "b", "a")
        go("materialize", target)
        feed.publish([("b", b"", DELETED), ("c", b"new", b"")])
        with pytest.raises(Killed):
            go("materialize", target, at=dying("written"))
        go("materialize", target)
        assert bucket.info()["last_seq"] == 4  # the batch that came twice was stored once
        rows = spark.read.format("jetstream").options(dsn=dsn, stream=bucket.name, asOf="latest")
        found = {row["subject"]: bytes(row["data"]) for row in rows.load().collect()}
    prefix = f"$KV.{name}"
    assert found == {f"{prefix}.a": b"a", f"{prefix}.c": b"new"}


@pytest.fixture
def events(jetgate_server: JetgateServer) -> Iterator[Feed]:
    """A stream that stores advisories and samples."""
    with Feed(jetgate_server, subjects=["$JS.EVENT.>"]) as made:
        yield made


async def acknowledge(servers: str, feed: Feed, count: int) -> None:
    """Acknowledge messages as a consumer whose acks are sampled."""
    connection = await nats.connect(servers)
    js = connection.jetstream()
    config = ConsumerConfig(sample_freq="100")
    reader = await js.pull_subscribe("", durable="reader", stream=feed.name, config=config)
    for message in await reader.fetch(count):
        await message.ack_sync()
    await connection.close()


def test_tables_about_streams(
    go: Runner, feed: Feed, events: Feed, servers: str, spark: "SparkSession", tmp_path: Path
) -> None:
    feed.put("a.x", "a.y", "a.x", payload=b"12345")
    feed.put("b.x", payload=b"1")
    asyncio.run(acknowledge(servers, feed, 3))
    report = go("analytics", {"path": str(tmp_path / "tables")}, events=events.name)

    def table(name: str, *columns: str) -> list[tuple[Any, ...]]:
        rows = spark.read.parquet(str(tmp_path / "tables" / name)).select(*columns)
        return [tuple(row) for row in rows.collect()]

    assert report.read == 4
    assert sum(row[0] for row in table("rates", "messages")) == 4
    assert table("sizes", "prefix", "messages", "bytes", "p50", "largest") == [
        (f"{feed.name}.a", 3, 15, 5.0, 5),
        (f"{feed.name}.b", 1, 1, 1.0, 1),
    ]
    assert table("subjects", "prefix", "subjects", "messages") == [
        (f"{feed.name}.a", 2, 3),
        (f"{feed.name}.b", 1, 1),
    ]
    names = ("consumer", "delivered_stream_seq", "ack_floor_stream_seq", "num_ack_pending", "lag")
    assert table("consumers", *names) == [("reader", 3, 3, 0, 1)]
    ((consumer, samples, latency),) = table("ack_latency", "consumer", "samples", "p50_ms")
    assert (consumer, samples) == ("reader", 3)
    assert latency > 0
    advised = table("advisories", "type", "of_stream", "consumer")
    assert ("io.nats.jetstream.advisory.v1.consumer_action", feed.name, "reader") in advised
    assert [title.partition(" ")[0] for title, _, _ in report.tables] == [
        "rates",
        "sizes",
        "subjects",
        "consumers",
        "advisories",
        "ack_latency",
    ]
