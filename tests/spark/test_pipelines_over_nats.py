"""Every kind of pipeline with servers alone, without a database: with nats-server, too."""

# Subject: Spark pipelines

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import spark as support

support.require()

import pyarrow.dataset as ds  # noqa: E402
from pyspark_jetstream.pipelines.declaration import pipeline  # noqa: E402
from pyspark_jetstream.pipelines.report import Report  # noqa: E402
from pyspark_jetstream.pipelines.run import run  # noqa: E402

from tests.spark.feeds import Feed  # noqa: E402
from tests.spark.readers import batch  # noqa: E402
from tests.support.natsserver import NatsServer  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BLOCK = b"NATS/1.0\r\nTrace: a\r\nTrace: b\r\n\r\n"


class Runs:
    """Runs pipelines that read one stream of nats-server.

    Args:
        spark: The session.
        server: The server.
        feed: The stream.
        place: Where they keep their positions.
    """

    def __init__(self, spark: "SparkSession", server: NatsServer, feed: Feed, place: Path) -> None:
        self.options = {"servers": "nats://{}:{}".format(*server.address)}
        self._spark, self._feed, self._place = spark, feed, place

    def __call__(self, kind: str, target: dict[str, Any], **fields: Any) -> Report:
        """Run one and return its report."""
        if kind in ("replay", "materialize", "transform"):
            fields["checkpoint"] = str(self._place / kind)
        source = {"stream": self._feed.name, "options": self.options}
        made = {"kind": kind, "name": kind, "source": source, "target": target, **fields}
        (report,) = run([pipeline(made)], self._spark, out=io.StringIO())
        return report

    def into(self, stream: str) -> dict[str, Any]:
        """A stream as a target, written at least once."""
        return {"stream": stream, "delivery": "at-least-once", "options": self.options}

    def stored(self, stream: str, *columns: str) -> list[tuple[Any, ...]]:
        """The messages of a stream."""
        found = batch({**self.options, "stream": stream}, *columns).sort_by("seq").to_pylist()
        return [tuple(row[name] for name in columns) for row in found]


@pytest.fixture
def feed(nats_server: NatsServer) -> Iterator[Feed]:
    with Feed(nats_server) as made:
        made.publish([("a", b"1", BLOCK), ("b", b"2", b""), ("a", b"3", b"")])
        yield made


@pytest.fixture
def go(spark: "SparkSession", nats_server: NatsServer, feed: Feed, tmp_path: Path) -> Runs:
    return Runs(spark, nats_server, feed, tmp_path)


@pytest.fixture
def other(nats_server: NatsServer) -> Iterator[Feed]:
    """A stream that is written."""
    with Feed(nats_server, subjects=["copy.>", "$KV.latest.>"]) as made:
        yield made


def test_an_archive_holds_each_message_once_and_purges(
    go: Runs, feed: Feed, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    for expected in (3, 0):
        report = go("archive", {"path": str(lake)}, purge={"keep": 1})
        assert (report.failed, report.written) == ("", expected)
    table = ds.dataset(lake, partitioning="hive", format="parquet").to_table().sort_by("seq")
    assert table["seq"].to_pylist() == [1, 2, 3]
    assert table["header_block"].to_pylist() == [BLOCK, None, None]
    assert feed.info()["first_seq"] == 3


def test_a_directory_holds_the_latest_messages(go: Runs, tmp_path: Path) -> None:
    report = go("materialize", {"path": str(tmp_path / "latest")})
    assert (report.failed, report.written) == ("", 2)
    table = ds.dataset(tmp_path / "latest", partitioning="hive", format="parquet").to_table()
    assert sorted(table["data"].to_pylist()) == [b"2", b"3"]


@pytest.mark.thorough
def test_a_query_over_one_stream_fills_another(go: Runs, other: Feed) -> None:
    sql = "select concat('copy.', substring_index(subject, '.', -1)) as subject, data from input"
    for _ in range(2):
        report = go("transform", go.into(other.name), sql=sql)
        assert report.failed == ""
    assert go.stored(other.name, "seq", "subject", "data") == [
        (1, "copy.a", b"1"),
        (2, "copy.b", b"2"),
        (3, "copy.a", b"3"),
    ]


def test_a_stream_is_replayed_byte_by_byte(go: Runs, other: Feed) -> None:
    subject = "concat('copy.', substring_index(subject, '.', -1))"
    for _ in range(2):
        assert go("replay", go.into(other.name), subject=subject).failed == ""
    rows = go.stored(other.name, "seq", "subject", "data", "headers")
    assert [row[:3] for row in rows] == [
        (1, "copy.a", b"1"),
        (2, "copy.b", b"2"),
        (3, "copy.a", b"3"),
    ]
    assert dict(rows[0][3])["Trace"] == ["a", "b"]


def test_tables_about_a_stream(go: Runs, feed: Feed, tmp_path: Path) -> None:
    feed.consumer("slow")
    report = go("analytics", {"path": str(tmp_path / "tables")})
    assert (report.failed, report.read) == ("", 3)
    consumers = ds.dataset(tmp_path / "tables/consumers", format="parquet").to_table().to_pylist()
    assert [(one["consumer"], one["lag"], one["num_pending"]) for one in consumers] == [
        ("slow", 3, 3)
    ]
    sizes = ds.dataset(tmp_path / "tables/sizes", format="parquet").to_table().to_pylist()
    assert {one["prefix"]: one["messages"] for one in sizes} == {
        f"{feed.name}.a": 2,
        f"{feed.name}.b": 1,
    }


def test_a_transactional_target_needs_a_jetgate_server(go: Runs, other: Feed) -> None:
    """Exactly once is the default of targets."""
    target = {"stream": other.name, "options": go.options}
    report = go("replay", target, subject="concat('copy.', seq)")
    assert "delivery=transactional needs a jetgate server" in report.failed
    assert "delivery=at-least-once" in report.failed
    assert report.written == 0
