"""The loads of WebSocket feeds: many readers, the latency of one reader, the cost of idle
readers.
"""

import gc
import json
import re
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from bench.http_wire import HEAD_END, http_address
from bench.load import Measure, stream
from bench.peers import Peer
from bench.wire import CHUNK, Address, Connection, LoadError, percentile
from tests.support.memory import resident
from tests.support.natsserver import NatsServer
from tests.support.websocket import frame, request

PAYLOAD = b"x" * 128
AHEAD = 2000
READERS = 100
SECONDS = 5
WAVE = 100


class Reader:
    """A WebSocket client that counts received messages by a text that each message contains once.

    The constructor sends the handshake; the caller reads the answer to it.
    """

    def __init__(self, address: Address, path: str, more: dict[str, str | None]) -> None:
        self.sock = socket.create_connection(address, timeout=30)
        self.sock.sendall(request(more, first=f"GET {path} HTTP/1.1"))
        self.mark = b""
        self.seen = 0
        self.subscribed = b""
        self._rest = b""

    def until(self, end: bytes) -> bytes:
        """Read until the bytes `end` have arrived; return all bytes read."""
        data = b""
        while end not in data:
            piece = self.sock.recv(CHUNK)
            if not piece:
                raise LoadError(f"closed: {data[-200:]!r}")
            data += piece
        return data

    def receive(self) -> None:
        """Read the available bytes and count the messages in them."""
        data = self.sock.recv(CHUNK)
        if not data:
            raise LoadError("closed")
        data = self._rest + data
        self.seen += data.count(self.mark)
        self._rest = data[-len(self.mark) + 1 :]


def of_nats(address: Address, subject: str) -> Reader:
    """Return a subscriber on nats-server's WebSocket port."""
    reader = Reader(address, "/", {})
    reader.until(HEAD_END)
    reader.sock.sendall(
        frame(b'CONNECT {"verbose":false}\r\nSUB %s 1\r\nPING\r\n' % subject.encode())
    )
    reader.until(b"PONG\r\n")
    reader.mark = b"MSG "
    return reader


def of_jetgate(address: Address, name: str, batch: int) -> Reader:
    """Return an ordered feed of a stream on `/v1/ws`."""
    (reader,) = feeds_of(address, 1, stream=name, batch=batch)
    return reader


def feeds_of(address: Address, count: int, **wanted: object) -> list[Reader]:
    """Open `count` sockets with a feed at the same time; check that no feed misses messages."""
    protocol: dict[str, str | None] = {"Sec-WebSocket-Protocol": "js.v1.json"}
    readers = [Reader(address, "/v1/ws", protocol) for _ in range(count)]
    sub = frame(json.dumps({"type": "sub", "id": 1, "sid": 1, **wanted}).encode(), 0x81)
    for reader in readers:
        reader.until(HEAD_END)
        reader.sock.sendall(sub)
    for reader in readers:
        reader.subscribed = reader.until(b'"recovered":true')
        reader.mark = b'"seq":'
    return readers


def fan_out(sender: Connection, subject: str, readers: Sequence[Reader], count: int) -> float:
    """Publish `count` messages; return deliveries per second, summed over all readers."""
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
                by_fd[fd].receive()
                if by_fd[fd].seen >= count:
                    behind.discard(fd)
        return count * len(readers) / (time.perf_counter() - start)
    finally:
        gc.enable()
        poll.close()
        sender.sock.settimeout(30)
        for reader in readers:
            reader.sock.close()


@dataclass(slots=True)
class FanOut:
    """One subject to 100 WebSocket readers: deliveries per second, summed over all readers.

    For nats-server the readers use its WebSocket port; for jetgate, an ordered feed with up to
    `batch` messages in a frame.
    """

    count: int
    batch: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        name = f"FAN{run}"
        sender = Connection(peer.address)
        stream(sender, name)
        if isinstance(peer, NatsServer):
            address = _websocket_of(peer)
            readers = [of_nats(address, f"{name}.a") for _ in range(READERS)]
        else:
            address = http_address(peer)
            readers = [of_jetgate(address, name, self.batch) for _ in range(READERS)]
        rate = fan_out(sender, f"{name}.a", readers, int(self.count * scale))
        sender.api(f"STREAM.DELETE.{name}")
        sender.close()
        return {"rate": rate}


