"""Measures the façade's WebSocket: `python -m bench.websocket`; `--help` shows the options.

Fan-out of one subject to many readers, beside nats-server's own WebSocket port: messages received
per second, by all readers together. Then how late a message reaches one of them at a steady rate,
and what idle sockets cost.
"""

import argparse
import gc
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import median

from bench.load import stream
from bench.wire import CHUNK, Address, Connection, LoadError, percentile
from tests.support.jetgate import JetgateServer
from tests.support.memory import resident
from tests.support.natsserver import NatsServer
from tests.support.websocket import frame, request

PAYLOAD = b"x" * 128
AHEAD = 2000
SECONDS = 10


class Reader:
    """A WebSocket that counts what it receives by a mark that each message has once."""

    def __init__(self, address: Address, path: str, more: dict[str, str | None]) -> None:
        self.sock = socket.create_connection(address, timeout=30)
        self.sock.sendall(request(more, first=f"GET {path} HTTP/1.1"))
        self.mark = b""
        self.seen = 0
        self._rest = b""
        self.until(b"\r\n\r\n")

    def until(self, end: bytes) -> bytes:
        """Read until this has come."""
        data = b""
        while end not in data:
            piece = self.sock.recv(CHUNK)
            if not piece:
                raise LoadError(f"closed: {data[-200:]!r}")
            data += piece
        return data

    def take(self) -> None:
        """Read what is there, and count."""
        data = self.sock.recv(CHUNK)
        if not data:
            raise LoadError("closed")
        data = self._rest + data
        self.seen += data.count(self.mark)
        self._rest = data[-len(self.mark) + 1 :]


def of_nats(address: Address, subject: str) -> Reader:
    """A subscriber on nats-server's WebSocket port."""
    reader = Reader(address, "/", {})
    reader.sock.sendall(
        frame(b'CONNECT {"verbose":false}\r\nSUB %s 1\r\nPING\r\n' % subject.encode())
    )
    reader.until(b"PONG\r\n")
    reader.mark = b"MSG "
    return reader


def of_jetgate(address: Address, name: str, batch: int) -> Reader:
    """An ordered feed of a stream on `/v1/ws`."""
    reader = Reader(address, "/v1/ws", {"Sec-WebSocket-Protocol": "js.v1.json"})
    wanted = {"type": "sub", "id": 1, "sid": 1, "stream": name, "batch": batch}
    reader.sock.sendall(frame(json.dumps(wanted).encode(), 0x81))
    reader.until(b'"recovered":true')
    reader.mark = b'"seq":'
    return reader


def fan_out(sender: Connection, subject: str, readers: Sequence[Reader], count: int) -> float:
    """Publish `count` messages; return deliveries per second."""
    message = b"PUB %s %d\r\n%s\r\n" % (subject.encode(), len(PAYLOAD), PAYLOAD)
    block = memoryview(message * (AHEAD + 1))
    size, sent = len(message), 0
    poll = select.epoll()
    by_fd = {reader.sock.fileno(): reader for reader in readers}
    for reader in readers:
        reader.sock.setblocking(False)
        poll.register(reader.sock.fileno(), select.EPOLLIN)
    sender.sock.setblocking(False)
    behind = set(by_fd)
    gc.disable()
    start = time.perf_counter()
    try:
        while behind:
            allowed = min(count, min(reader.seen for reader in readers) + AHEAD) * size
            if sent < allowed:
                at = sent % size
                with suppress(BlockingIOError):
                    sent += sender.sock.send(block[at : at + min(allowed - sent, CHUNK)])
            events = poll.poll(0.001 if sent < count * size else 20)
            if not events and sent >= count * size:
                raise LoadError(f"received {[reader.seen for reader in readers]} of {count}")
            for fd, _ in events:
                by_fd[fd].take()
                if by_fd[fd].seen >= count:
                    behind.discard(fd)
        return count * len(readers) / (time.perf_counter() - start)
    finally:
        gc.enable()
        poll.close()
        sender.sock.settimeout(30)
        for reader in readers:
            reader.sock.close()


