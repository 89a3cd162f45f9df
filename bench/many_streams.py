"""Three nodes with many streams: what an idle system takes, and how soon all streams are served
again after kill -9 of their leader.

python -m bench.many_streams [--streams 1000] [--seconds 30] [--kills 3]
"""

import argparse
import os
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.creations import requests
from bench.wire import Connection, Lane, publishes, pump
from core.storage.postgres.embedded.directory import processes_in
from tests.support.jetgate import JetgateServer
from tests.support.nodes import Nodes
from tests.support.pg import PostgresServer

NODES, WINDOW, MESSAGES = 3, 64, 3
_TICKS = os.sysconf("SC_CLK_TCK")


def fill(node: JetgateServer, count: int) -> None:
    """Create streams, a consumer of each, and some messages in each."""
    connection = Connection(node.address)
    connection.send(b"SUB _INBOX.c 1\r\nSUB _INBOX.p.* 2\r\n")
    connection.flush()
    for kind in ("stream", "consumer"):
        pump([Lane(connection, requests(kind, "S", count))], window=WINDOW)
        print(f"created {count} {kind}s", flush=True)
    pump([Lane(connection, _publishes(count, MESSAGES))], window=WINDOW)
    connection.close()


def _publishes(count: int, messages: int) -> list[bytes]:
    """Return so many publishes to each stream."""
    return [
        line
        for number in range(count)
        for line in publishes(b"S%d.a" % number, messages, b"x" * 128, b"_INBOX.p")
    ]


def processor_seconds(pids: list[int]) -> float:
    """What processes have taken of the processor, those that they have waited for included."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def idle(nodes: Nodes, data: Path, seconds: float) -> None:
    """Print what PostgreSQL, and each node, take of a core while nobody asks for anything."""
    print(f"idle for {seconds:g} s", flush=True)
    leader = nodes.leader
    pids = {"PostgreSQL": processes_in(data)}
    for number, node in enumerate((leader, *nodes.followers)):
        assert node.process is not None
        pids[f"node {number}" if number else "leader"] = [node.process.pid]
    before = {name: processor_seconds(found) for name, found in pids.items()}
    time.sleep(seconds)
    pids["PostgreSQL"] = processes_in(data)
    for name, found in pids.items():
        taken = processor_seconds(found) - before[name]
        print(f"{name:12}{100 * taken / seconds:6.1f} % of a core")


def settle(nodes: Nodes, count: int) -> float:
    """Kill the leader; the seconds until each stream has stored one more message for a node."""
    leader, other = nodes.leader, nodes.followers[0]
    connection = Connection(other.address)
    connection.send(b"SUB _INBOX.p.* 1\r\n")
    connection.flush()
    began = time.perf_counter()
    leader.kill()
    unserved = set(range(count))
    while unserved:
        for number in sorted(unserved):
            line = publishes(b"S%d.a" % number, 1, b"x", b"_INBOX.p")[0]
            connection.send(line.replace(b"_INBOX.p.0", b"_INBOX.p.%d" % number))
        unserved -= _acknowledged(connection, len(unserved))
    taken = time.perf_counter() - began
    connection.close()
    leader.start()
    return taken


def _acknowledged(connection: Connection, expected: int) -> set[int]:
    """Return which streams have acknowledged, until all have answered, or none does for 0.5 s."""
    connection.sock.settimeout(0.5)
    data = b""
    try:
        while data.count(b'"stream"') + data.count(b'"error"') < expected:
            data += connection.sock.recv(1 << 20)
    except TimeoutError:
        pass
    finally:
        connection.sock.settimeout(30)
    found = set()
    lines = data.split(b"\r\n")
    for head, body in pairwise(lines):
        if head.startswith(b"MSG ") and b'"seq"' in body and b'"error"' not in body:
            found.add(int(head.split(b" ")[1].rpartition(b".")[2]))
    return found


def main() -> None:
    """Start three nodes, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0] if __doc__ else "")
    parser.add_argument("--streams", type=int, default=1000, help="how many")
    parser.add_argument("--seconds", type=float, default=30.0, help="of idling")
    parser.add_argument("--kills", type=int, default=3, help="how many")
    options = parser.parse_args()
    with (
        PostgresServer(settings={"fsync": "on"}) as postgres,
        Nodes(postgres.fresh_database(), NODES) as nodes,
    ):
        fill(nodes.leader, options.streams)
        idle(nodes, postgres.server.data, options.seconds)
        taken = [settle(nodes, options.streams) for _ in range(options.kills)]
        if taken:
            print(f"settled: median {median(taken):.2f} s, worst {max(taken):.2f} s")


if __name__ == "__main__":
    main()
