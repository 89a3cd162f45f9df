"""Exactly once, with Spark itself: restarts, two drivers, deleted checkpoints, a kill."""

# Subject: Spark sink, Spark faults

# ruff: noqa: E402  (skipped where there is no Spark)

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from tests.support import spark as support

support.require()

from tests.spark.drivers import CopyDriver
from tests.spark.feeds import Feed
from tests.spark.proxies import Proxy
from tests.spark.readers import batch
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.wire import Wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Copy:
    """A stream that is copied into another one."""

    def __init__(
        self, server: JetgateServer, source: Feed, spark: "SparkSession", suffix: str = "COPY"
    ) -> None:
        self.server = server
        self.source = source
        self.spark = spark
        self.name = f"{source.name}{suffix}"
        self.wire = Wire(server.address)
        self.wire.hello()
        config = {"name": self.name, "subjects": [f"{self.name}.>"]}
        assert "error" not in self.wire.api(f"STREAM.CREATE.{self.name}", config)

    def put(self, first: int, last: int) -> None:
        self.source.publish([(str(n), b"%d" % n, b"") for n in range(first, last + 1)])

    def source_options(self, address: tuple[str, int] | None = None) -> dict[str, str]:
        return {
            "servers": self._url(address or self.server.address),
            "stream": self.source.name,
            "startingPosition": "earliest",
            "maxMessagesPerTrigger": "20",
            "minPartitions": "2",
        }

    def sink_options(self, address: tuple[str, int] | None = None, **more: str) -> dict[str, str]:
        return {
            "servers": self._url(address or self.server.address),
            "stream": self.name,
            "subject": f"{self.name}.row",
            "delivery": "transactional",
            "txnAppId": "copy",
            "timeout": "60s",
            **more,
        }

    @staticmethod
    def _url(address: tuple[str, int]) -> str:
        return f"nats://127.0.0.1:{address[1]}"

    def start(self, checkpoint: Path, **trigger: Any) -> "StreamingQuery":
        rows = self.spark.readStream.format("jetstream").options(**self.source_options()).load()
        writer = rows.select("data").writeStream.format("jetstream").options(**self.sink_options())
        return (
            writer.option("checkpointLocation", str(checkpoint))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def run(self, checkpoint: Path) -> str:
        """Copy what there is; why it failed, "" if it did not."""
        query = self.start(checkpoint)
        try:
            query.awaitTermination(200)
        except Exception as error:
            return str(error)
        return ""

    def run_in_ledger(self) -> str:
        """The run that has the token."""
        answer = self.wire.request(f"$JG.API.TXN.INFO.{self.name}").json()
        return str(answer["apps"][0]["run"])

    def reconnect(self) -> None:
        """Connect again: the server was started again, or has closed what was idle for long."""
        self.source.reconnect(self.server)
        self.wire.close()
        self.wire = Wire(self.server.address)
        self.wire.hello()

    def copied(self) -> list[int]:
        """The numbers that were copied, sorted."""
        rows = batch({"servers": self._url(self.server.address), "stream": self.name}, "data")
        return sorted(map(int, rows.column("data").to_pylist())) if rows.num_rows else []

    def delete(self) -> None:
        self.reconnect()
        self.wire.api(f"STREAM.DELETE.{self.name}")
        self.wire.api(f"STREAM.DELETE.JG_STAGE_{self.name}")
        self.wire.close()


@pytest.fixture
def copy(jetgate_server: JetgateServer, feed: Feed, spark: "SparkSession") -> Iterator[Copy]:
    made = Copy(jetgate_server, feed, spark)
    yield made
    made.delete()


@pytest.fixture(scope="module", autouse=True)
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CopyDriver]:
    """One driver in a process of its own: it starts while the first tests run without it."""
    made = CopyDriver(tmp_path_factory.mktemp("driver") / "log")
    made.prepare()
    yield made
    made.kill()