def _websocket_of(server: NatsServer) -> Address:
    ports = next(server.dir.glob("*.ports"))
    host, port = json.loads(ports.read_text())["websocket"][0].split("://")[1].rsplit(":", 1)
    return host, int(port)


@dataclass(slots=True)
class Lateness:
    """The latency from a PUB to a reader of an ordered feed, at a steady rate.

    `rate` is in messages per second, the results in microseconds.
    """

    rate: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        name = f"LATE{run}"
        sender = Connection(peer.address)
        stream(sender, name)
        reader = of_jetgate(http_address(peer), name, 1000)
        taken: list[float] = []
        count = self.rate * SECONDS
        thread = threading.Thread(target=_record_latencies, args=(reader, taken, count))
        thread.start()
        begin = time.perf_counter()
        for number in range(count):
            wait = begin + number / self.rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            payload = (b"%.6f_" % time.perf_counter()).ljust(128, b"x")
            sender.send(b"PUB %s.a 128\r\n%s\r\n" % (name.encode(), payload))
        thread.join(30)
        reader.sock.close()
        sender.close()
        if len(taken) < count:
            raise LoadError(f"{len(taken)} of {count} messages came")
        return {"p50": percentile(taken, 0.5) * 1e6, "p99": percentile(taken, 0.99) * 1e6}


def _record_latencies(reader: Reader, taken: list[float], count: int) -> None:
    """Receive `count` messages; append the latency of each in seconds, by the time in its
    payload.
    """
    data = b""
    while len(taken) < count and (piece := reader.sock.recv(CHUNK)):
        data += piece
        now = time.perf_counter()
        while (at := data.find(b'"text":"')) >= 0 and (end := data.find(b'"', at + 8)) > 0:
            taken.append(now - float(data[at + 8 : end].split(b"_")[0]))
            data = data[end + 1 :]


@dataclass(slots=True)
class Idle:
    """The cost of `count` sockets with an idle feed: bytes of memory and microseconds to open
    all.
    """

    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        sender = Connection(peer.address)
        stream(sender, f"IDLE{run}")
        before = resident(peer.pid)
        begin = time.perf_counter()
        address = http_address(peer)
        readers = [of_jetgate(address, f"IDLE{run}", 1000) for _ in range(self.count)]
        seconds = time.perf_counter() - begin
        grown = resident(peer.pid) - before
        for reader in readers:
            reader.sock.close()
        sender.close()
        return {"grown": grown, "opened": seconds * 1e6}


@dataclass(slots=True)
class Resume:
    """The microseconds until all readers are served again after a `kill -9` of the server.

    Each reader subscribes with the position that it read last; the answer must confirm that no
    message is missing.
    """

    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        name = f"RESUME{run}"
        sender = Connection(peer.address)
        stream(sender, name)
        address = http_address(peer)
        readers = []
        for _ in range(self.count // WAVE):
            readers += feeds_of(address, WAVE, stream=name)
        after = _position(readers[0].subscribed)
        sender.close()
        begin = time.perf_counter()
        peer.restart()
        resumed = []
        for _ in range(self.count // WAVE):
            resumed += feeds_of(address, WAVE, stream=name, after=after)
        seconds = time.perf_counter() - begin
        for reader in readers + resumed:
            reader.sock.close()
        return {"all": seconds * 1e6}


def _position(subscribed: bytes) -> dict[str, object]:
    """Return the position in the answer to a subscription."""
    found = re.search(rb'"incarnation":"(\d+)","seq":(\d+)', subscribed)
    assert found is not None, subscribed
    return {"incarnation": found[1].decode(), "seq": int(found[2])}
