"""What a fast batch says of its messages, as time goes by and beside other_batches."""

# Subject: batches

import json
import random
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pytest

from core.errors import ApiError
from core.rules.stream.batches.fast_ingest import (
    PER_STREAM,
    TOTAL,
    FastBatches,
    is_fast,
    parse_reply,
)
from core.rules.stream.batches.open_batches import Quota
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plans.fast_ingest import decide_fast
from core.rules.stream.preconditions import NO_PRECONDITIONS
from core.rules.stream.texts import survives_failed_commit
from core.units import NANOS_PER_SECOND
from tests.unit.rules.stream.support import NOW, columns, config

START, APPEND, COMMIT, END, PING = range(5)
PLAIN = b"r.plain"


class Bench:
    """The fast batches of a stream that accepts everything."""

    def __init__(self, quota: Quota | None = None) -> None:
        self.machine = StreamMachine(config(allow_batched=True))
        self.quota = quota or Quota()
        self.fast = FastBatches(self.quota)
        self.stored = 0

    def send(self, name: str, seq: int, op: int, *, flow: int = 10, now: int = 0) -> list[Any]:
        """What is told of a message."""
        draft = self.fast.draft(self.machine)
        message = draft.check(b"r.%b.%d.fail.%d.%d.$FI" % (name.encode(), flow, seq, op), b"", b"")
        if draft.accept(message, now):
            self.stored += 1
            draft.stored(message, self.stored)
        self.fast.apply(draft.changes)
        return [json.loads(told) for told in draft.answers]

    def refusal(self, *args: Any, **more: Any) -> int:
        with pytest.raises(ApiError) as caught:
            self.send(*args, **more)
        return caught.value.err_code


def test_a_batch_runs_out_ten_seconds_after_its_last_message() -> None:
    bench = Bench()
    bench.send("a", 1, START)
    bench.send("b", 1, START, now=1)
    bench.send("a", 1, PING, now=9 * NANOS_PER_SECOND)

    bench.fast.expire(10 * NANOS_PER_SECOND)
    assert bench.fast.deadline() == 10 * NANOS_PER_SECOND + 1
    bench.fast.expire(10 * NANOS_PER_SECOND + 1)

    assert bench.fast.deadline() == 19 * NANOS_PER_SECOND
    assert bench.refusal("b", 2, APPEND) == 10208
    assert bench.send("a", 2, COMMIT)[-1]["count"] == 2
    assert bench.fast.deadline() is None
    assert bench.quota.fast == 0


def test_the_batches_of_all_streams_count_together() -> None:
    quota = Quota()
    one, other = Bench(quota), Bench(quota)
    quota.fast = TOTAL - 1
    one.send("a", 1, START)

    assert other.refusal("b", 1, START) == 10211
    one.fast.clear()

    assert other.send("b", 1, COMMIT)[-1]["count"] == 1
    assert quota.fast == TOTAL - 1


def test_a_stream_has_a_limit_of_its_own() -> None:
    bench = Bench()
    for place in range(PER_STREAM):
        bench.send(str(place), 1, START)

    assert bench.refusal("more", 1, START) == 10211
    assert bench.send("5", 2, END)[-1]["count"] == 1
    assert bench.send("more", 1, START)[0] == {"type": "ack", "seq": 0, "msgs": 1}


def test_acks_become_rarer_up_to_the_share_of_a_batch_and_more_frequent_with_others() -> None:
    bench = Bench()
    bench.send("a", 1, START, flow=8)
    every = [bench.send("b", seq, APPEND if seq > 1 else START, flow=400) for seq in range(1, 800)]
    told = [one for some in every for one in some]
    assert [one["msgs"] for one in told] == [1, 2, 4, 8, 16, 32, 64, 128, 250, 250, 250]
    for other in "cdefghij":
        bench.send(other, 1, START)

    told = [one for seq in range(800, 1400) for one in bench.send("b", seq, APPEND)]

    assert [one["msgs"] for one in told][:4] == [125, 62, 50, 50]


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"b.10.ok.1.0.$FI", 10206),
        (b"r.b.10.ok.1.0.1.$FI", 10206),
        (b"r.b.10.no.1.0.$FI", 10206),
        (b"r.b.10.ok.0.0.$FI", 10206),
        (b"r.b.10.ok.9223372036854775808.1.$FI", 10206),
        (b"r.b.10.ok.1.1.$FI", 10206),
        (b"r.b.10.ok.1.3.$FI", 10206),
        (b"r.b.10.ok.2.0.$FI", 10206),
        (b"r.b.10.ok.2.5.$FI", 10206),
        (b"r." + b"b" * 65 + b".10.ok.1.0.$FI", 10207),
    ],
)
def test_invalid_batch_sequences_are_refused(reply: bytes, error: int) -> None:
    with pytest.raises(ApiError) as caught:
        parse_reply(reply)

    assert caught.value.err_code == error