@pytest.mark.thorough
def test_a_query_that_is_restarted_stores_each_row_once(copy: Copy, tmp_path: Path) -> None:
    copy.put(1, 50)
    assert copy.run(tmp_path / "checkpoint") == ""
    assert copy.copied() == list(range(1, 51))
    copy.put(51, 60)
    assert copy.run(tmp_path / "checkpoint") == ""
    assert copy.copied() == list(range(1, 61))


def test_a_deleted_checkpoint_is_refused_and_nothing_is_written(copy: Copy, tmp_path: Path) -> None:
    copy.put(1, 10)
    checkpoint = tmp_path / "checkpoint"
    assert copy.run(checkpoint) == ""
    shutil.rmtree(checkpoint)
    copy.put(11, 15)
    failure = copy.run(checkpoint)
    assert "checkpoint was deleted" in failure
    assert "'copy'" in failure
    assert copy.copied() == list(range(1, 11))


class Steady:
    """Puts messages into the source all the time, from a thread of its own.

    Args:
        copy: Whose source.
        pause: Seconds between batches of ten.
    """

    def __init__(self, copy: Copy, pause: float = 0.1) -> None:
        self._copy, self._pause = copy, pause
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.last = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def _run(self) -> None:
        feed = self._copy.source.beside(self._copy.server)
        with closing(feed):
            while not self._over.wait(self._pause):
                more = range(self.last + 1, self.last + 11)
                feed.publish([(str(n), b"%d" % n, b"") for n in more])
                self.last += 10

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.thorough
@pytest.mark.parametrize("is_copied", [False, True])
def test_of_two_drivers_on_a_checkpoint_one_goes_on_and_the_other_fails(
    copy: Copy, driver: CopyDriver, tmp_path: Path, is_copied: bool
) -> None:
    """The same query started twice in steady work, on one checkpoint and on a copy of it."""
    one = tmp_path / "one"
    with Steady(copy) as steady:
        first = copy.start(one, processingTime="0 seconds")
        try:
            eventually(lambda: len(copy.copied()) > 100, within=120, every=0.5)
            run = copy.run_in_ledger()
            two = tmp_path / "two" if is_copied else one
            if is_copied:
                shutil.copytree(one, two)
            sink = copy.sink_options(checkpointLocation=str(two))
            driver.start(copy.source_options(), sink, {"processingTime": "0 seconds"})
            eventually(lambda: not first.isActive or driver.has_failed(), within=300, every=0.2)
            at_work = copy.run_in_ledger()
            before = len(copy.copied())
            eventually(lambda: len(copy.copied()) > before + 100, within=120, every=0.5)
            assert first.isActive == driver.has_failed()
            if first.isActive:
                assert at_work == run
                assert re.search(TOLD.format(run=run), driver.told()), driver.told()
            else:
                assert at_work != run
                assert at_work in str(first.exception())
            assert "checkpoint was deleted" not in driver.told() + str(first.exception())
        finally:
            first.stop()
            driver.kill()
    assert copy.run(one if first.exception() is None else two) == ""
    assert copy.copied() == list(range(1, steady.last + 1))


TOLD = r"another run of this query, '{run}'|Multiple streaming jobs detected|Concurrent update"
"""What ends the other one: the ledger, which names the run at work, or Spark's own checkpoint."""


@pytest.mark.thorough
def test_drivers_and_a_server_that_are_killed_in_steady_work_repeat_and_lose_nothing(
    spark: "SparkSession", driver: CopyDriver, tmp_path: Path
) -> None:
    """Each driver works through many batches; then it, or the server under its commit, ends."""
    with JetgateServer(in_memory=True) as server, Feed(server) as source:
        copy = Copy(server, source, spark)
        copy.put(1, STEADY)
        checkpoint = tmp_path / "checkpoint"
        for round_ in range(4):
            notice = (b"$JG.API.TXN.COMMIT", COMMITS)
            with Proxy(server.address, notice=notice) as proxy:
                sink = copy.sink_options(proxy.address, checkpointLocation=str(checkpoint))
                driver.start(copy.source_options(), sink, {"processingTime": "0 seconds"})
                assert proxy.held.wait(600), driver.told()
                if round_ % 2:
                    server.kill()  # and its database, while the commit runs
                    server.start()
                    copy.reconnect()
                    done = len(copy.copied())
                    eventually(lambda: len(copy.copied()) > done, within=300, every=0.5)  # noqa: B023
                driver.kill()
        assert 0 < len(copy.copied()) < STEADY
        assert copy.run(checkpoint) == ""
        assert copy.copied() == list(range(1, STEADY + 1))
        copy.delete()


