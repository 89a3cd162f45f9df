"""The speed of the Spark format over NATS: `python -m bench.spark_nats`.

It starts a jetgate (or nats-server, with `--peer`) and Spark with two threads; messages have 128
bytes. Each row runs three times after a warm-up. The median is printed beside its goal, with the
processor time of all processes and the server's memory.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.memory import PAYLOAD, create, load
from bench.spark import processor_seconds
from bench.wire import Connection
from core.units import NANOS_PER_SECOND
from tests.support import spark as support
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNS = 3
SOURCE, TARGET = "M", "SINK"
WINDOW = 10
"""Seconds of the target's duplicate window, which limits the ids that the server remembers."""


@dataclass(frozen=True)
class Bench:
    """The arguments of a measurement.

    Args:
        spark: The Spark session.
        server: The server to read from and write to.
        rows: Number of messages to read.
        frame: Rows to write, in memory.
        written: Number of rows to write.
    """

    spark: "SparkSession"
    server: JetgateServer | NatsServer
    rows: int
    frame: "DataFrame"
    written: int

    @property
    def servers(self) -> str:
        """URL of the server's NATS port."""
        return f"nats://127.0.0.1:{self.server.address[1]}"


def read(bench: Bench) -> int:
    """Read a batch into a sink that discards rows; return the number of rows."""
    source = bench.spark.read.format("jetstream").option("servers", bench.servers)
    source = source.option("stream", SOURCE).option("columns", "seq,subject,timestamp_ns,data")
    frame = source.option("minPartitions", "4").load()
    frame.write.format("noop").mode("overwrite").save()
    return bench.rows


def _write(bench: Bench, **options: str) -> int:
    connection = Connection(bench.server.address)
    for name in connection.api("STREAM.NAMES")["streams"] or []:
        if TARGET in name:  # also the stream that stages its transactions
            connection.api(f"STREAM.DELETE.{name}")
    config = {"name": TARGET, "subjects": ["sink.>"], "duplicate_window": WINDOW * NANOS_PER_SECOND}
    connection.api(f"STREAM.CREATE.{TARGET}", config)
    writer = bench.frame.write.format("jetstream").mode("append")
    writer.options(servers=bench.servers, stream=TARGET, **options).save()
    stored = connection.api(f"STREAM.INFO.{TARGET}")["state"]["messages"]
    connection.close()
    assert stored == bench.written, f"{stored:,} of {bench.written:,} rows are stored"
    return bench.written


def with_ids(bench: Bench) -> int:
    """Write with at-least-once delivery and message ids; return the number of rows."""
    return _write(bench)


def without_ids(bench: Bench) -> int:
    """Write with at-least-once delivery, without message ids; return the number of rows."""
    return _write(bench, ids="off")


def transactional(bench: Bench) -> int:
    """Write with exactly-once delivery; return the number of rows."""
    return _write(bench, delivery="transactional", txnAppId="bench", txnVersion="1")


ROWS: dict[str, tuple[Callable[[Bench], int], float]] = {
    "nats, batch read into noop": (read, 100_000),
    "sink, at least once, with ids": (with_ids, 60_000),
    "sink, at least once, ids=off": (without_ids, 60_000),
    "sink, transactional": (transactional, 40_000),
}
"""Each row: its function, and its goal in rows per second."""


def measure(name: str, bench: Bench) -> float:
    """Run one row three times and print it; return the median rate in rows per second."""
    run, goal = ROWS[name]
    run(bench)
    rates, used = [], []
    for _ in range(RUNS):
        roots = (os.getpid(), bench.server.pid)
        cpu, began = processor_seconds(roots), time.perf_counter()
        rows = run(bench)
        rates.append(rows / (time.perf_counter() - began))
        used.append((processor_seconds(roots) - cpu) / rows * 1e6)
    rate = statistics.median(rates)
    word = "ok" if rate >= goal else "MISS"
    told = f"{rate:10,.0f} rows/s, {statistics.median(used):5.2f} us of CPU a row"
    print(f"{name:32} {told}, goal {goal:9,.0f} {word}, server {resident(bench)} MB", flush=True)
    return rate


def resident(bench: Bench) -> int:
    """Return the resident megabytes of the server's process."""
    with open(f"/proc/{bench.server.pid}/status") as status:
        (line,) = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


def main() -> int:
    """Run the chosen rows and print the results.

    Returns the exit code: 1 if `--check` is given and a goal is missed, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.spark_nats", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="messages that are read")
    parser.add_argument("--written", type=int, default=1_000_000, help="rows that are written")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--peer", action="store_true", help="nats-server in place of jetgate")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        server: JetgateServer | NatsServer = NatsServer() if chosen.peer else JetgateServer()
        stack.enter_context(server)
        names = [name for name in ROWS if chosen.only in name]
        if any(ROWS[name][0] is read for name in names):
            create(server)
            load(server, chosen.rows, lambda i: b"PUB M.%d _INBOX.m.%d%s" % (i % 1000, i, PAYLOAD))
        spark = support.session({"spark.driver.memory": "2g"}, compiles=True)
        stack.callback(spark.stop)
        subject = "concat('sink.', id % 1000) as subject"
        frame = spark.range(chosen.written).repartition(2)
        frame = frame.selectExpr(subject, "cast(repeat('x', 128) as binary) as data").cache()
        frame.count()
        bench = Bench(spark, server, chosen.rows, frame, chosen.written)
        if chosen.peer:
            names.remove("sink, transactional")
        found = {name: measure(name, bench) for name in names}
    missed = [name for name, rate in found.items() if rate < ROWS[name][1]]
    return 1 if chosen.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
