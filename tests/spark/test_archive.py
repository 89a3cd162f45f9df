"""Archives: what a lake holds after runs, kills, purges and re-creations, for every reader."""

# Subject: Spark pipelines

import io
from collections.abc import Callable
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
from tests.support.jetgate import JetgateServer  # noqa: E402
from tests.support.kill_points import Killed, dying  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Runs:
    """Runs an archive of one stream again and again."""

    def __init__(self, spark: "SparkSession", options: dict[str, str], lake: Path) -> None:
        self.spark, self.lake = spark, lake
        self.options = {"dsn": options["dsn"], "maxMessagesPerPartition": "40"}
        self.stream = options["stream"]

    def __call__(self, at: Callable[[str], None] = lambda _: None, **fields: Any) -> Report:
        """Run it and return its report."""
        source = {"stream": self.stream, "options": self.options} | fields.pop("source", {})
        target = fields.pop("target", {})
        declared = {"kind": "archive", "name": "lake", "source": source, **fields}
        declared["target"] = {"path": str(self.lake), **target}
        (report,) = run([pipeline(declared)], self.spark, out=io.StringIO(), at=at)
        return report

    def seqs(self) -> list[int]:
        """The sequences in the lake, as pyarrow sees them, sorted."""
        table = ds.dataset(self.lake, partitioning="hive", format="parquet").to_table()
        return sorted(table["seq"].to_pylist())


@pytest.fixture
def archive(spark: "SparkSession", options: dict[str, str], tmp_path: Path) -> Runs:
    """An archive of the test's stream."""
    return Runs(spark, options, tmp_path / "lake")


HEADERS = b"NATS/1.0\r\nb: 1\r\nA:2\r\nb:  3\r\n\r\n"


@pytest.mark.thorough
def test_a_lake_holds_what_the_stream_holds(
    archive: Runs, feed: Feed, spark: "SparkSession"
) -> None:
    feed.publish([(f"k.{n % 7}", b"\x00\xff%d" % n, HEADERS if n % 2 else b"") for n in range(100)])
    feed.remove(5, 50)
    report = archive(batch=60)
    assert (report.failed, report.read, report.written, report.batches) == ("", 98, 98, 2)
    assert report.positions == {feed.name: 100}
    assert archive.seqs() == [n for n in range(1, 101) if n not in (5, 50)]
    lake = spark.read.parquet(str(archive.lake))
    live = spark.read.format("jetstream").options(**archive.options, stream=feed.name)
    names = (
        "stream",
        "subject",
        "seq",
        "timestamp",
        "timestamp_ns",
        "header_block",
        "data",
        "size",
    )
    assert (
        lake.select(*names).orderBy("seq").collect()
        == live.option("columns", ",".join(names)).load().orderBy("seq").collect()
    )
    assert lake.where("seq = 2").first()["headers"] == {"b": ["1", "3"], "A": ["2"]}  # type: ignore[index]


def test_a_second_run_archives_only_what_is_new(archive: Runs, feed: Feed) -> None:
    feed.put(*"abc")
    assert archive().written == 3
    assert archive().written == 0
    feed.put(*"de")
    assert archive().written == 2
    assert archive.seqs() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("point", "times"), [("staged", 1), ("moved", 2)])
def test_each_row_is_there_once_after_a_death_and_a_restart_with_other_splits(
    archive: Runs, feed: Feed, point: str, times: int
) -> None:
    feed.put(*(f"k.{n}" for n in range(200)))
    with pytest.raises(Killed):
        archive(dying(point, times), batch=120)
    feed.remove(1, 2, 119, 120)
    archive.options["maxMessagesPerPartition"] = "17"
    report = archive(batch=70)
    assert report.failed == ""
    # What was written down before the death is archived, though it was removed since.
    gone = {1, 2, 119, 120} if point == "staged" else set()
    assert archive.seqs() == [n for n in range(1, 201) if n not in gone]


def test_messages_removed_before_archiving_are_reported(archive: Runs, feed: Feed) -> None:
    feed.put(*"abc")
    archive()
    feed.put(*"defg")
    feed.purge(seq=6)
    report = archive()
    assert "2 sequences of stream" in report.failed
    assert "failOnDataLoss=false" in report.failed
    archive.options["failOnDataLoss"] = "false"
    report = archive()
    assert (report.failed, report.written) == ("", 2)
    assert report.skipped == {"sequences that were removed before they were read": 2}
    assert archive.seqs() == [1, 2, 3, 6, 7]


def test_a_stream_that_was_created_again_is_archived_only_if_that_is_wanted(
    archive: Runs, feed: Feed
) -> None:
    feed.put(*"abc")
    archive()
    feed.delete()
    feed.create()
    feed.put(*"xy")
    assert "was deleted and created again" in archive().failed
    assert archive(source={"recreated": "restart"}).written == 2
    assert archive.seqs() == [1, 1, 2, 2, 3]


@pytest.fixture
def purge(jetgate_server: JetgateServer) -> dict[str, Any]:
    """A declaration of `purge` for the server."""
    host, port = jetgate_server.address
    return {"options": {"servers": f"nats://{host}:{port}"}}


def test_archived_messages_are_purged(archive: Runs, feed: Feed, purge: dict[str, Any]) -> None:
    feed.put(*"abcdefgh")
    report = archive(purge=purge | {"keep": 3})
    assert report.notes == [f"{feed.name} was purged through sequence 5: 5 messages"]
    assert feed.info()["first_seq"] == 6
    feed.put("i")
    archive(purge=purge)
    assert feed.info()["messages"] == 0
    assert archive.seqs() == list(range(1, 10))


def test_messages_that_a_consumer_has_not_acknowledged_stay(
    archive: Runs, feed: Feed, purge: dict[str, Any]
) -> None:
    feed.put(*"abc")
    feed.consumer("slow")
    archive(purge=purge)
    assert feed.info()["messages"] == 3
    archive(purge=purge | {"waitForConsumers": False})
    assert feed.info()["messages"] == 0


def test_a_stream_is_not_purged_below_where_its_archive_began(
    archive: Runs, feed: Feed, purge: dict[str, Any]
) -> None:
    feed.put(*"abcde")
    report = archive(purge=purge, source={"startingPosition": "seq:3"})
    assert "the archive began at sequence 3, and those from 1 on" in report.notes[0]
    assert feed.info()["messages"] == 5


def test_a_stream_is_not_purged_when_the_lake_lacks_a_message(
    archive: Runs, feed: Feed, purge: dict[str, Any]
) -> None:
    feed.put(*(f"k.{n}" for n in range(100)))
    archive()
    sorted(archive.lake.rglob("*.parquet"))[1].unlink()
    report = archive(purge=purge)
    assert report.notes[-1] == (
        f"{feed.name} was not purged: the lake lacks 33 of its messages, the first is sequence 34"
    )
    assert feed.info()["messages"] == 100


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_format_that_this_spark_does_not_have_is_reported(
    archive: Runs, feed: Feed, format_: str
) -> None:
    feed.put("a")
    report = archive(target={"format": format_, "table": "db.messages"})
    assert f"has no format '{format_}': start it with --conf spark.jars.packages" in report.failed
    assert not archive.lake.exists(), "nothing was begun"