def fan_outs(runs: int, count: int, size: int) -> None:
    """Compare, in turns."""
    options: dict[str, str | int | bool] = {"websocket": "{ port: -1, no_tls: true }"}
    rates: dict[str, list[float]] = {"nats": [], "batched": [], "one each": []}
    with NatsServer(options) as nats, JetgateServer() as jetgate:
        ports = next(nats.dir.glob("*.ports"))
        url = json.loads(ports.read_text())["websocket"][0]
        host, port = url.split("://")[1].rsplit(":", 1)
        for run in range(runs):
            name = f"FAN{run}"
            makers: dict[str, tuple[Address, Callable[[str], Reader]]] = {
                "nats": (nats.address, lambda n: of_nats((host, int(port)), f"{n}.a")),
                "batched": (jetgate.address, lambda n: of_jetgate(jetgate.http, n, 1000)),
                "one each": (jetgate.address, lambda n: of_jetgate(jetgate.http, n, 1)),
            }
            for kind, (address, make) in makers.items():
                sender = Connection(address)
                mine = name + kind[:1].upper()
                stream(sender, mine)
                readers = [make(mine) for _ in range(size)]
                rates[kind].append(fan_out(sender, f"{mine}.a", readers, count))
                sender.api(f"STREAM.DELETE.{mine}")
                sender.close()
    reference = median(rates["nats"])
    for kind, taken in rates.items():
        middle = median(taken)
        print(f"fan-out to {size}, {kind}: {middle:,.0f}/s, {middle / reference:.2f}")


def lateness(rate: int, seconds: int) -> None:
    """How long a message takes from PUB to a reader, at a steady rate."""
    with JetgateServer() as server:
        sender = Connection(server.address)
        stream(sender, "LATE")
        reader = of_jetgate(server.http, "LATE", 1000)
        taken: list[float] = []
        count = rate * seconds

        def read() -> None:
            data = b""
            while len(taken) < count:
                data += reader.sock.recv(CHUNK)
                now = time.perf_counter()
                while (at := data.find(b'"text":"')) >= 0 and (end := data.find(b'"', at + 8)) > 0:
                    taken.append(now - float(data[at + 8 : end].split(b"_")[0]))
                    data = data[end + 1 :]

        thread = threading.Thread(target=read)
        thread.start()
        begin = time.perf_counter()
        for number in range(count):
            wait = begin + number / rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            payload = (b"%.6f_" % time.perf_counter()).ljust(128, b"x")
            sender.send(b"PUB LATE.a 128\r\n%s\r\n" % payload)
        thread.join(30)
        p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
        print(f"PUB to reader at {rate}/s: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")


def idle(count: int, *, each: bool) -> None:
    """What subscribed sockets cost that get nothing; `each`: a filter of its own for every one."""
    with JetgateServer() as server:
        sender = Connection(server.address)
        stream(sender, "IDLE")
        before = resident(server.pid)
        begin = time.perf_counter()
        sockets = []
        for number in range(count):
            reader = Reader(server.http, "/v1/ws", {"Sec-WebSocket-Protocol": "js.v1.json"})
            wanted: dict[str, object] = {"type": "sub", "id": 1, "sid": 1, "stream": "IDLE"}
            if each:
                wanted["filter"] = f"IDLE.{number}"
            reader.sock.sendall(frame(json.dumps(wanted).encode(), 0x81))
            reader.until(b'"recovered":true')
            sockets.append(reader)
        seconds = time.perf_counter() - begin
        grown = resident(server.pid) - before
        kind = "a filter each" if each else "one stream"
        print(f"{count} idle sockets, {kind}: {grown / 2**20:,.0f} MiB more, {seconds:.1f} s")
        for reader in sockets:
            reader.sock.close()


def main() -> None:
    """Measure what was chosen."""
    parser = argparse.ArgumentParser(prog="python -m bench.websocket", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--count", type=int, default=20_000, help="messages of a fan-out")
    parser.add_argument("--readers", type=int, default=100)
    parser.add_argument("--idle", type=int, default=5000, help="idle sockets; needs ulimit -n")
    parser.add_argument("--only", choices=("fan-out", "lateness", "idle", "idle-each"))
    chosen = parser.parse_args()
    if chosen.only in (None, "fan-out"):
        fan_outs(chosen.runs, chosen.count, chosen.readers)
    if chosen.only in (None, "lateness"):
        lateness(1000, SECONDS)
    if chosen.only in (None, "idle"):
        idle(chosen.idle, each=False)
    if chosen.only in (None, "idle-each"):
        idle(chosen.idle, each=True)


if __name__ == "__main__":
    main()