@pytest.mark.parametrize(("flow", "meant"), [(b"7", 7), (b"0", 10), (b"x", 10), (b"-1", 10)])
def test_a_reply_without_a_flow_means_ten_messages(flow: bytes, meant: int) -> None:
    assert parse_reply(b"r.b.%b.ok.1.0.$FI" % flow).flow == meant


def test_other_replies_are_not_looked_at() -> None:
    assert not is_fast([b"", b"_INBOX.abc.1", b"$JS.ACK.S.C.1.1.1.1.0"])
    assert is_fast([b"", b"_INBOX.abc.b.10.ok.1.0.$FI"])


@pytest.mark.parametrize(
    ("answer", "true"),
    [
        (b"", True),
        (b'{"error":{"code":400},"stream":"S","seq":0}', True),
        (b'{"stream":"S","seq":4,"duplicate": true}', True),
        (b'{"stream":"S","seq":5,"duplicate": true}', False),
        (b'{"stream":"S","seq":4,"batch":"b","count":9}', True),
        (b'{"stream":"S","seq":5,"batch":"b","count":9}', False),
        (b'{"type":"ack","seq":1,"msgs":10}', False),
    ],
)
def test_answers_when_no_message_behind_4_was_stored(answer: bytes, true: bool) -> None:
    assert survives_failed_commit(answer, 4) is true


def gathered(chance: random.Random) -> list[tuple[bytes, bytes]]:
    """(Reply, headers) of messages of two batches and of none, mostly in order."""
    sent, places = [], {b"a": 0, b"b": 0}
    for _ in range(300):
        name = chance.choice([b"a", b"a", b"a", b"b"])
        places[name] += chance.choice([1] * 40 + [0, 2])
        seq = places[name]
        op = START if seq == 1 else chance.choice([APPEND] * 30 + [COMMIT, PING])
        if op == COMMIT:
            places[name] = 0
        elif op == PING:
            places[name] = seq - 1
        msg_id = chance.choice(
            [b""] * 9 + [b"NATS/1.0\r\nNats-Msg-Id: %d\r\n\r\n" % chance.randrange(9)]
        )
        sent.append((b"r.%b.7.ok.%d.%d.$FI" % (name, seq, op), msg_id))
        if chance.random() < 0.02:
            sent.append((PLAIN, b""))
    return sent


def played(sent: list[tuple[bytes, bytes]], sizes: Iterator[int]) -> tuple[list[Any], int]:
    """What is told when so many messages at a time are decided, and how many were stored."""
    machine = StreamMachine(config(allow_batched=True))
    fast, told, start = FastBatches(Quota()), [], 0
    while start < len(sent):
        some = sent[start : start + next(sizes)]
        start += len(some)
        rows = columns(*((b"s", block, b"x") for _, block in some))
        rows.replies = [reply for reply, _ in some]
        plan = decide_fast(machine, rows, {}, fast, (NOW, NOW), NO_PRECONDITIONS)
        told += [answer for answer in plan.answers if answer[0] != PLAIN]
        machine.apply(plan.build())
        assert plan.fast is not None
        fast.apply(plan.fast)
    return told, machine.msgs


def test_decisions_without_a_commit_do_not_count() -> None:
    bench = Bench()
    bench.send("a", 1, START)
    for name, seq, op in (("a", 2, APPEND), ("a", 3, COMMIT), ("b", 1, START)):
        draft = bench.fast.draft(bench.machine)
        message = draft.check(b"r.%b.10.fail.%d.%d.$FI" % (name.encode(), seq, op), b"", b"")
        draft.accept(message, 0)

    assert bench.quota.fast == 1
    assert bench.send("a", 2, COMMIT)[-1]["count"] == 2


def test_a_plan_brings_no_batch_back_that_was_forgotten_meanwhile() -> None:
    bench = Bench()
    bench.send("a", 1, START)
    draft = bench.fast.draft(bench.machine)
    draft.accept(draft.check(b"r.b.10.fail.1.0.$FI", b"", b""), 0)

    bench.fast.clear()
    bench.fast.apply(draft.changes)

    assert bench.quota.fast == 0
    assert bench.refusal("a", 2, APPEND) == bench.refusal("b", 2, APPEND) == 10208


@pytest.mark.parametrize("seed", range(8))
def test_messages_decided_together_are_answered_as_if_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    sent = gathered(chance)

    alone = played(sent, repeat(1))

    assert played(sent, repeat(len(sent))) == alone
    assert played(sent, iter(lambda: chance.randrange(1, 60), 0)) == alone
    assert len(alone[0]) > 40
