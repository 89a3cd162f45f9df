"""kill -9 of the node and of its PostgreSQL while Spark reads, stages and commits.

A task that fails ends a query of a local session, so what is told here is that it goes on.
"""

# Subject: Spark faults

# ruff: noqa: E402  (skipped where there is no Spark)

import json
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from tests.support import spark as support

support.require()

from tests.spark.feeds import Feed, dsn_of
from tests.spark.gates import Gates, checksums
from tests.spark.readers import batch
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.wire import Wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 640
SIZE = 64 << 10
"""Together more than is on its way between PostgreSQL and a task that waits."""

ROWS = 40_000
"""Of each of two partitions: some ten commits of the server each."""


@pytest.fixture
def server() -> Iterator[JetgateServer]:
    """A server that is killed: one for each test, as an outage may outlast the test before."""
    with JetgateServer(in_memory=True) as started:
        yield started


@pytest.fixture
def small_batches(spark: "SparkSession") -> Iterator["SparkSession"]:
    """The session, with few rows in what Python and Spark hand to each other."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    assert before is not None, "it has a default"
    spark.conf.set(name, "64")
    yield spark
    spark.conf.set(name, before)


def messages(server: JetgateServer, stream: str) -> int:
    """How many messages a stream has; 0 where nobody knows of it yet."""
    with Wire(server.address) as wire:
        wire.hello()
        answer = wire.request(f"$JS.API.STREAM.INFO.{stream}").payload or b"{}"
        return int(json.loads(answer).get("state", {}).get("messages", 0))


def _while_not(over: Event, observe: Callable[[], int]) -> int:
    """What is observed before something is over."""
    found = eventually(lambda: observe() or over.is_set(), within=120)
    assert not over.is_set(), "over before it was observed"
    return found


@pytest.mark.thorough
def test_reads_go_on_where_the_node_and_its_postgresql_were_killed(
    server: JetgateServer, small_batches: "SparkSession", tmp_path: Path
) -> None:
    """One read over NATS and one by SQL, both in the middle each time."""
    feed = Feed(server)
    feed.create()
    payloads = [b"%d " % n * (SIZE // len(b"%d " % n)) for n in range(1, MESSAGES + 1)]
    feed.publish([("row", payload, b"") for payload in payloads])
    feed.close()
    url = f"nats://127.0.0.1:{server.address[1]}"
    ways = {"nats": {"servers": url}, "sql": {"dsn": dsn_of(server)}}
    gates = Gates(tmp_path, 64, 320)

    def read(way: str) -> list[tuple[int, int]]:
        options = {"stream": feed.name, "columns": "seq,data", **ways[way]}
        frame = small_batches.read.format("jetstream").options(**options).load()
        held = frame.mapInArrow(gates.pass_all, frame.schema)
        return [tuple(row) for row in held.mapInArrow(checksums, "seq long, crc long").collect()]

    with ThreadPoolExecutor(2) as pool:
        is_read = Event()
        reads = [pool.submit(read, way) for way in ways]
        for one in reads:
            one.add_done_callback(lambda _: is_read.set())
        _while_not(is_read, lambda: gates.waiting(64) == 2)
        server.kill()  # and PostgreSQL with it
        gates.open(64)
        server.start()
        _while_not(is_read, lambda: gates.waiting(320) == 2)
        assert server.kill_postgres()
        gates.open(320)
        found = [one.result(120) for one in reads]

    assert [len(rows) for rows in found] == [MESSAGES] * 2
    assert found == [[(n, zlib.crc32(data)) for n, data in enumerate(payloads, 1)]] * 2


def test_a_batch_is_stored_once_whatever_is_killed_while_it_is_staged_and_committed(
    server: JetgateServer, small_batches: "SparkSession", tmp_path: Path
) -> None:
    name = "ONCE"
    with Wire(server.address) as wire:
        wire.hello()
        config = {"name": name, "subjects": [f"{name}.>"], "allow_direct": True}
        assert "error" not in wire.api(f"STREAM.CREATE.{name}", config)
    url = f"nats://127.0.0.1:{server.address[1]}"
    sink = {
        "servers": url,
        "stream": name,
        "subject": f"{name}.row",
        "delivery": "transactional",
        "txnAppId": "app",
        "txnVersion": "1",
    }
    gates = Gates(tmp_path, ROWS // 2)

    is_written = Event()

    def kill() -> None:
        """The node with its PostgreSQL in staging; PostgreSQL, then both in the promotion."""
        try:
            _while_not(is_written, lambda: gates.waiting(ROWS // 2) == 2)
            _while_not(is_written, lambda: messages(server, f"JG_STAGE_{name}"))
            assert messages(server, name) == 0
            server.kill()
        finally:
            gates.open(ROWS // 2)
        server.start()
        first = _while_not(is_written, lambda: messages(server, name))
        assert server.kill_postgres()
        more = _while_not(is_written, lambda: max(0, messages(server, name) - first))
        server.restart()
        assert first + more < 2 * ROWS

    numbers = small_batches.range(0, 2 * ROWS, 1, 2).selectExpr("rpad(id, 100, '.') as data")
    staged = numbers.mapInArrow(gates.pass_all, numbers.schema)
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(kill)
        try:
            staged.write.format("jetstream").mode("append").options(**sink).save()
        finally:
            is_written.set()
        killing.result()

    rows = batch({"servers": url, "stream": name}, "data")
    numbers_stored = [int(row.rstrip(b".")) for row in rows.column("data").to_pylist()]
    assert sorted(numbers_stored) == list(range(2 * ROWS))
