"""How soon a server with JetStream and an empty store is there, and gone again."""

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

from bench.load import Measure, stream
from bench.peers import Peer
from bench.wire import Connection, one_by_one, publishes
from tests.support.dropin import command, environment
from tests.support.ports import free_port

_COMMANDS = {"nats": "nats-server", "jetgate": "jetgate-nats-server"}
_PATIENCE_S = 120.0


@dataclass(slots=True)
class Starting:
    """From exec to the first greeting and the first stored message; from SIGTERM to the end.

    `busy`: every core has something else to do.
    """

    peer: str
    busy: bool = False

    def prepare(self, peer: Peer, scale: float) -> None:
        """Start once: what a first start on a machine prepares is not measured."""
        self._measured()

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        with _busy_cores((os.cpu_count() or 1) if self.busy else 0):
            return self._measured()

    def _measured(self) -> Measure:
        place = tempfile.mkdtemp(prefix="bench-start-")
        port = free_port()
        line = [*command(_COMMANDS[self.peer]), "-a", "127.0.0.1", "-p", str(port)]
        log = tempfile.TemporaryFile()  # noqa: SIM115 (closed below)
        began = time.perf_counter()
        process = subprocess.Popen(
            [*line, "-js", "-sd", place], stderr=log, stdout=log, env=environment()
        )
        try:
            _greeted(port)
            accept = time.perf_counter() - began
            connection = Connection(("127.0.0.1", port))
            stream(connection, "START")
            connection.send(b"SUB _INBOX.start.* 1\r\n")
            one_by_one(connection, publishes(b"START.a", 1, b"x" * 128, b"_INBOX.start"))
            ack = time.perf_counter() - began
            connection.close()
            began = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            process.wait(_PATIENCE_S)
            end = time.perf_counter() - began
        finally:
            process.kill()
            process.wait()
            log.close()
            shutil.rmtree(place)
        return {"accept": accept * 1e6, "ack": ack * 1e6, "exit": end * 1e6}


def _greeted(port: int) -> None:
    """Wait until a client is greeted."""
    deadline = time.perf_counter() + _PATIENCE_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S) as client:
                assert client.recv(4096).startswith(b"INFO")
                return
        except ConnectionRefusedError:
            assert time.perf_counter() < deadline, "it does not listen"
            time.sleep(0.001)


@contextmanager
def _busy_cores(count: int) -> Iterator[None]:
    """Keep so many cores busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
