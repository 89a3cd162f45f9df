"""The cluster of a run: one PostgreSQL with fsync, and `jetgate serve` nodes behind proxies."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

from core.storage.postgres.embedded.directory import SOCKET_NAME
from tests.histories import power
from tests.histories.guardless import CONTROL_VARIABLE
from tests.histories.proxy import Proxy, RouteProxy
from tests.support import nodes
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT, _descendants
from tests.support.pg import PostgresServer
from tests.support.ports import held_port
from tests.support.scratch import scratch
from tests.support.sockets import has_port

Address = tuple[str, int]

_TRACEBACK = "Traceback (most recent call last)"


class Node:
    """One `jetgate serve` process, which uses the same ports at each start.

    Args:
        number: Index of the node, from 0.
        control: Name of the guard to remove from the node (`tests.histories.controls`); empty for
            none.
        peer: Returns the name of the node that connects from a local port; None for other clients.

    Attributes:
        proxy: The proxy between the node and PostgreSQL.
        routes: The proxy between its peers and the node.
        skew: Seconds to add to its clock; effective from its next start.
    """

    def __init__(
        self,
        number: int,
        socket_path: str,
        database: str,
        control: str,
        peer: Callable[[int], str | None],
    ) -> None:
        self.name = f"node{number}"
        self.dir = scratch("histories-node-")
        self.proxy = Proxy(socket_path)
        self._ports = [held_port(), held_port(), held_port()]
        self.nats, self.http, self._listen = (
            ("127.0.0.1", held.getsockname()[1]) for held in self._ports
        )
        self.routes = RouteProxy(self._listen[1], peer)
        self._dsn = f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{database}?sslmode=disable"
        self._control = control
        self.skew = 0
        self._failures: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process without waiting for it; it opens its ports when it is ready."""
        command = [sys.executable, "-m", *self._program(), "serve", "--dsn", self._dsn]
        command += ["--data", str(self.dir / "data"), "--wait-for-db", "60"]
        command += ["--nats-port", str(self.nats[1]), "--http-port", str(self.http[1])]
        command += ["--cluster-listen", f"127.0.0.1:{self._listen[1]}"]
        command += ["--cluster-advertise", f"127.0.0.1:{self.routes.port}"]
        with (self.dir / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, CONTROL_VARIABLE: self._control},
            )

    def _program(self) -> list[str]:
        """Return the arguments of `python -m` that run the command `jetgate`."""
        if self._control:
            return ["tests.histories.guardless", str(self.skew)]
        return ["tests.support.wrong_clock", str(self.skew)] if self.skew else ["jetgate"]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process if it runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def end(self, number: signal.Signals, within: float = 60.0) -> None:
        """Send a signal to the process and wait until it ends.

        After `within` seconds kill it and raise TimeoutExpired.
        """
        self._notice()
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    @property
    def is_running(self) -> bool:
        self._notice()
        return self._process is not None

    def connects_from(self, port: int) -> bool:
        """Return True if the process has a TCP connection with this local port."""
        return self._process is not None and has_port(self._process.pid, port)

    def addresses(self) -> Iterator[tuple[Address, Address]]:
        """Return the NATS and HTTP address of this node, for a client that uses no other node."""
        return iter(((self.nats, self.http),))

    def failures(self) -> list[str]:
        """Return a text for each exit of the node that no fault caused, with the end of its log."""
        self._notice()
        return self._failures

    def _notice(self) -> None:
        if self._process is not None and (code := self._process.poll()) is not None:
            self._process = None
            self._failures.append(f"{self.name} ended with {code}: {self.log()[-2000:]}")

    def log(self) -> str:
        """Return the output of the node since its first start."""
        with contextlib.suppress(FileNotFoundError):
            return (self.dir / "log").read_text(errors="replace")
        return ""

    def leads(self, stream: str) -> bool:
        """Return True if the node reports itself as the leader of a stream."""
        return nodes.leads(self.nats, stream, timeout=1)

    def leads_something(self) -> bool:
        """Return True if the node owns lease groups, so that it can lead streams."""
        url = "http://{}:{}/metrics".format(*self.http)
        with contextlib.suppress(OSError, HTTPException), urlopen(url, timeout=1) as answer:
            return re.search(rb"\njetgate_lease_groups [1-9]", answer.read()) is not None
        return False

    def close(self) -> None:
        """Kill the node and delete its data."""
        self.send(signal.SIGCONT)
        self.end(signal.SIGKILL)
        self.proxy.__exit__()
        self.routes.__exit__()
        for held in self._ports:
            held.close()
        shutil.rmtree(self.dir, ignore_errors=True)


