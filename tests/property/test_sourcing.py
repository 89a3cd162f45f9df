"""Mirrors and sources against a list of messages: nothing lost, nothing twice, in whatever order.

Rules publish into origins, delete from them and make them anew, deliver some of what they have,
store it or lose the commit, crash before and after the commit, and purge the copy. Sourcing asks
behind what it has stored; what it then holds must be what the lists say.
"""

# Subject: mirrors and sources

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from core.jetstream.sourcing.origin import Origin, StartPosition, without_publish_headers
from core.jetstream.sourcing.origin_follower import DeliveredPosition
from core.model.api_errors import api_error
from core.model.stream import StreamConfig, StreamSource
from core.rules.stream.plans.sourced import SourcedBatch
from core.units import ConsumerSeq
from tests.support.streams import StreamBench

SUBJECTS = [b"a.1", b"a.2", b"b.1"]
PARTS = [
    b"",
    b"NATS/1.0\r\nX: 1\r\n\r\n",
    b"NATS/1.0\r\nNats-Expected-Last-Sequence: 9\r\nNats-Msg-Id: i\r\n\r\n",
]
RETAINED = {PARTS[2]: b"NATS/1.0\r\nNats-Msg-Id: i\r\n\r\n"}


@dataclass
class Message:
    seq: int
    ts: int
    subject: bytes
    block: bytes
    payload: bytes


@dataclass
class Stand:
    """An origin, and the follower of it in its simplest form."""

    origin: Origin
    sourcing: Any
    rows: list[Message] = field(default_factory=list)
    last: int = 0
    made: int = 1
    sent: int = 0
    """What was delivered since the consumer was asked for, as a sequence."""
    waiting: list[tuple[SourcedBatch, DeliveredPosition]] = field(default_factory=list)
    offered: list[Message] = field(default_factory=list)
    busy: bool = False
    forgets: bool = False
    caught_up: bool = False

    @property
    def identity(self) -> str:
        return f"made{self.made}"

    def ask(self, back: int = 0) -> None:
        """Ask for what lies behind the last copy; a stranger is asked from its beginning.

        Some of what is planned may come again (`back`), as from a consumer that started over.
        """
        self.waiting, self.offered, self.forgets = [], [], False
        start: StartPosition = self.sourcing._begin(self)
        if start.identity and start.identity != self.identity:
            self.forgets = True
            start = self.sourcing._begin(self)
        self.sent = max(start.after - back, 0)

    def deliver(self, limit: int) -> None:
        """Deliver the next messages."""
        found = [m for m in self.rows if m.seq > self.sent][:limit]
        if not found:
            return
        self.sent = found[-1].seq
        run = SourcedBatch(self.origin.key, self.identity, self.sent)
        run.seqs = [m.seq for m in found]
        run.times = [m.ts for m in found]
        columns = run.columns
        columns.subjects = [m.subject for m in found]
        columns.headers = without_publish_headers(
            [m.block for m in found], mirrors=self.origin.mirrors
        )
        columns.payloads = [m.payload for m in found]
        columns.replies = [b""] * len(found)
        columns.has_headers = any(columns.headers)
        if not self.origin.mirrors:
            subjects = columns.subjects
            blocks = self.origin.stored_headers(columns.headers, run.seqs, subjects, self.identity)
            columns.headers, columns.has_headers = blocks, True
        columns.count_bytes()
        self.waiting.append((run, DeliveredPosition(ConsumerSeq(0), self.sent)))
        self.offered += found

    # what sourcing asks of a follower

    def has_waiting(self) -> bool:
        return bool(self.waiting)

    def next_batch(self, limit: int) -> tuple[SourcedBatch, DeliveredPosition]:
        run, reached = self.waiting.pop(0)
        while self.waiting:
            more, reached = self.waiting.pop(0)
            run.extend(more)
        return run, reached

    def on_stored(self, reached: DeliveredPosition) -> None:
        self.busy, self.forgets = False, False

    def on_stalled(self, cseq: int) -> None:
        self.busy = False
        self.ask()


limits = st.fixed_dictionaries(
    {
        "max_msgs": st.sampled_from([-1, -1, 4]),
        "max_msgs_per_subject": st.sampled_from([-1, -1, 1, 2]),
    }
)


