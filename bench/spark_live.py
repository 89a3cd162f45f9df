"""Latency and rate of streaming queries at the end of a stream: `python -m bench.spark_live`.

It starts a jetgate, Spark with two threads, and publishers in another process. There are two kinds
of rows, each with its goals:

- *caught up*: a query with triggers of one second reads 2,000 messages per second. The latency of a
  message is the time from its due time of publication until its row is in the driver. It includes
  the publish, the commit, the wait for the next trigger, Spark's planning and offset log, the read,
  and the transfer of the row from the task to the driver. It excludes Spark's commit log, which is
  written after the sink has its rows.
- *beside publishers*: publishers send 60,000 messages per second, alternately alone and beside a
  query of at most 50,000 rows per trigger of one second. The results are rates and the 99th
  percentile of the publishers' acks, as medians of the rounds.

`--nice` is the niceness of Spark relative to server and publishers, which share its cores.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.load import stream
from bench.pace import STAMP, Pace, pacing
from bench.wire import Connection, Sender, percentile, publishes, pump
from core.units import NANOS_PER_SECOND
from tests.spark.feeds import dsn_of
from tests.support import spark as support
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER = "1 second"
SLOW, FAST, LIMIT = 2_000, 60_000, 50_000
P50, P99 = 1.5, 3.0
RATE_REACHED = 0.99
"""Share of the publishers' rate at which it counts as kept; the rest is lost at edges of parts."""
TWICE = 2.0
WARM = 5
"""Seconds before each part that are not measured."""


@dataclass(frozen=True)
class Bench:
    """The arguments of a measurement.

    Args:
        spark: The Spark session.
        server: The server that publishers and queries use.
        seconds: Duration of a part in seconds.
        rounds: Number of rounds, for medians.
        place: Directory for checkpoints.
    """

    spark: "SparkSession"
    server: JetgateServer
    seconds: int
    rounds: int
    place: Path

    def options(self, transport: str) -> dict[str, str]:
        """Return the options of `format("jetstream")` that read by a transport, "sql" or "nats"."""
        if transport == "sql":
            return {"dsn": dsn_of(self.server)}
        return {"servers": f"nats://127.0.0.1:{self.server.address[1]}"}

    def make(self, name: str) -> None:
        """Create a stream with the subjects `<name>.>`."""
        connection = Connection(self.server.address)
        stream(connection, name, allow_direct=True)
        connection.close()

    def query(
        self,
        name: str,
        options: dict[str, str],
        on_batch: "Callable[[DataFrame, int], None] | None" = None,
    ) -> "StreamingQuery":
        """Start a query that reads new messages every second; `on_batch` receives each batch.

        Without `on_batch` the rows are discarded.
        """
        source = self.spark.readStream.format("jetstream").options(stream=name, **options).load()
        writer = source.writeStream.option("checkpointLocation", tempfile.mkdtemp(dir=self.place))
        writer = writer.trigger(processingTime=TRIGGER)
        return (writer.foreachBatch(on_batch) if on_batch else writer.format("noop")).start()


def caught_up(bench: Bench, transport: str, pace: Pace) -> bool:
    """Print the latencies of a query that keeps up; return True if they reach their goals."""
    name = f"LIVE_{transport}"
    bench.make(name)
    arrived: list[tuple[int, list[int]]] = []

    def on_batch(frame: "DataFrame", _batch: int) -> None:
        rows = frame.collect()
        arrived.append((time.time_ns(), [int(row.data[:STAMP]) for row in rows]))

    options = {**bench.options(transport), "payload": "string", "columns": "data"}
    query = bench.query(name, options, on_batch)
    pace.mark()
    eventually(lambda: len(arrived) > 2, within=60)
    _pass(WARM, query)
    skipped = len(arrived)
    _pass(bench.seconds, query)
    batches = arrived[skipped:]
    pace.end()
    query.stop()
    taken = latencies(batches)
    assert len(taken) > 0.8 * SLOW * bench.seconds, f"only {len(taken):,} rows arrived"
    p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
    word = "ok" if p50 <= P50 and p99 <= P99 else "MISS"
    print(
        f"{transport + ', caught up':24} p50 {p50:5.2f} s, goal {P50}; p99 {p99:5.2f} s, "
        f"goal {P99:.1f} {word}; {len(taken):,} rows in {len(batches)} batches",
        flush=True,
    )
    return word == "ok"


def latencies(batches: list[tuple[int, list[int]]]) -> list[float]:
    """Return the seconds from the due time of each message until its batch reached the driver.

    Each batch is a tuple of the time at which it reached the driver, and the due times of its
    messages, all in nanoseconds since the epoch.
    """
    return [(at - due) / NANOS_PER_SECOND for at, rows in batches for due in rows]


