"""kill -9 during use of a work queue: each message is delivered until acknowledged, then never."""

# Subject: retention, crashes

import random
from collections import Counter
from functools import partial

from tests.crash.clients import Client, messages_left
from tests.crash.ledger import Ledger
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.wire import Wire

STREAM = "QUEUE"
COUNT = 3000
CYCLES = 6
SEED = 20261121

ASK = b'PUB $JS.API.CONSUMER.MSG.NEXT.QUEUE.C d.1 35\r\n{"batch":20,"expires":1000000000}  \r\n'


class Worker(Client):
    """A client that takes work with double acks, and rejects some of it at the first delivery."""

    def __init__(self, name: str, server: JetgateServer) -> None:
        super().__init__(name, lambda: server.address, Ledger())
        self.choose = random.Random(name)
        self.seen: Counter[int] = Counter()
        self.done: set[int] = set()
        self.back: list[int] = []

    def work(self, wire: Wire) -> None:
        wire.send(b"SUB d.> 1\r\nSUB a.> 2\r\n")
        wire.send(ASK)
        got = 0
        while not self.stopping.is_set():
            frame = wire.frame()
            if frame.subject.startswith(b"a."):
                if not frame.headers:  # otherwise a no-responders status
                    self.done.add(int(frame.subject[2:]))
                continue
            if frame.reply:
                got += 1
                self._receive(wire, frame.reply)
            elif b" 503" in frame.headers:
                self.stopping.wait(0.05)
            if got == 20 or not frame.reply:
                got = 0
                wire.send(ASK)

    def has_seen(self, enough: int) -> bool:
        """Return True if at least `enough` different messages were delivered.

        Every message is delivered eventually. An answer to an acknowledgement may be missing: a
        kill can lose it after the acknowledgement is stored.
        """
        return len(self.seen) >= enough

    def _receive(self, wire: Wire, reply: bytes) -> None:
        seq = int(reply.split(b".")[5])
        self.seen[seq] += 1
        if seq in self.done:
            self.back.append(seq)
        if self.choose.random() < 0.1 and self.seen[seq] == 1:
            wire.publish(reply.decode(), b"-NAK")
        else:
            wire.publish(reply.decode(), b"+ACK", reply=b"a.%d" % seq)


def _fill(server: JetgateServer) -> None:
    with Wire(server.address) as wire:
        wire.hello()
        stream = {"name": STREAM, "subjects": ["q.*"], "retention": "workqueue"}
        assert "error" not in wire.api(f"STREAM.CREATE.{STREAM}", stream)
        config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 1_000_000_000}
        request = {"stream_name": STREAM, "config": config}
        assert "error" not in wire.api(f"CONSUMER.CREATE.{STREAM}.C", request)
        for i in range(COUNT):
            wire.publish(f"q.{i % 7}", b"job")
        wire.flush()
        assert wire.request("q.last", b"job").json()["seq"] == COUNT + 1


def test_every_job_is_delivered_until_acknowledged_and_then_never_again() -> None:
    choose = random.Random(SEED)
    with JetgateServer() as server:
        _fill(server)
        worker = Worker("worker", server)
        worker.start()
        for cycle in range(CYCLES):
            more = choose.randrange(50, COUNT // CYCLES)
            enough = min(len(worker.seen) + more, COUNT)  # the worker may be nearly done
            eventually(partial(worker.has_seen, enough), within=120)
            if cycle % 2:
                server.kill_postgres()
            server.restart()
        eventually(lambda: messages_left(server, STREAM) == 0, within=120)
        worker.stop()

    assert worker.back == []
    assert set(worker.seen) == set(range(1, COUNT + 2))