class Cluster:
    """Nodes over one database; a context manager that starts and ends them.

    After the start each node owns some lease groups.

    Args:
        count: Number of nodes.
        control: Name of the guard to remove from the nodes; empty for none.
    """

    def __init__(self, count: int, control: str = "") -> None:
        self.postgres = PostgresServer(settings={"fsync": "on"})
        self.nodes: list[Node] = []
        self._count, self._control = count, control
        self._asked = 0
        self.dsn = ""

    def __enter__(self) -> Self:
        self.postgres.start()
        self.dsn = self.postgres.fresh_database()
        directory = parse_qs(urlsplit(self.dsn).query)["host"][0]
        database = urlsplit(self.dsn).path.removeprefix("/")
        for number in range(self._count):
            path = str(Path(directory) / SOCKET_NAME)
            self.nodes.append(Node(number, path, database, self._control, self._peer))
        self.nodes[0].start()
        self.wait_for(self.nodes[:1])
        for node in self.nodes[1:]:
            node.start()
        self.wait_for(self.nodes)
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.close()
        self.postgres.stop()

    def addresses(self) -> Iterator[tuple[Address, Address]]:
        """Return the NATS and HTTP address of each node, in the order in which a client tries them.

        Each call begins with another node, so that clients are distributed over all nodes.
        """
        self._asked += 1
        first = self._asked % len(self.nodes)
        nodes = self.nodes[first:] + self.nodes[:first]
        return ((node.nats, node.http) for node in nodes)

    def wait_for(self, nodes: Sequence[Node]) -> None:
        """Wait until each of these nodes owns lease groups. Raises AssertionError if one exits."""

        def look() -> bool:
            return bool(self.failures()) or all(node.leads_something() for node in nodes)

        eventually(look, within=180)
        assert not self.failures(), self.failures()

    def _peer(self, port: int) -> str | None:
        return next((node.name for node in self.nodes if node.connects_from(port)), None)

    def leader(self, stream: str) -> Node | None:
        """Return the first running node that reports itself as leader of a stream, or None."""
        return next((node for node in self.nodes if node.is_running and node.leads(stream)), None)

    def failures(self) -> list[str]:
        """Return a text for each exit of a node that no fault caused."""
        return [failure for node in self.nodes for failure in node.failures()]

    def tracebacks(self) -> list[str]:
        """Return the log lines that begin a traceback of an unhandled exception, of all nodes."""
        lines = ((node.name, line) for node in self.nodes for line in node.log().splitlines())
        return [f"{name} logged {line}" for name, line in lines if _TRACEBACK in line]

    def kill_postgres(self, number: signal.Signals) -> None:
        """Send a signal to PostgreSQL, such as SIGQUIT for an immediate shutdown.

        A watcher in the test process starts PostgreSQL again.
        """
        pid = self.postgres.server.pid
        if pid is None:
            return
        family = [pid, *_descendants(pid)] if number == signal.SIGKILL else [pid]
        for victim in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, number)

    def switch_off(self) -> None:
        """Simulate a power cut of PostgreSQL with `power.simulate_failure`.

        Raises the errors of that function if PostgreSQL is unavailable.
        """
        server = self.postgres.server
        if server.pid is not None:
            power.simulate_failure(server.pid, self.dsn, server.data)
