"""The memory of a node and its time to start after kill -9: `python -m bench.memory`.

Each case has a node of its own and a PostgreSQL that is not counted. The output is the resident
size after the load, its peak, and the limit; `--scale` reduces the loads, but not the limits.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.wire import Connection, LoadError, Sender, pump
from core.units import NANOS_PER_SECOND
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer

BLOCK = 100_000
WINDOW = 8000
RATE, SECONDS = 20_000, 20
PAYLOAD = b" 128\r\n%s\r\n" % (b"x" * 128)


@contextmanager
def node() -> Iterator[JetgateServer]:
    """Start a node and a PostgreSQL that keeps running when the node is killed."""
    directory = Path(tempfile.mkdtemp(prefix="jetgate-bench-"))
    command = [sys.executable, "-m", "bench.database", str(directory / "pg")]
    pipe = subprocess.PIPE
    database = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert database.stdout is not None, "a pipe was asked for"
    server = JetgateServer(dsn=database.stdout.readline().strip())
    try:
        yield server.start()
    finally:
        server.stop()
        database.communicate()
        shutil.rmtree(directory, ignore_errors=True)


def memory(server: JetgateServer) -> tuple[float, float]:
    """Return the resident size of the server's process and its peak, in MiB."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    figures = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if "kB" in line}
    return int(figures["VmRSS"]) / 1024, int(figures["VmHWM"]) / 1024


def load(server: JetgateServer | NatsServer, count: int, message: Callable[[int], bytes]) -> float:
    """Publish `count` messages to stream M; return messages per second.

    `message(i)` is the complete PUB or HPUB of message i.
    """
    connection = Connection(server.address)
    connection.send(b"SUB _INBOX.m.* 1\r\n")
    seconds = 0.0
    for start in range(0, count, BLOCK):
        block = [message(i) for i in range(start, min(count, start + BLOCK))]
        seconds += pump([Sender(connection, block)], window=WINDOW, limit=600)
    connection.close()
    return count / seconds


def create(server: JetgateServer | NatsServer, **config: object) -> None:
    """Create stream M."""
    connection = Connection(server.address)
    connection.api("STREAM.CREATE.M", {"name": "M", "subjects": ["M.>"], **config})
    connection.close()


@dataclass(slots=True)
class Figure:
    """A measured number with its upper limit; both have the unit `unit`."""

    name: str
    value: float
    limit: float
    unit: str
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        word = "ok" if self.ok else "MISS"
        return (
            f"{self.name:58} {self.value:8.1f} of {self.limit:5g} {self.unit:4} {word}  {self.note}"
        )


def subjects(count: int, over: int, limit: float) -> Iterator[Figure]:
    """Measure memory with `count` messages on `over` subjects, before and after a restart.

    `limit` is in MiB.
    """
    with node() as server:
        create(server)
        rate = load(server, count, lambda i: b"PUB M.%d _INBOX.m.%d%s" % (i % over, i, PAYLOAD))
        size, peak = memory(server)
        name = f"{count:,} messages on {over:,} subjects"
        yield Figure(name, size, limit, "MiB", f"peak {peak:.0f}, {rate:,.0f}/s")
        server.kill()
        seconds = serving(server)
        loaded = [line for line in server.log().splitlines() if "loaded in" in line][-1:]
        note = loaded[0].rpartition("loaded in ")[2] + " of it loading" if loaded else ""
        yield Figure(name + ", kill -9 to first ack", seconds, 5, "s", note)
        known = subjects_known(server)
        size, peak = memory(server)
        note = f"peak {peak:.0f}; subjects known {known:.1f} s after that ack"
        yield Figure(name + ", after the restart", size, limit, "MiB", note)


def subjects_known(server: JetgateServer) -> float:
    """Return the seconds until STREAM.INFO answers, for which the node must have loaded all
    subjects.
    """
    began = time.perf_counter()
    connection = Connection(server.address)
    connection.api("STREAM.INFO.M", {})
    connection.close()
    return time.perf_counter() - began


