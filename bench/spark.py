"""The speed of the Spark format on a stream of 128-byte messages: `python -m bench.spark`.

Spark has two threads in this process; PostgreSQL is the embedded one. `--data DIR` keeps the filled
database for the next run. The rows are functions in `ROWS`. They run in rotation, three times after
a warm-up, and the median of each is printed beside its goal. With several numbers of messages the
batch reads are measured for each, and divided into a fixed cost per read and a cost per message.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.memory import PAYLOAD, create, load
from bench.wire import Connection
from tests.support import spark as support
from tests.support.jetgate import JetgateServer
from tests.support.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = 3
STREAM = "M"  # the stream that bench.memory fills
PARTITIONS = 8
FETCH = 10_000
JDBC = "org.postgresql:postgresql:42.7.8"
COLUMNS = "seq,subject,timestamp_ns,data"
SQL = "sql, batch read into noop"
JDBC_ROW = "Spark's JDBC source, batch read into noop"
JDBC_RATIO = 1.5


@dataclass(frozen=True)
class Bench:
    """The arguments of a measurement.

    Args:
        spark: The Spark session.
        dsn: Connection string of the database, over TCP.
        rows: Number of messages in the stream.
        place: Directory for the output of a row.
        database: Id of the process that runs PostgreSQL.
    """

    spark: "SparkSession"
    dsn: str
    rows: int
    place: Path
    database: int

    @property
    def options(self) -> dict[str, str]:
        """Options of `format("jetstream")` that read the stream."""
        return {"dsn": self.dsn, "stream": STREAM}


def sql_batch(bench: Bench) -> "Cost":
    """Measure a batch read by SQL, with named columns, into a sink that discards rows."""
    source = bench.spark.read.format("jetstream").options(**bench.options)
    source = source.option("minPartitions", str(PARTITIONS)).option("maxBytesPerPartition", "1GiB")
    source = source.option("endingPosition", f"seq:{bench.rows}")
    frame = source.option("columns", COLUMNS).load()
    return _measured(bench, lambda: frame.write.format("noop").mode("overwrite").save())


def jdbc_batch(bench: Bench) -> "Cost":
    """Measure Spark's JDBC source on the table of messages, with equal partitions."""
    address = bench.dsn.partition("@")[2].replace("localhost", "127.0.0.1")
    table = (
        "(select m.seq, m.subject, m.ts, m.data from jetgate_store.message m"
        " join jetgate_store.stream s using (stream, shelf)"
        f" where s.name = '{STREAM}' and m.seq <= {bench.rows}) as messages"
    )
    frame = bench.spark.read.jdbc(
        f"jdbc:postgresql://{address}",
        table,
        column="seq",
        lowerBound=1,
        upperBound=bench.rows + 1,
        numPartitions=PARTITIONS,
        properties={"user": "postgres", "fetchsize": str(FETCH), "driver": "org.postgresql.Driver"},
    )
    return _measured(bench, lambda: frame.write.format("noop").mode("overwrite").save())


