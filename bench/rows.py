"""The rows of the comparison with nats-server (`ROWS`), and loads without a module of their own."""

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from json import loads
from typing import Any

from bench.expiry import Expiry
from bench.flow import relay
from bench.guard import Guarded
from bench.http_rows import HTTP_ROWS
from bench.ingest import Ingest
from bench.load import Load, Measure, fill, stream
from bench.mirror import Mirror
from bench.multi import MultiLast
from bench.peers import Peer
from bench.promote import Promote
from bench.pull import pull_all
from bench.push import Push
from bench.queue import Queue
from bench.row import Row
from bench.starting import Starting
from bench.wire import GET_LINES, Connection, Sender, one_by_one, percentile, publishes, pump


@dataclass(slots=True)
class Publish:
    """Asynchronous publish with at most `window` unacknowledged messages on each connection."""

    count: int
    size: int = 128
    connections: int = 1
    window: int = 2000
    keys: int = 0
    config: dict[str, object] = field(default_factory=dict)

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        count = int(self.count * scale) // self.connections
        name = f"PUB{run}"
        senders = []
        for i in range(self.connections):
            connection = Connection(peer.address)
            if i == 0:
                stream(connection, name, **self.config)
            inbox = b"_INBOX.pub%d" % i
            connection.send(b"SUB %s.* 1\r\n" % inbox)
            senders.append(Sender(connection, self._messages(name.encode(), count, inbox)))
        seconds = pump(senders, window=self.window)
        for sender in senders:
            sender.connection.close()
        return {"rate": count * self.connections / seconds}

    def _messages(self, name: bytes, count: int, inbox: bytes) -> list[bytes]:
        payload = b"x" * self.size
        if not self.keys:
            return publishes(name + b".a", count, payload, inbox)
        tail = b" %d\r\n%s\r\n" % (self.size, payload)
        choose = random.Random(1).randrange
        keys = (choose(self.keys) for _ in range(count))
        return [b"PUB %s.k%d %s.%d%s" % (name, key, inbox, i, tail) for i, key in enumerate(keys)]


@dataclass(slots=True)
class PublishSync:
    """One publish at a time; measures the latency of its ack in microseconds."""

    count: int

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing (see `Load.prepare`)."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        connection = Connection(peer.address)
        stream(connection, f"SYNC{run}")
        connection.send(b"SUB _INBOX.sync.* 1\r\n")
        subject = b"SYNC%d.a" % run
        messages = publishes(subject, max(300, int(self.count * scale)), b"x" * 128, b"_INBOX.sync")
        one_by_one(connection, messages[:100])
        taken = one_by_one(connection, messages[100:])
        connection.close()
        return {"p50": percentile(taken, 0.5) / 1e3, "p99": percentile(taken, 0.99) / 1e3}


@dataclass(slots=True)
class Pull:
    """A pull consumer with explicit acks, for messages just stored, or (`cold`) after a restart."""

    count: int
    cold: bool = False

    def prepare(self, peer: Peer, scale: float) -> None:
        if self.cold:
            fill(peer, "COLD", int(self.count * 2 * scale), 100)

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        count = int(self.count * scale)
        name = "COLD" if self.cold else f"PULL{run}"
        if self.cold:
            peer.restart()
        else:
            fill(peer, name, count, 100)
        connection = Connection(peer.address)
        config = {"durable_name": f"C{run}", "ack_policy": "explicit", "max_ack_pending": 20000}
        request = {"stream_name": name, "config": config}
        connection.api(f"CONSUMER.CREATE.{name}.C{run}", request)
        seconds = pull_all(connection, name, f"C{run}", count)
        info = connection.api(f"CONSUMER.INFO.{name}.C{run}")
        assert info["num_ack_pending"] == 0, info
        assert info["ack_floor"]["stream_seq"] == count, info
        connection.close()
        return {"rate": count / seconds}


@dataclass(slots=True)
class DirectGet:
    """Direct Get of the last message by subject over few subjects, or of random sequences."""

    count: int
    stored: int
    by_sequence: bool = False
    window: int = 500

    @property
    def name(self) -> str:
        return "RANDOM" if self.by_sequence else "HOT"

    def prepare(self, peer: Peer, scale: float) -> None:
        stored = int(self.stored * scale) if self.by_sequence else self.stored
        fill(peer, self.name, stored, 100, allow_direct=True)

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        connection = Connection(peer.address)
        connection.send(b"SUB _INBOX.get.* 1\r\n")
        sender = Sender(connection, self._requests(int(self.count * scale), scale))
        seconds = pump([sender], window=self.window, lines=GET_LINES)
        assert b"Nats-Sequence" in sender.sample, sender.sample[:500]
        connection.close()
        return {"rate": sender.count / seconds}

    def _requests(self, count: int, scale: float) -> list[bytes]:
        head = b"PUB $JS.API.DIRECT.GET.%s" % self.name.encode()
        if not self.by_sequence:
            subjects = [b"HOT.%d" % i for i in range(100)]
            return [
                head + b".%s _INBOX.get.%d 0\r\n\r\n" % (subjects[i % 100], i) for i in range(count)
            ]
        choose = random.Random(2).randrange
        bodies = [b'{"seq":%d}' % (choose(int(self.stored * scale)) + 1) for _ in range(count)]
        return [
            head + b" _INBOX.get.%d %d\r\n%s\r\n" % (i, len(body), body)
            for i, body in enumerate(bodies)
        ]