def serving(server: JetgateServer) -> float:
    """Start a node; return the seconds until it acknowledges a publish to stream M."""
    began = time.perf_counter()
    server.start()

    def acknowledged() -> bool:
        try:
            connection = Connection(server.address)
            connection.send(b"SUB _INBOX.m.* 1\r\n")
            pump([Sender(connection, [b"PUB M.1 _INBOX.m.1" + PAYLOAD])], window=1)
            connection.close()
        except (OSError, LoadError):
            return False
        return True

    eventually(acknowledged, within=120)
    return time.perf_counter() - began


def message_ids(count: int, limit: float) -> Iterator[Figure]:
    """Measure memory with `count` message ids in the deduplication window; `limit` is in MiB."""
    with node() as server:
        create(server, duplicate_window=3600 * NANOS_PER_SECOND)

        def message(i: int) -> bytes:
            head = b"NATS/1.0\r\nNats-Msg-Id: %022d\r\n\r\n" % i
            sizes = b"%d %d" % (len(head), len(head) + 4)
            return b"HPUB M.%d _INBOX.m.%d %s\r\n%sdata\r\n" % (i % 1000, i, sizes, head)

        rate = load(server, count, message)
        size, peak = memory(server)
        note = f"peak {peak:.0f}, {rate:,.0f}/s"
        yield Figure(f"{count:,} ids in the duplicate window", size, limit, "MiB", note)


def many_streams(streams: int, consumers: int, limit: float) -> Iterator[Figure]:
    """Measure memory with many streams and consumers, at a steady rate of publishes to all streams.

    `limit` is in MiB.
    """
    with node() as server:
        connection = Connection(server.address)
        for i in range(streams):
            name = f"S{i}"
            connection.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"]})
            for j in range(consumers):
                config = {"durable_name": f"C{j}", "ack_policy": "explicit"}
                request = {"stream_name": name, "config": config}
                connection.api(f"CONSUMER.CREATE.{name}.C{j}", request)
        rate = steady(connection, streams)
        size, peak = memory(server)
        name = f"{streams:,} streams x {consumers} consumers"
        yield Figure(name, size, limit, "MiB", f"peak {peak:.0f}")
        # The rate includes the wait for the last answer: a delay of one second lowers it by 5 %.
        yield Figure(name + ", missing of 20,000 publishes/s", RATE - rate, RATE / 20, "/s")


def steady(connection: Connection, streams: int) -> float:
    """Publish RATE messages per second for SECONDS; return the acknowledged messages per second."""
    connection.send(b"SUB _INBOX.m.* 1\r\n")
    count = RATE * SECONDS
    block = [b"PUB S%d.a _INBOX.m.%d%s" % (i % streams, i, PAYLOAD) for i in range(count)]
    return count / pump([Sender(connection, block)], window=RATE, rate=RATE)


def main() -> int:
    """Run the chosen cases and print the results.

    Returns the exit code: 1 if `--check` is given and a limit is exceeded, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the messages")
    parser.add_argument("--only", default="", help="cases whose key holds this")
    parser.add_argument("--check", action="store_true", help="fail when a limit is passed")
    chosen = parser.parse_args()

    def scaled(count: int) -> int:
        return max(1, int(count * chosen.scale))

    million = 1_000_000
    cases: dict[str, Callable[[], Iterator[Figure]]] = {
        "subjects-1000": lambda: subjects(scaled(10 * million), 1000, 300),
        "subjects-100000": lambda: subjects(scaled(10 * million), 100_000, 300),
        "subjects-1000000": lambda: subjects(scaled(10 * million), scaled(million), 700),
        "ids": lambda: message_ids(scaled(5 * million), 800),
        "streams": lambda: many_streams(scaled(1000), 10, 400),
    }
    figures: list[Figure] = []
    for key, case in cases.items():
        if chosen.only == key or (chosen.only not in cases and chosen.only in key):
            for figure in case():
                figures.append(figure)
                print(figure, flush=True)
    if chosen.only or chosen.scale != 1:
        return 0 if all(f.ok for f in figures) or not chosen.check else 1
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    table = [{"name": f.name, "value": f.value, "limit": f.limit, "ok": f.ok} for f in figures]
    (results / "memory.json").write_text(json.dumps(table, indent=2) + "\n")
    return 0 if all(f.ok for f in figures) or not chosen.check else 1


if __name__ == "__main__":
    sys.exit(main())