def sql_streaming(bench: Bench) -> "Cost":
    """Measure a streaming query by SQL into Parquet, in batches of 500,000 messages."""
    shutil.rmtree(bench.place, ignore_errors=True)
    source = bench.spark.readStream.format("jetstream").options(**bench.options)
    source = source.option("startingPosition", "earliest").option("columns", COLUMNS)
    frame = source.option("maxMessagesPerTrigger", "500000").option("minPartitions", "2").load()

    def run() -> None:
        writer = frame.writeStream.format("parquet").option("path", str(bench.place / "out"))
        writer = writer.option("checkpointLocation", str(bench.place / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    cost = _measured(bench, run)
    stored = bench.spark.read.parquet(str(bench.place / "out")).count()
    assert stored == bench.rows, f"{stored:,} rows of {bench.rows:,} are in Parquet"
    return cost


ROWS: dict[str, tuple[Callable[[Bench], "Cost"], float]] = {
    SQL: (sql_batch, 400_000),
    JDBC_ROW: (jdbc_batch, 0),
    "sql, streaming into Parquet": (sql_streaming, 100_000),
}
"""Each row: its function, and its goal in rows per second."""

BATCHES = (SQL, JDBC_ROW)
"""Rows that are measured for each number of rows."""


@dataclass(frozen=True)
class Cost:
    """The cost of one run.

    Args:
        rate: Rows per second.
        cpu: Microseconds of processor time per row, of all processes including PostgreSQL and
            Spark; other load of the machine affects it little.
    """

    rate: float
    cpu: float


def _measured(bench: Bench, run: Callable[[], None]) -> Cost:
    roots = (os.getpid(), bench.database)
    cpu, began = processor_seconds(roots), time.perf_counter()
    run()
    rate = bench.rows / (time.perf_counter() - began)
    return Cost(rate, (processor_seconds(roots) - cpu) / bench.rows * 1e6)


def processor_seconds(roots: tuple[int, ...]) -> float:
    """Return the processor time in seconds of processes and their descendants, with ended ones."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(stat.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    total = 0
    for pid, ticks in used.items():
        above = pid
        while above not in roots and above in parents:
            above = parents[above]
        total += ticks if above in roots else 0
    return total / os.sysconf("SC_CLK_TCK")


@contextmanager
def database(directory: Path, rows: int) -> Iterator[tuple[str, int]]:
    """Run a filled database; yield its connection string over TCP, and its process id."""
    port = str(free_port())
    command = [sys.executable, "-m", "bench.database", str(directory), port]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=support.ROOT
    )
    assert process.stdout is not None, "a pipe was asked for"
    try:
        process.stdout.readline()
        dsn = f"postgresql://postgres@127.0.0.1:{port}/jetgate"
        fill(dsn, rows)
        yield dsn, process.pid
    finally:
        process.communicate()


def _message(number: int) -> bytes:
    return b"PUB M.%d _INBOX.m.%d%s" % (number % 1000, number, PAYLOAD)


def fill(dsn: str, rows: int) -> None:
    """Publish messages until the stream has `rows` of them, through a server."""
    server = JetgateServer(dsn=dsn).start()
    try:
        connection = Connection(server.address)
        names = connection.api("STREAM.NAMES")["streams"] or []
        if STREAM not in names:
            create(server)
        state = connection.api(f"STREAM.INFO.{STREAM}")["state"]
        connection.close()
        missing = rows - state["messages"]
        if missing > 0:
            rate = load(
                server, missing, lambda i: b"PUB M.%d _INBOX.m.%d%s" % (i % 1000, i, PAYLOAD)
            )
            print(f"{missing:,} messages published, {rate:,.0f}/s", flush=True)
    finally:
        server.stop()


def main() -> int:
    """Run the chosen rows and print the results.

    Returns the exit code: 1 if `--check` is given and a goal is missed, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[5_000_000])
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--data", type=Path, help="where the database is kept for the next run")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    chosen = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="jetgate-spark-"))
    try:
        most = max(chosen.rows)
        with database(chosen.data or place / "database", most) as (dsn, pid):
            settings = {"spark.driver.memory": "3g", "spark.jars.packages": JDBC}
            session = support.session(settings, compiles=True)
            names = [name for name in ROWS if chosen.only in name]
            measured = {}
            for rows in sorted(chosen.rows):
                print(f"{rows:,} rows", flush=True)
                bench = Bench(session, dsn, rows, place / "out", pid)
                some = names if rows == most else [one for one in names if one in BATCHES]
                measured[rows] = _rounds(bench, some)
                found = {name: _print_medians(name, runs) for name, runs in measured[rows].items()}
                _compare(measured[rows], found)
            session.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(json.dumps({name: round(rate) for name, rate in found.items()}))
    for name in BATCHES:
        _tell_fixed(name, measured)
    missed = [name for name, rate in found.items() if rate < ROWS[name][1]]
    return 1 if chosen.check and missed else 0


def _compare(costs: dict[str, list[Cost]], found: dict[str, float]) -> None:
    """Print the ratio of the format's rate to that of Spark's JDBC source."""
    if (ours := costs.get(SQL)) and (theirs := costs.get(JDBC_ROW)):
        each = [f"{one.rate / other.rate:.2f}" for one, other in zip(ours, theirs, strict=True)]
        ratio = found[SQL] / found[JDBC_ROW]
        print(f"{ratio:.2f} times the JDBC source ({', '.join(each)}), goal {JDBC_RATIO}")


def _tell_fixed(name: str, measured: dict[int, dict[str, list[Cost]]]) -> None:
    """Print the fixed cost of a read and its cost per message, from a line through the medians."""
    points = [
        (rows, rows / statistics.median(one.rate for one in costs[name]))
        for rows, costs in measured.items()
        if costs.get(name)
    ]
    if len(points) > 1:
        line = statistics.linear_regression(*zip(*points, strict=True))
        print(
            f"{name:45} {line.intercept:6.2f} s, and {line.slope * 1e6:5.2f} us a row", flush=True
        )


def _rounds(bench: Bench, names: list[str]) -> dict[str, list[Cost]]:
    """Return the costs of each row in each round; a first round warms up and is not counted."""
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    for number in range(RUNS + 1):
        for name, taken in costs.items():
            cost = ROWS[name][0](bench)
            if number:
                taken.append(cost)
                print(f"{name:45} {cost.rate:10,.0f} rows/s, {cost.cpu:5.2f} us", flush=True)
    return costs


def _print_medians(name: str, runs: list[Cost]) -> float:
    """Print the medians of a row; return its rate."""
    goal = ROWS[name][1]
    rate = statistics.median(one.rate for one in runs)
    cpu = statistics.median(one.cpu for one in runs)
    word = "" if not goal else "ok" if rate >= goal else "MISS"
    figures = f"{rate:10,.0f} rows/s, {cpu:5.2f} us of CPU a row, goal {goal:9,.0f} {word}"
    print(f"{name:45} {figures}", flush=True)
    return rate


if __name__ == "__main__":
    sys.exit(main())
