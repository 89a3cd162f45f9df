"""The times that a server with JetStream and an empty store takes to start and to exit."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from bench.load import Measure, stream
from bench.peers import Peer
from bench.wire import Connection, one_by_one, publishes
from tests.support.dropin import command, environment
from tests.support.pg import PostgresServer
from tests.support.ports import free_port

_COMMANDS = {"nats": "nats-server", "jetgate": "jetgate-nats-server"}
_LIMIT_S = 120.0


@dataclass(slots=True)
class Starting:
    """Times from exec to the server's first INFO and first stored message, and from SIGTERM to
    exit.

    All are in microseconds. `busy`: a loop keeps every core busy. `dev`: the command is `jetgate
    dev`, and `http` is the time until `/readyz` answers with status 503. `serve`: the command is
    `jetgate serve`, over a PostgreSQL that is already running, with a new database each time.
    """

    peer: str
    busy: bool = False
    dev: bool = False
    serve: bool = False

    def prepare(self, peer: Peer, scale: float) -> None:
        """Start the server once, so that the first start on a machine is not measured."""
        self.run(peer, scale, 0)

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        with _busy_cores((os.cpu_count() or 1) if self.busy else 0), _database(self.serve) as dsn:
            return self._measured(dsn)

    def _measured(self, dsn: str) -> Measure:
        place = tempfile.mkdtemp(prefix="bench-start-")
        port, http_port = free_port(), free_port()
        line = [*command(_COMMANDS[self.peer]), "-a", "127.0.0.1", "-p", str(port)]
        line += ["-js", "-sd", place]
        if self.dev:
            line = [sys.executable, "-m", "jetgate", "dev", "--data", place]
        elif self.serve:
            line = [sys.executable, "-m", "jetgate", "serve", "--dsn", dsn]
        if self.dev or self.serve:
            line += ["--nats-port", str(port), "--http-port", str(http_port)]
        log = tempfile.TemporaryFile()  # noqa: SIM115 (closed below)
        began = time.perf_counter()
        process = subprocess.Popen(line, stderr=log, stdout=log, env=environment())
        taken: Measure = {}
        try:
            _greeted(port)
            taken["accept"] = (time.perf_counter() - began) * 1e6
            if self.dev:
                _request_while_starting(http_port)
                taken["http"] = (time.perf_counter() - began) * 1e6
            connection = Connection(("127.0.0.1", port))
            stream(connection, "START")
            connection.send(b"SUB _INBOX.start.* 1\r\n")
            one_by_one(connection, publishes(b"START.a", 1, b"x" * 128, b"_INBOX.start"))
            taken["ack"] = (time.perf_counter() - began) * 1e6
            connection.close()
            began = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            process.wait(_LIMIT_S)
            taken["exit"] = (time.perf_counter() - began) * 1e6
        finally:
            process.kill()
            process.wait()
            log.close()
            shutil.rmtree(place)
        return taken


def _request_while_starting(port: int) -> None:
    """Request `/readyz` once; it must answer with status 503."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LIMIT_S)
    connection.request("GET", "/readyz")
    assert connection.getresponse().status == HTTPStatus.SERVICE_UNAVAILABLE
    connection.close()


def _greeted(port: int) -> None:
    """Wait until the server sends INFO to a client."""
    deadline = time.perf_counter() + _LIMIT_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=_LIMIT_S) as client:
                assert client.recv(4096).startswith(b"INFO")
                return
        except ConnectionRefusedError:
            assert time.perf_counter() < deadline, "it does not listen"
            time.sleep(0.001)


@contextmanager
def _database(wanted: bool) -> Iterator[str]:
    """Run a database for `jetgate serve` and yield its connection string; yield "" if not
    `wanted`.
    """
    if not wanted:
        yield ""
        return
    with PostgresServer(settings={"fsync": "on"}) as postgres:
        yield postgres.fresh_database()


@contextmanager
def _busy_cores(count: int) -> Iterator[None]:
    """Keep `count` cores busy during the `with` block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
