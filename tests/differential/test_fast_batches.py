"""Random messages of fast-ingest batches: both servers send the same answers to publishers."""

# Subject: batches

import random
from typing import Any

import pytest

from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

HISTORIES, LENGTH = 6, 120
CONFIGS: list[dict[str, Any]] = [
    {},
    {"max_msgs": 20, "discard": "new"},
    {"max_msg_size": 40, "max_msgs_per_subject": 3},
    {"no_ack": True},
    {"allow_atomic": True, "storage": "memory"},
]
START, APPEND, COMMIT, END, PING = range(5)


def history(chance: random.Random, gaps: list[str]) -> bytes:
    """Return publishes of a few batches, mostly with the next sequence, and some without batch."""
    sent, places = b"", dict.fromkeys("ABCD", 0)
    for _ in range(LENGTH):
        name = chance.choice("AAABBCD")
        step = chance.choice([1] * 14 + [0, 2, 3, -1])
        seq = places[name] = max(places[name] + step, 0)
        op = START if seq == 1 else chance.choice([APPEND] * 16 + [COMMIT, COMMIT, END, PING])
        op = chance.choice([op] * 30 + [START, APPEND, COMMIT, END, PING])
        if op == PING:
            places[name] -= step
        elif op in (COMMIT, END):
            places[name] = 0
        lines = headers(chance)
        is_refused = any("Msg-Id" not in line for line in lines)
        flow, gap = chance.choice([1, 2, 3, 5]), "fail" if is_refused else chance.choice(gaps)
        reply = f"r.{name}.{flow}.{gap}.{seq}.{op}.$FI" if chance.random() < 0.9 else "r.plain"
        sent += publish(chance, reply, lines)
    return sent


def headers(chance: random.Random) -> list[str]:
    """Return headers, some of which refuse a message or make it a duplicate."""
    lines = []
    if chance.random() < 0.2:
        lines.append(f"Nats-Msg-Id: {chance.randrange(12)}")
    if chance.random() < 0.05:
        lines.append("Nats-Expected-Last-Sequence: 7")
    if chance.random() < 0.05:
        lines.append(f"Nats-Rollup: {chance.choice(['sub', 'no'])}")
    return lines


def publish(chance: random.Random, reply: str, lines: list[str]) -> bytes:
    """Return the bytes of one publish."""
    block = "\r\n".join(["NATS/1.0", *lines, "", ""]) if lines else ""
    payload = "x" * chance.choice([1, 1, 1, 50])
    subject = f"f.{chance.choice('xyz')}"
    if block:
        size = f"{len(block)} {len(block) + len(payload)}"
        return f"HPUB {subject} {reply} {size}\r\n{block}{payload}\r\n".encode()
    return f"PUB {subject} {reply} {len(payload)}\r\n{payload}\r\n".encode()


def play(server: JetgateServer | NatsServer, seed: int, config: dict[str, Any]) -> list[Any]:
    """Return the answers to the publisher, and the final state of the stream."""
    server.await_removal()
    with Wire(server.address) as wire:
        wire.hello()
        asked = {
            "name": "F",
            "subjects": ["f.>"],
            "allow_batched": True,
            "duplicate_window": 10**11,
        }
        created = wire.api("STREAM.CREATE.F", asked | config)
        assert "error" not in created, created
        wire.send(b"SUB r.> 1\r\nSUB end.> 2\r\n")
        # The last message of a batch is answered in any state of the stream.
        last = b"PUB f.x end.E.1.ok.1.2.$FI 0\r\n\r\n"
        gaps = ["fail"] if "discard" in config else ["ok", "fail"]
        wire.send(history(random.Random(seed), gaps) + last)
        told = []
        while True:
            frame = wire.frame()
            told.append((frame.subject, frame.payload))
            if frame.subject.startswith(b"end."):
                break
        state = wire.api("STREAM.INFO.F")["state"]
        assert wire.api("STREAM.DELETE.F")["success"]
        return [*told, {key: state[key] for key in ("messages", "bytes", "first_seq", "last_seq")}]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_random_batches(
    jetgate_server: JetgateServer, nats_server: NatsServer, config: dict[str, Any]
) -> None:
    for seed in range(HISTORIES):
        ours = play(jetgate_server, seed, config)
        theirs = play(nats_server, seed, config)
        assert len(theirs) > LENGTH / 4
        assert ours == theirs, f"seed {seed}"