STEADY, COMMITS = 3000, 20
"""Messages, twenty of them in a batch; and the commits for which a driver lives."""


@pytest.mark.thorough
def test_a_copy_of_a_checkpoint_that_is_behind_is_refused(copy: Copy, tmp_path: Path) -> None:
    copy.put(1, 2)
    assert copy.run(tmp_path / "one") == ""
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    for number in (3, 4):
        copy.put(number, number)
        assert copy.run(tmp_path / "one") == ""
    assert "never skipped silently" in copy.run(tmp_path / "two")
    assert copy.copied() == [1, 2, 3, 4]


@pytest.mark.thorough
def test_a_driver_killed_in_a_read_before_and_after_a_commit_loses_and_repeats_nothing(
    copy: Copy, driver: CopyDriver, tmp_path: Path
) -> None:
    """Three queries of one driver: kill -9 finds each of them at another place.

    The first has had a part of a page; the second has staged its batch; the batch of the third is
    stored, and Spark does not know it yet.
    """
    reading, staged = (Copy(copy.server, copy.source, copy.spark, name) for name in ("R", "S"))
    copies = {"reading": reading, "staged": staged, "stored": copy}
    copy.put(1, 30)
    with ExitStack() as end:
        at = copy.server.address
        page = end.enter_context(Proxy(at, mute=b"DIRECT.GET", heard=300))
        commit = end.enter_context(Proxy(at, hold=b"$JG.API.TXN.COMMIT"))
        answer = end.enter_context(Proxy(at, mute=b"$JG.API.TXN.COMMIT"))
        end.callback(driver.kill)
        for place, source, sink in (
            ("reading", page.address, at),
            ("staged", at, commit.address),
            ("stored", at, answer.address),
        ):
            one = copies[place]
            there = one.sink_options(sink, checkpointLocation=str(tmp_path / place))
            driver.start(one.source_options(source), there, {"availableNow": True})
        for proxy in (page, commit, answer):
            assert proxy.held.wait(300), driver.told()
    assert [reading.copied(), staged.copied(), copy.copied()] == [[], [], list(range(1, 21))]
    assert staged.wire.api(f"STREAM.INFO.JG_STAGE_{staged.name}")["state"]["messages"] > 0
    for place in copies:
        assert (tmp_path / place / "offsets/0").exists()
        assert not (tmp_path / place / "commits/0").exists()

    queries = [one.start(tmp_path / place) for place, one in copies.items()]
    for query in queries:
        query.awaitTermination(200)
    assert [one.copied() for one in copies.values()] == [list(range(1, 31))] * 3
    reading.delete()
    staged.delete()


def test_batch_writes_are_numbered(copy: Copy) -> None:
    def write(version: int, *numbers: int) -> str:
        rows = copy.spark.createDataFrame([(bytearray(b"%d" % n),) for n in numbers], "data binary")
        writer = rows.write.format("jetstream").mode("append")
        try:
            writer.options(**copy.sink_options(txnVersion=str(version))).save()
        except Exception as error:
            return str(error)
        return ""

    assert write(4, 1, 2) == ""
    assert write(4, 3, 4) == "", "the first manifest of a batch wins"
    assert write(5, 5) == ""
    assert copy.copied() == [1, 2, 5]
    assert "batch 4" in write(4, 6)
    assert copy.copied() == [1, 2, 5]
