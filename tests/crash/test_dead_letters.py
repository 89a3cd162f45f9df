"""kill -9 around dead letters: each message that ended without success has one, others none."""

# Subject: dead letters, crashes

import random
from base64 import b64decode
from collections import Counter
from functools import partial

from tests.crash.clients import Client, messages_left
from tests.crash.ledger import Ledger
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.wire import Wire

STREAM, DEAD = "JOBS", "DEADJOBS"
COUNT = 2000
CYCLES = 6
SEED = 20261123

ASK = b'PUB $JS.API.CONSUMER.MSG.NEXT.JOBS.C d.1 35\r\n{"batch":20,"expires":1000000000}  \r\n'
VERBS = {0: b"+TERM bad", 1: b"-NAK"}


def verb_of(seq: int) -> bytes:
    """Return the worker's answer to each delivery of a message: two of five never succeed."""
    return VERBS.get(seq % 5, b"+ACK")


class Worker(Client):
    """A client that answers every delivery, and records the delivered messages."""

    def __init__(self, server: JetgateServer) -> None:
        super().__init__("worker", lambda: server.address, Ledger())
        self.seen: set[int] = set()
        self.terminated: set[int] = set()
        self.back: list[int] = []

    def work(self, wire: Wire) -> None:
        wire.send(b"SUB d.> 1\r\nSUB a.> 2\r\n")
        wire.send(ASK)
        got = 0
        while not self.stopping.is_set():
            frame = wire.frame()
            if frame.subject.startswith(b"a."):
                if not frame.headers:  # otherwise a no-responders status
                    self.terminated.add(int(frame.subject[2:]))
                continue
            if frame.reply:
                got += 1
                self._receive(wire, frame.reply)
            elif b" 503" in frame.headers:
                self.stopping.wait(0.05)
            if got == 20 or not frame.reply:
                got = 0
                wire.send(ASK)

    def _receive(self, wire: Wire, reply: bytes) -> None:
        seq = int(reply.split(b".")[5])
        self.seen.add(seq)
        if seq in self.terminated:
            self.back.append(seq)
        verb = verb_of(seq)
        told = b"a.%d" % seq if verb.startswith(b"+TERM") else b""
        wire.publish(reply.decode(), verb, reply=told)

    def has_seen(self, enough: int) -> bool:
        return len(self.seen) >= enough


def _fill(server: JetgateServer) -> None:
    with Wire(server.address) as wire:
        wire.hello()
        stream = {"name": STREAM, "subjects": ["jobs.*"], "retention": "workqueue"}
        assert "error" not in wire.api(f"STREAM.CREATE.{STREAM}", stream)
        assert "error" not in wire.api(f"STREAM.CREATE.{DEAD}", {"name": DEAD})
        config = {
            "durable_name": "C",
            "ack_policy": "explicit",
            "ack_wait": 1_000_000_000,
            "max_deliver": CYCLES,  # no message is in flight at every kill
            "metadata": {"jetgate.dead_letter": DEAD},
        }
        request = {"stream_name": STREAM, "config": config}
        assert "error" not in wire.api(f"CONSUMER.CREATE.{STREAM}.C", request)
        for i in range(1, COUNT):
            wire.publish("jobs.x", b"job %d" % i)
        wire.flush()
        assert wire.request("jobs.x", b"job %d" % COUNT).json()["seq"] == COUNT


def _dead_letters(server: JetgateServer) -> Counter[int]:
    """Return the number of dead letters of each message, and check that each has its contents."""
    found: Counter[int] = Counter()
    with Wire(server.address) as wire:
        wire.hello()
        last = wire.api(f"STREAM.INFO.{DEAD}")["state"]["last_seq"]
        for place in range(1, last + 1):
            message = wire.api(f"STREAM.MSG.GET.{DEAD}", {"seq": place})["message"]
            seq = int(b64decode(message["data"]).removeprefix(b"job "))
            assert b"Jetgate-Dead-Sequence: %d\r\n" % seq in b64decode(message["hdrs"])
            found[seq] += 1
    return found


def test_every_failure_has_one_letter_whatever_was_killed() -> None:
    choose = random.Random(SEED)
    with JetgateServer() as server:
        _fill(server)
        worker = Worker(server)
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
        letters = _dead_letters(server)

    assert worker.back == []  # a message with a confirmed +TERM is never delivered again
    assert letters == Counter(s for s in range(1, COUNT + 1) if verb_of(s) != b"+ACK")
