"""The machine against a naive model of sets, with crashes, over random histories."""

# Subject: acks

from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from core.model.consumer import AckPolicy, ConsumerConfig
from core.rules.consumer.machine import ConsumerMachine
from core.rules.consumer.state import decode, encode
from core.units import ConsumerSeq, Seq
from tests.support.consumers import START, machine

UNIT = 100_000_000
WAIT = 20 * UNIT


@dataclass
class Delivery:
    """One pending message of the naive model."""

    cseq: int
    count: int
    deadline: int
    queued: bool = False


@dataclass
class Model:
    """What a consumer is, said as plainly as possible."""

    log: dict[int, bytes] = field(default_factory=dict)
    last: int = 0
    next: int = 1
    cseq: int = 0
    pending: dict[int, Delivery] = field(default_factory=dict)
    given_up: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)

    def wanted(self, only: bytes | None) -> Iterator[int]:
        return (s for s, subject in sorted(self.log.items()) if only in (None, subject))

    def undelivered(self, only: bytes | None) -> list[int]:
        return [seq for seq in self.wanted(only) if seq >= self.next]


class ConsumerHistory(RuleBasedStateMachine):
    """Stores, pulls, acknowledges, deletes, waits and crashes in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.model = Model()
        self.floor = (0, 0)

    @initialize(
        policy=st.sampled_from([AckPolicy.EXPLICIT, AckPolicy.ALL, AckPolicy.NONE]),
        max_deliver=st.sampled_from([-1, 1, 3]),
        max_ack_pending=st.sampled_from([-1, 1, 4]),
        backoff=st.sampled_from([(), (5 * UNIT, 9 * UNIT)]),
        only=st.sampled_from([None, b"a"]),
    )
    def create(
        self,
        policy: AckPolicy,
        max_deliver: int,
        max_ack_pending: int,
        backoff: tuple[int, ...],
        only: bytes | None,
    ) -> None:
        self.only = only
        self.real: ConsumerMachine = machine(
            ack_policy=policy,
            ack_wait=backoff[0] if backoff else WAIT,
            max_deliver=max_deliver,
            max_ack_pending=max_ack_pending,
            backoff=backoff,
            filter_subject=only.decode() if only else "",
        )
        self.policy, self.max_deliver, self.waits = policy, max_deliver, backoff or (WAIT,)
        self.room = max_ack_pending if max_ack_pending > 0 and policy != AckPolicy.NONE else 10**9

    def wait(self, count: int) -> int:
        return self.waits[min(count, len(self.waits)) - 1]

    @rule(subjects=st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=6))
    def store(self, subjects: list[bytes]) -> None:
        model = self.model
        for subject in subjects:
            model.last += 1
            model.log[model.last] = subject
        match = self.real.match
        self.real.stored(sum(1 for s in subjects if match is None or match(s)))

    @rule(batch=st.integers(1, 8), no_wait=st.booleans(), expires=st.sampled_from([0, 3 * UNIT]))
    def pull(self, batch: int, no_wait: bool, expires: int) -> None:
        """Ask, and let everything be delivered that may be."""
        real = self.real
        body = b'{"batch":%d,"no_wait":%s,"expires":%d}' % (
            batch, b"true" if no_wait else b"false", expires,
        )  # fmt: skip
        real.request(body, b"in.1", self.now)
        self.deliver()
        real.outbox.clear()

    def deliver(self) -> None:
        real, model = self.real, self.model
        while real.waiting.can_serve():
            real.outbox.clear()
            sseq = real.next_redelivery()
            self.expire_naked()
            queued = [s for s, d in model.pending.items() if d.queued]
            if sseq is not None:
                assert sseq in queued
                if not real.waiting.assign(1, self.now):
                    continue
                pending = model.pending[sseq]
                count, cseq = real.redeliver(sseq, self.now)
                model.cseq += 1
                pending.count += 1
                pending.queued, pending.deadline = False, self.now + self.wait(pending.count)
                assert (count, cseq) == (pending.count, model.cseq)
                continue
            assert not queued, "nothing that waits for redelivery is forgotten"
            room = min(real.ack_pending_left(), 3)
            assert (
                real.ack_pending_left() == max(self.room - len(model.pending), 0)
                or self.room == 10**9
            )
            seqs = model.undelivered(self.only)[:room]
            if not room:
                return
            if not seqs:
                real.passed(model.last + 1)
                model.next = model.last + 1
                real.waiting.end_of_stream()
                return
            seqs = seqs[: len(real.waiting.assign(len(seqs), self.now))]
            if not seqs:
                continue
            first = real.deliver(seqs, self.now)
            assert first == model.cseq + 1
            for seq in seqs:
                model.cseq += 1
                assert seq not in model.settled, "what is done never comes back"
                if self.policy != AckPolicy.NONE:
                    deadline = self.now + self.wait(1)
                    model.pending[seq] = Delivery(model.cseq, 1, deadline)
            model.next = seqs[-1] + 1

    def expire_naked(self) -> None:
        """A NAK after the last attempt is noticed when the message comes up for redelivery.

        Which of several are noticed together is the machine's business: it stops at the first
        that may go out.
        """
        for seq, pending in list(self.model.pending.items()):
            if pending.queued and 0 < self.max_deliver <= pending.count:
                if seq in self.real.pending.first:
                    continue
                del self.model.pending[seq]
                self.model.given_up.add(seq)

    def acknowledge(self, seq: int) -> None:
        if self.policy == AckPolicy.ALL:
            done = [s for s in self.model.pending if s <= seq]
        else:
            done = [seq] if seq in self.model.pending else []
        for s in done:
            del self.model.pending[s]
        self.model.settled.update(done)

    @precondition(lambda self: self.policy != AckPolicy.NONE)
    @rule(data=st.data(), term=st.booleans())
    def ack(self, data: st.DataObject, term: bool) -> None:
        model = self.model
        seq = data.draw(st.sampled_from(sorted(model.pending) or [max(model.next - 1, 1)]))
        if seq >= model.next:
            return
        if self.policy == AckPolicy.ALL or term:
            cseq = model.pending[seq].cseq if seq in model.pending else 0
            self.real.ack(Seq(seq), ConsumerSeq(cseq))
        else:
            self.real.ack_each([seq])
        if self.policy == AckPolicy.EXPLICIT or seq in model.pending:
            self.acknowledge(seq)

    @precondition(lambda self: self.model.pending)
    @rule(data=st.data(), delay=st.sampled_from([None, UNIT, 50 * UNIT]))
    def nak(self, data: st.DataObject, delay: int | None) -> None:
        seq = data.draw(st.sampled_from(sorted(self.model.pending)))
        pending = self.model.pending[seq]
        argument = b"" if delay is None else b"%dms" % (delay // 1_000_000)
        self.real.nak(Seq(seq), ConsumerSeq(pending.cseq), argument, self.now)
        if delay is None:
            pending.queued = True
        else:
            pending.queued, pending.deadline = False, self.now + delay

    @precondition(lambda self: self.model.pending)
    @rule(data=st.data())
    def progress(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.model.pending)))
        self.real.in_progress(Seq(seq), self.now)
        pending = self.model.pending[seq]
        if not pending.queued:
            pending.deadline = self.now + self.wait(pending.count)

    @rule(units=st.integers(1, 30))
    def time_passes(self, units: int) -> None:
        self.now += units * UNIT
        self.real.expire(self.now)
        self.real.outbox.clear()
        for seq, pending in list(self.model.pending.items()):
            if pending.queued or pending.deadline > self.now:
                continue
            if 0 < self.max_deliver <= pending.count:
                del self.model.pending[seq]
                self.model.given_up.add(seq)
            else:
                pending.queued = True
        self.deliver()

    @precondition(lambda self: self.model.log)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.model.log)))
        subject = self.model.log.pop(seq)
        self.real.removed([(seq, subject)])
        if seq in self.model.pending:
            self.acknowledge(seq)
        self.model.given_up.discard(seq)

    @rule()
    def purge(self) -> None:
        model = self.model
        first = model.last + 1
        model.log.clear()
        model.settled.update(model.pending)
        model.pending.clear()
        model.given_up.clear()
        model.next = first
        if self.real.purged(first):
            assert self.real.num_pending == 0

    @rule()
    def crash(self) -> None:
        """Encode, forget everything else, decode."""
        old = self.real
        pending = dict(old.pending.first)
        state = decode(encode(old.state(0)))
        self.real = ConsumerMachine(old.config, 1)
        self.real.restored(state, 0, self.model.log.__contains__)
        self.real.num_pending = len(self.model.undelivered(self.only))
        assert self.real.pending.first == pending
        for seq, delivery in self.model.pending.items():
            # Times are kept to a tenth of a second; this history lives on that grid.
            assert delivery.queued == self.real.pending.is_queued(seq)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "real"):
            return
        real, model = self.real, self.model
        assert set(real.pending.first) == set(model.pending)
        assert {s: d.cseq for s, d in model.pending.items()} == real.pending.first
        assert real.delivered_cseq == model.cseq
        assert real.num_pending == len(model.undelivered(self.only))
        counted = {s: d.count for s, d in model.pending.items() if d.count > 1}
        assert {s: n for s, n in real.pending.counts.items() if s in model.pending} == counted
        floor = real.pending.floor()
        assert floor >= self.floor or floor[1] >= self.floor[1], "the floor never goes back"
        assert floor[0] <= real.delivered_cseq
        assert floor[1] <= max(real.delivered_sseq, model.last)
        assert all(seq > floor[1] for seq in model.pending), "nothing pending is below the floor"
        self.floor = floor

    @invariant()
    def only_configured(self) -> None:
        assert not hasattr(self, "real") or isinstance(self.real.config, ConsumerConfig)


TestConsumerHistory = ConsumerHistory.TestCase
TestConsumerHistory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