def beside_publishers(bench: Bench, transport: str, pace: Pace) -> bool:
    """Print the effect of a reader on publishers; return True if it is within the goals.

    The publishers must keep their rate, and at most double the 99th percentile of their acks.
    """
    name = f"BESIDE_{transport}"
    bench.make(name)
    options = {**bench.options(transport), "columns": "seq,subject,timestamp_ns,data"}
    options["maxMessagesPerTrigger"] = str(LIMIT)
    _warm(bench, name, {**options, "startingPosition": "earliest"})
    pace.mark()
    read = []
    for _ in range(bench.rounds):
        _part(pace, bench.seconds)
        query = bench.query(name, options)
        read.append(_part(pace, bench.seconds, query))
        query.stop()
    pace.end()
    # The parts of a round: warm-up, measurement, and both again with the query.
    alone, beside = pace.parts[1::4], pace.parts[3::4]
    rates = [_median(parts, "rate") for parts in (alone, beside)]
    waits = [_median(parts, "p99") for parts in (alone, beside)]
    kept = rates[1] >= RATE_REACHED * FAST
    word = "ok" if kept and waits[1] <= TWICE * waits[0] else "MISS"
    print(
        f"{transport + ', beside publishers':24} {rates[1]:,.0f}/s published, goal {FAST:,}; "
        f"p99 {waits[1]:.1f} ms, goal {TWICE * waits[0]:.1f} {word}; alone {rates[0]:,.0f}/s, "
        f"p99 {waits[0]:.1f} ms; {statistics.median(read):,.0f} rows/s read",
        flush=True,
    )
    return word == "ok"


def _warm(bench: Bench, name: str, options: dict[str, str]) -> None:
    """Run some batches without measuring them, because Java compiles only code that runs often."""
    connection = Connection(bench.server.address)
    connection.send(b"SUB _INBOX.warm.* 1\r\n")
    messages = publishes(f"{name}.a".encode(), 4 * LIMIT, b"x" * 128, b"_INBOX.warm")
    pump([Sender(connection, messages)], window=4000)
    connection.close()
    query = bench.query(name, options)
    eventually(lambda: sum(one["numInputRows"] for one in query.recentProgress) >= 4 * LIMIT)
    query.stop()


def _part(pace: Pace, seconds: int, query: "StreamingQuery | None" = None) -> float:
    """Measure a part after a warm-up; return the rows per second of the query."""
    if query is not None:
        reader = query
        eventually(lambda: len(reader.recentProgress) > 2, within=60)
    _pass(WARM, query)
    pace.mark()
    began = datetime.now(UTC)
    _pass(seconds, query)
    pace.mark()
    if query is None:
        return 0.0
    batches = [
        (datetime.fromisoformat(one["timestamp"]), int(one["numInputRows"]))
        for one in query.recentProgress
    ]
    return rows_per_second([batch for batch in batches if batch[0] >= began])


def rows_per_second(batches: list[tuple[datetime, int]]) -> float:
    """Return rows per second, from the start of the first batch to the start of the last one.

    Each batch is a tuple of its start and its number of rows. The result is 0 for one batch.
    """
    if len(batches) < 2:
        return 0.0
    seconds = (batches[-1][0] - batches[0][0]).total_seconds()
    return sum(rows for _, rows in batches[:-1]) / seconds


def _pass(seconds: int, query: "StreamingQuery | None") -> None:
    """Wait for some seconds. Raises AssertionError if the query ends during that time."""
    if query is None:
        time.sleep(seconds)
    elif query.awaitTermination(seconds):
        raise AssertionError("the query has ended")


def _median(parts: list[dict[str, float]], name: str) -> float:
    return statistics.median(part[name] for part in parts)


ROWS: dict[str, tuple[Callable[[Bench, str, Pace], bool], str, str, int]] = {
    "sql, caught up": (caught_up, "sql", "LIVE_sql.a", SLOW),
    "nats, caught up": (caught_up, "nats", "LIVE_nats.a", SLOW),
    "sql, beside publishers": (beside_publishers, "sql", "BESIDE_sql.a", FAST),
}
"""Each row: function, transport, subject of the publishers, and their messages per second."""


def main() -> int:
    """Run the chosen rows and print the results.

    Returns the exit code: 1 if `--check` is given and a goal is missed, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.spark_live", description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="of each part")
    parser.add_argument("--rounds", type=int, default=3, help="of the rows beside publishers")
    parser.add_argument("--nice", type=int, default=0, help="the niceness of Spark")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    chosen = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="jetgate-spark-"))
    rows = [row for name, row in ROWS.items() if chosen.only in name]
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        server = stack.enter_context(JetgateServer())
        paces = [stack.enter_context(pacing(server.address, row[2], row[3])) for row in rows]
        os.nice(chosen.nice)  # running processes keep their niceness
        # Stopping a query within a batch logs an error, which is expected here.
        settings = {"spark.driver.memory": "1g", "spark.log.level": "FATAL"}
        spark = support.session(settings, compiles=True)
        stack.callback(spark.stop)
        bench = Bench(spark, server, chosen.seconds, chosen.rounds, place)
        told = [run(bench, by, pace) for (run, by, *_), pace in zip(rows, paces, strict=True)]
    return 1 if chosen.check and not all(told) else 0


if __name__ == "__main__":
    sys.exit(main())