@dataclass(slots=True)
class Core:
    """Publish and subscribe without a stream, while another client sends PINGs."""

    count: int
    size: int = 128

    def prepare(self, peer: Peer, scale: float) -> None:
        """Do nothing: the load stores nothing."""

    def run(self, peer: Peer, scale: float, run: int) -> Measure:
        count = int(self.count * scale)
        receiver, sender = Connection(peer.address), Connection(peer.address)
        receiver.send(b"SUB core.a 1\r\n")
        receiver.flush()
        command = [sys.executable, "-m", "bench.ping", peer.address[0], str(peer.address[1])]
        pinger = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        message = b"PUB core.a %d\r\n%s\r\n" % (self.size, b"x" * self.size)
        seconds = relay(sender, receiver, message, count, ahead=30_000)
        out, _ = pinger.communicate()
        pings = loads(out)
        receiver.close()
        sender.close()
        return {"rate": count / seconds} | {f"ping_{name}": us for name, us in pings.items()}


KV: dict[str, object] = {
    "max_msgs_per_subject": 1,
    "discard": "new",
    "allow_rollup_hdrs": True,
    "deny_delete": True,
    "allow_direct": True,
}


def _publish(always: int, count: int, **options: Any) -> Callable[[str], Load]:
    return lambda peer: Publish(always if peer == "always" else count, **options)


ALL = ("nats", "always", "jetgate")

ROWS = (
    Row("publish 128 B", _publish(10_000, 200_000), ALL, floors={"nats": 0.5, "always": 30}),
    Row("publish 128 B, window 8000", _publish(16_000, 200_000, window=8000), ALL),
    Row(
        "publish 128 B, 4 connections",
        _publish(20_000, 240_000, connections=4),
        ALL,
        floors={"nats": 0.5, "always": 30},
    ),
    Row(
        "publish 128 B, 4 connections, window 8000",
        _publish(32_000, 240_000, connections=4, window=8000),
        ALL,
    ),
    Row("publish 1 KiB", _publish(10_000, 100_000, size=1024), ALL),
    Row("publish 1 KiB, 4 connections", _publish(20_000, 120_000, size=1024, connections=4), ALL),
    Row(
        "publish 128 B, one fast-ingest batch",
        lambda peer: Ingest(10_000 if peer == "always" else 200_000),
        ALL,
    ),
    Row("publish one by one", lambda _: PublishSync(3000), ALL, "p50", {"always": 1.6}),
    Row("pull + ack", lambda _: Pull(200_000), floors={"nats": 0.8}),
    Row("pull + ack, cold", lambda _: Pull(500_000, cold=True), floors={"nats": 0.4}),
    Row("work queue: publish, pull, ack", lambda _: Queue(100_000), floors={"nats": 0.4}),
    Row("push, ack none", lambda _: Push(200_000), floors={"nats": 1.0}),
    Row("push, ack none, cold", lambda _: Push(200_000, cold=True), floors={"nats": 0.25}),
    Row("push, explicit acks", lambda _: Push(200_000, acks=True), floors={"nats": 0.6}),
    Row("direct get, hot", lambda _: DirectGet(200_000, 10_000), floors={"nats": 1.2}),
    Row(
        "direct get, random of a million",
        lambda _: DirectGet(100_000, 1_000_000, by_sequence=True),
        floors={"nats": 0.15},
    ),
    Row(
        "multi_last, 1000 of a million subjects",
        lambda _: MultiLast(),
        unit="p50",
        floors={"p50": 50_000, "spread": 50_000, "listed": 50_000},
    ),
    Row("mirror that follows", lambda _: Mirror(200_000), floors={"share": 0.5}),
    Row(
        "a million messages expire beside 5,000 publishes/s",
        lambda _: Expiry(1_000_000),
        unit="late",
        floors={"late": 2_000_000},
        runs=1,
    ),
    Row("kv put, 1 key", lambda _: Publish(200_000, keys=1, config=KV), floors={"nats": 0.9}),
    Row(
        "kv put, 10000 keys",
        lambda _: Publish(200_000, keys=10_000, config=KV),
        floors={"nats": 0.4},
    ),
    Row("core", lambda _: Core(2_000_000), floors={"nats": 0.5, "ping_p99": 10_000}),
    Row("core, permissions, 1000 connections", lambda _: Guarded(400_000), floors={"cost": 1.3}),
    Row(
        "transaction of a million rows",
        lambda _: Promote(1_000_000),
        ("jetgate",),
        floors={"rate": 100_000},
    ),
    Row(
        "transaction of a million rows, message ids",
        lambda _: Promote(1_000_000, ids=True),
        ("jetgate",),
    ),
    Row(
        "start with JetStream, first ack, exit",
        Starting,
        unit="accept",
        floors={"accept": 400_000, "ack": 1_200_000, "exit": 300_000},
    ),
    Row(
        "start of jetgate dev, first ack, exit",
        lambda peer: Starting(peer, dev=True),
        ("jetgate",),
        "accept",
        {"accept": 400_000, "http": 400_000, "ack": 1_200_000, "exit": 300_000},
    ),
    Row(
        "start of jetgate serve, first ack, exit",
        lambda peer: Starting(peer, serve=True),
        ("jetgate",),
        "accept",
        {"accept": 400_000, "ack": 1_200_000, "exit": 300_000},
    ),
    Row(
        "start with JetStream, both cores busy",
        lambda peer: Starting(peer, busy=True),
        unit="accept",
        floors={"accept": 1_000_000},
    ),
    *HTTP_ROWS,
)
