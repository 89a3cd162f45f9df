"""Replays: what comes out of a lake or a stream again, in which order, how often."""

# Subject: Spark pipelines

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import spark as support

support.require()

from pyspark_jetstream.options import batch_options  # noqa: E402
from pyspark_jetstream.pipelines.declaration import pipeline  # noqa: E402
from pyspark_jetstream.pipelines.report import Report  # noqa: E402
from pyspark_jetstream.pipelines.run import run  # noqa: E402
from pyspark_jetstream.transport import open_transport  # noqa: E402
from pyspark_jetstream.transport.base import Wanted  # noqa: E402

from tests.spark.feeds import Feed  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402
from tests.support.kill_points import Killed, dying  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Message = tuple[str, bytes | None, bytes]
Runner = Callable[..., Report]
HEADERS = b"NATS/1.0\r\nb: 1\r\nA:2\r\nb:  3 \r\nnats-like: x\r\n\r\n"


@pytest.fixture
def again(jetgate_server: JetgateServer) -> Iterator[Feed]:
    """The stream that is written."""
    with Feed(jetgate_server) as made:
        yield made


@pytest.fixture
def go(
    spark: "SparkSession",
    jetgate_server: JetgateServer,
    dsn: str,
    feed: Feed,
    again: Feed,
    tmp_path: Path,
) -> Runner:
    """Archives the one stream, or replays it into the other."""
    host, port = jetgate_server.address
    reading = {"dsn": dsn, "maxMessagesPerPartition": "40"}
    declared: dict[str, dict[str, Any]] = {
        "archive": {"target": {"path": str(tmp_path / "lake")}},
        "replay": {
            "source": {"path": str(tmp_path / "lake"), "stream": feed.name},
            "target": {"stream": again.name, "options": {"servers": f"nats://{host}:{port}"}},
            "checkpoint": str(tmp_path / "checkpoint"),
            "subject": f"replace(subject, '{feed.name}', '{again.name}')",
        },
    }

    def make(kind: str, at: Callable[[str], None] = lambda _: None, **fields: Any) -> Report:
        live = {"stream": feed.name, "options": reading}
        if fields.pop("live", kind == "archive"):
            fields["source"] = live
        delivery = fields.pop("delivery", None)
        failing = fields.pop("failing", False)
        values = {"kind": kind, "name": f"{kind}-{feed.name}", **declared[kind], **fields}
        if delivery:
            values["target"] = values["target"] | {"delivery": delivery}
        (report,) = run([pipeline(values)], spark, out=io.StringIO(), at=at)
        assert failing or report.failed == ""
        return report

    return make


def content(dsn: str, feed: Feed) -> list[Message]:
    """Subjects below the stream's name, header blocks and payloads, in order, by bytes."""
    options = batch_options({"dsn": dsn, "stream": feed.name})
    transport = open_transport(options.connection)
    try:
        last = transport.head(feed.name).last_seq
        pages = list(transport.pages(feed.name, 1, last, (), Wanted())) if last else []
    finally:
        transport.close()
    return [
        (row["subject"].removeprefix(f"{feed.name}."), row["headers"], row["data"])
        for page in pages
        for row in page.rows.to_pylist()
    ]


def fill(feed: Feed, count: int) -> None:
    """Publish messages of all shapes, and delete some."""
    feed.publish(
        [(f"k.{n % 7}", b"\x00\xff\r\n%d" % n, HEADERS if n % 3 else b"") for n in range(count)]
    )
    feed.publish([("empty", b"", b"")])
    feed.remove(2, count // 2)


@pytest.mark.parametrize("live", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_replay_gives_the_same_bytes_in_the_same_order(
    go: Runner, feed: Feed, again: Feed, dsn: str, live: bool
) -> None:
    fill(feed, 150)
    go("archive", batch=60)
    report = go("replay", live=live, batch=70)
    assert (report.read, report.written, report.positions) == (149, 149, {feed.name: 151})
    assert content(dsn, again) == content(dsn, feed)
    assert go("replay", live=live).written == 0
    assert len(content(dsn, again)) == 149


@pytest.mark.parametrize("delivery", ["transactional", "at-least-once"])
def test_a_replay_that_died_goes_on_where_it_was(
    go: Runner, feed: Feed, again: Feed, dsn: str, delivery: str
) -> None:
    fill(feed, 100)
    go("archive")
    for point, times in (("begun", 1), ("published", 2)):
        with pytest.raises(Killed):
            go("replay", dying(point, times), batch=30, delivery=delivery)
    report = go("replay", batch=50, delivery=delivery)
    assert report.notes == ["batch 2 was under way and was finished"]
    replayed = content(dsn, again)
    if delivery == "transactional":
        assert replayed == content(dsn, feed)
    else:  # ids are added, so only what is not a header is as it was
        strip = [(subject, data) for subject, _, data in content(dsn, feed)]
        assert [(subject, data) for subject, _, data in replayed] == strip


def test_a_range_is_replayed_at_its_pace(go: Runner, feed: Feed, again: Feed, dsn: str) -> None:
    fill(feed, 20)
    report = go("replay", live=True, first=5, last=9, speed=1000, window="100ms")
    assert report.written == 5
    assert content(dsn, again) == content(dsn, feed)[3:8]


@pytest.mark.parametrize("live", [False, True])
def test_a_first_behind_the_end_is_not_reached_yet(go: Runner, feed: Feed, live: bool) -> None:
    fill(feed, 20)
    go("archive")
    report = go("replay", live=live, first=1000, failing=True)
    assert f"stream '{feed.name}': first is sequence 1000, which is not reached" in report.failed