class CopyRules(RuleBasedStateMachine):
    """A copy, its origins, and the list that it should be."""

    mirrors: bool

    @initialize(limits=limits, tail_bytes=st.sampled_from([1, 400, 1 << 20]))
    def create(self, limits: dict[str, int], tail_bytes: int) -> None:
        names = ["A"] if self.mirrors else ["A", "B"]
        sources = [StreamSource(name=name) for name in names]
        planned: dict[str, Any] = (
            {"mirror": sources[0]} if self.mirrors else {"sources": tuple(sources)}
        )
        self.bench = StreamBench(
            StreamConfig(name="C", max_msg_size=-1, **(planned | limits)), tail_bytes
        )
        self.limits = limits
        origins = [Origin(s, "C", "$G", "", mirrors=self.mirrors) for s in sources]
        self.stands = [Stand(origin, self.bench.runner.sourcing) for origin in origins]
        # Sequence in the copy, subject, block, payload; what limits keep of it.
        self.model: list[tuple[int, bytes, bytes, bytes]] = []
        self.last = 0
        self.planned: set[tuple[str, int, int]] = set()
        # A purge of a mirror may go beyond what the origin has.
        self.excused = 0
        self.attach()

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.bench.close()

    def attach(self) -> None:
        """Have the (restarted) stream follow the origins."""
        sourcing: Any = self.bench.runner.sourcing
        sourcing._mirrors = self.mirrors
        sourcing._followers = {stand.origin.key: stand for stand in self.stands}
        for stand in self.stands:
            stand.sourcing, stand.busy = sourcing, False
            stand.ask()

    # -- origins -----------------------------------------------------------------------------

    @rule(
        place=st.integers(0, 1),
        subject=st.sampled_from(SUBJECTS),
        block=st.sampled_from(PARTS),
        count=st.integers(1, 4),
    )
    def publish(self, place: int, subject: bytes, block: bytes, count: int) -> None:
        stand = self.stands[place % len(self.stands)]
        for _ in range(count):
            stand.last += 1
            self.bench.clock.time += 7
            payload = b"%d" % self.bench.clock.time
            stand.rows.append(Message(stand.last, self.bench.clock.time, subject, block, payload))

    @rule(place=st.integers(0, 1), seq=st.integers(1, 20))
    def delete(self, place: int, seq: int) -> None:
        stand = self.stands[place % len(self.stands)]
        stand.rows = [m for m in stand.rows if m.seq != seq]

    @precondition(lambda self: not self.mirrors)
    @rule(place=st.integers(0, 1))
    def make_anew(self, place: int) -> None:
        """The origin is deleted and created again: another stream of the same name."""
        stand = self.stands[place]
        stand.rows, stand.last, stand.made = [], 0, stand.made + 1
        stand.ask()

    # -- copying -----------------------------------------------------------------------------

    @rule(place=st.integers(0, 1), limit=st.integers(1, 6))
    def deliver(self, place: int, limit: int) -> None:
        self.stands[place % len(self.stands)].deliver(limit)

    @rule(back=st.integers(0, 3))
    def interrupt(self, back: int) -> None:
        """Every consumer is lost."""
        for stand in self.stands:
            stand.ask(back)

    def _submit(self) -> bool:
        sourcing: Any = self.bench.runner.sourcing
        ready = any(stand.waiting for stand in self.stands)
        if ready:
            self.bench.run(self._call(sourcing._ready))
        return ready

    async def _call(self, ready: Any) -> None:
        ready(self.stands[0])

    def _await_idle(self) -> None:
        """Let the callbacks of the loop run."""
        self.bench.run(asyncio.sleep(0))
        self.bench.run(asyncio.sleep(0))

    @rule()
    def store(self) -> None:
        if self._submit():
            offered = [(stand, stand.offered) for stand in self.stands]
            self.bench.flush()
            self._await_idle()
            self._accept(offered)

    @rule()
    def catch_up(self) -> None:
        """Copy all there is: nothing of it may be missing then."""
        self.interrupt(0)
        for stand in self.stands:
            stand.deliver(1000)
        self.store()

        for stand in self.stands:
            for m in stand.rows:
                excused = self.mirrors and m.seq <= self.excused
                assert excused or (stand.origin.key, stand.made, m.seq) in self.planned

    @rule()
    def store_in_vain(self) -> None:
        if self._submit():
            self.bench.flush(refused=api_error("JSStreamStoreFailed", err="disk full"))
            self._await_idle()

    @rule(commits=st.booleans())
    def crash(self, commits: bool) -> None:
        """Crash before or right after the commit of what waits."""
        if self._submit():
            plan = self.bench.run(self.bench.runner.next_plan(4096, self.bench.clock.now()))
            assert plan is not None
            if commits:
                self.bench.store.commit(plan)
                self._accept([(stand, stand.offered) for stand in self.stands])
        self.bench.reload()
        self.attach()

    @rule(seq=st.integers(0, 8), crashes=st.booleans())
    def purge(self, seq: int, crashes: bool) -> None:
        self.bench.serve(self.bench.runner.requests.purge(None, seq or None, None))
        self.model = [row for row in self.model if seq and row[0] >= seq]
        self.last = self.excused = self.bench.machine.last_seq
        if crashes:
            self.bench.reload()
        self.attach()

    # -- the model ---------------------------------------------------------------------------

    def _accept(self, offered: list[tuple[Stand, list[Message]]]) -> None:
        for stand, messages in offered:
            for m in messages:
                if (stand.origin.key, stand.made, m.seq) in self.planned:
                    continue
                if self.mirrors and m.seq <= self.last:
                    continue
                self.planned.add((stand.origin.key, stand.made, m.seq))
                block = RETAINED.get(m.block, m.block)
                if self.mirrors:
                    self.last = m.seq
                else:
                    self.last += 1
                    line = b"Nats-Stream-Source: %b %d > > %b %b\r\n\r\n" % (
                        stand.origin.source.name.encode(),
                        m.seq,
                        m.subject,
                        stand.identity.encode(),
                    )
                    block = (block[:-2] if block else b"NATS/1.0\r\n") + line
                self.model.append((self.last, m.subject, block, m.payload))
            stand.offered = []
        self._limit()

    def _limit(self) -> None:
        keep, most = self.limits["max_msgs_per_subject"], self.limits["max_msgs"]
        if keep > 0:
            for subject in SUBJECTS:
                mine = [row for row in self.model if row[1] == subject]
                gone = set(mine[: max(len(mine) - keep, 0)])
                self.model = [row for row in self.model if row not in gone]
        if most > 0:
            self.model = self.model[-most:]

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "bench"):
            return
        live = [(seq, s, block, body) for seq, _, s, block, body in self.bench.live()]
        assert live == self.model
        assert self.bench.machine.msgs == len(self.model)
        assert self.bench.machine.last_seq == self.last


class MirrorRules(CopyRules):
    mirrors = True


class SourceRules(CopyRules):
    mirrors = False


_SETTINGS = settings(
    max_examples=120,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestMirror = MirrorRules.TestCase
TestMirror.settings = _SETTINGS
TestSources = SourceRules.TestCase
TestSources.settings = _SETTINGS
