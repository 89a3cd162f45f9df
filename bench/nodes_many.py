"""A thousand streams on several nodes: the time to recover after a kill, and the cost without
load.
"""

import select
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.creations import listen, requests
from bench.processor import family, own, used
from bench.wire import CHUNK, Address, Connection, Sender, pump
from tests.support.eventually import eventually
from tests.support.nodes import Nodes, numbers
from tests.support.pg import PostgresServer
from tests.support.sql import on

MESSAGES = 10
AGAIN_S, LOST_S = 0.1, 3.0
"""Seconds until a refused request is repeated, and until an unanswered one is.

An unanswered request went to a leader that has ended.
"""
REST_S, IDLE_S = 20, 30
EVEN = 0.1
"""Largest accepted deviation of a node's number of streams, as a fraction of an even share."""
_LED = """
    select count(*) from jetgate_store.stream join jetgate_store.lease using (lease_group)
     where not dropped and stream > 0 group by node order by node
"""


def create(nodes: Nodes, streams: int, consumers: int) -> None:
    """Create streams at all nodes, each with some messages, and a consumer for the first
    `consumers`.
    """
    connections = [Connection(node.address) for node in nodes.all]
    listen(connections)
    for kind, count in (("stream", streams), ("consumer", consumers)):
        shares = requests(kind, "M", count, len(connections))
        pump([Sender(*each) for each in zip(connections, shares, strict=True)], window=64)
    found = connections[0].api("STREAM.NAMES")["total"]
    assert found == streams, found
    messages = [
        b"PUB M%d.a _INBOX.0 5\r\nhello\r\n" % number
        for _ in range(MESSAGES)
        for number in range(streams)
    ]
    pump([Sender(connections[0], messages)], window=2000)
    for connection in connections:
        connection.close()
    nodes.settled(level=False)
    print(f"{streams} streams, {consumers} consumers, {len(messages)} messages", flush=True)


def measure_takeover(nodes: Nodes, streams: int, count: int) -> None:
    """Kill nodes in rotation; print the time until the other nodes serve each stream again."""
    taken = []
    for number in range(count):
        victim = nodes.all[number % len(nodes.all)]
        led = numbers(victim)["jetgate_lease_groups"]
        others = [node.address for node in nodes.all if node is not victim]
        checks = [_Check(address, streams, place) for place, address in enumerate(others)]
        began = time.perf_counter()
        victim.kill()
        _until_settled(checks)
        taken.append(time.perf_counter() - began)
        print(f"settled {number + 1}: {taken[-1]:.2f} s, {led:.0f} groups led anew", flush=True)
        victim.start()
        nodes.settled(level=False)
        _print_placement(nodes)
    if taken:
        print(
            f"{streams} streams answer and store at the other nodes after kill -9 of one:"
            f" {median(taken):.2f} s (median), {max(taken):.2f} s (worst)",
            flush=True,
        )


def _print_placement(nodes: Nodes) -> None:
    """Wait until all nodes own nearly the same number of streams; print the time and the
    numbers.
    """

    def even_counts() -> list[int] | None:
        counts = [count for (count,) in on(nodes.dsn, _LED)]
        is_even = max(counts) - min(counts) <= EVEN * sum(counts) / len(nodes.all)
        return counts if is_even and len(counts) == len(nodes.all) else None

    began = time.perf_counter()
    counts = eventually(even_counts, within=120)
    taken = time.perf_counter() - began
    print(f"  spread after {taken:.2f} s more: streams of the nodes {counts}", flush=True)


class _Check:
    """A STREAM.INFO request and a publish for each stream at one node, repeated until both
    succeed.
    """

    def __init__(self, address: Address, streams: int, place: int) -> None:
        self.connection = Connection(address)
        self._inbox = f"_INBOX.s{place}"
        self.connection.send(f"SUB {self._inbox}.* 1\r\n".encode())
        self.connection.flush()
        # The requests without a good answer, each with the time when it is sent again.
        self.open = {f"{kind}{number}": 0.0 for number in range(streams) for kind in "ip"}
        self._rest = b""

    def ask(self, now: float) -> None:
        """Send the requests that are due at `now`, in seconds of `time.perf_counter`.

        Unanswered requests are due again after `LOST_S` seconds.
        """
        parts = []
        for key, due in self.open.items():
            if due <= now:
                to = "$JS.API.STREAM.INFO.M" + key[1:] if key[0] == "i" else f"M{key[1:]}.a"
                parts.append(f"PUB {to} {self._inbox}.{key} 0\r\n\r\n")
                self.open[key] = now + LOST_S
        self.connection.send("".join(parts).encode())

    def read(self) -> None:
        """Read answers and remove the requests that succeeded."""
        whole, _, self._rest = (self._rest + self.connection.sock.recv(CHUNK)).rpartition(b"\r\n")
        before = b""
        for line in whole.split(b"\r\n"):
            if line.startswith(b"{") and before.startswith(b"MSG "):
                key = before.split(b" ")[1].rpartition(b".")[2].decode()
                if b'"error"' not in line:
                    self.open.pop(key, None)
                elif key in self.open:
                    self.open[key] = time.perf_counter() + AGAIN_S
            before = line
        if before.startswith(b"MSG "):  # its payload has not arrived yet
            self._rest = before + b"\r\n" + self._rest


def _until_settled(checks: Sequence[_Check]) -> None:
    poll = select.epoll()
    by_fd = {check.connection.sock.fileno(): check for check in checks}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    deadline = time.perf_counter() + 120
    while any(check.open for check in checks):
        now = time.perf_counter()
        assert now < deadline, [len(check.open) for check in checks]
        for check in checks:
            check.ask(now)
        for fd, _ in poll.poll(0.05):
            by_fd[fd].read()
    poll.close()
    for check in checks:
        check.connection.close()


def idle(postgres: PostgresServer, nodes: Nodes) -> None:
    """Print the share of a core that PostgreSQL and each node use without requests."""
    nodes.settled(level=False)
    time.sleep(REST_S)
    root = int((postgres.server.data / "postmaster.pid").read_text().split()[0])
    roots = {"PostgreSQL": root, **{f"node {i}": n.pid for i, n in enumerate(nodes.all)}}
    before = {name: used(pid) for name, pid in roots.items()}
    each = {pid: own(pid) for pid in family(root)}
    began = time.perf_counter()
    time.sleep(IDLE_S)
    taken = time.perf_counter() - began
    print(f"idle for {taken:.0f} s, of a core:")
    for name, pid in roots.items():
        print(f"  {name:12} {(used(pid) - before[name]) / taken:6.2%}")
    busiest = {pid: own(pid) - each.get(pid, 0.0) for pid in family(root)}
    for pid in sorted(busiest, key=lambda pid: -busiest[pid])[:5]:
        print(f"    {busiest[pid] / taken:6.2%} {_title(pid)}", flush=True)


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()[:60]
    except OSError:
        return "ended"
