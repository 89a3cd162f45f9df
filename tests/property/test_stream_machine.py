"""The stream machine, its tail, its commands and its reopening against a list of messages.

Rules publish batches, move time, purge, delete, sweep, lose commits, crash and change limits;
after each step everything a client can ask must be what the list says.
"""

# Subject: deduplication, limits, SQL, random histories

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from core.errors import ApiError
from core.jetstream.log.subjects import last_by_subject, next_by_subject
from core.model.api_errors import api_error
from core.model.stream import Discard, Storage, StreamConfig
from core.protocol.messages import MessageColumns
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import StreamPlan
from core.rules.stream.plans.planner import Planner
from core.rules.stream.preconditions import NO_PRECONDITIONS
from core.subjects.subject import matches
from core.units import NANOS_PER_SECOND
from tests.property.stream_model import Publish, StreamModel
from tests.support.memory_store import is_due
from tests.support.streams import StreamBench, saved, stored_subjects

MS = 1_000_000
SUBJECTS = [b"a.1", b"a.1", b"a.2", b"a.2", b"b.1", b"b.2.x", b"a.*", b"b.>"]
FILTERS = [b"a.1", b"a.*", b"b.>", b">", b"c.1", b"*.1"]

subjects = st.sampled_from(SUBJECTS)
sequences = st.integers(0, 30)
ids = st.sampled_from([b"i1", b"i2", b"i3"])
header = st.one_of(
    st.tuples(st.just(b"Nats-Msg-Id"), ids),
    st.tuples(st.just(b"Nats-Rollup"), st.sampled_from([b"sub", b"sub", b"all"])),
    st.tuples(st.just(b"Nats-Expected-Last-Sequence"), sequences.map(lambda n: b"%d" % n)),
    st.tuples(st.just(b"Nats-Expected-Last-Subject-Sequence"), sequences.map(lambda n: b"%d" % n)),
    st.tuples(st.just(b"Nats-Expected-Last-Msg-Id"), ids),
    st.tuples(st.just(b"X-Other"), st.just(b"v")),
    st.tuples(st.just(b"Nats-TTL"), st.sampled_from([b"1", b"1", b"2s", b"never", b"00", b"0"])),
    st.tuples(st.just(b"KV-Operation"), st.sampled_from([b"PURGE", b"DEL"])),
)


@st.composite
def publishes(draw: Any) -> Publish:
    subject, payload = draw(subjects), draw(st.binary(max_size=24))
    found = dict(draw(st.lists(header, max_size=2))) if draw(st.booleans()) else {}
    if b"Nats-Expected-Last-Subject-Sequence" in found and draw(st.booleans()):
        found[b"Nats-Expected-Last-Subject-Sequence-Subject"] = draw(st.sampled_from(FILTERS))
    return Publish(subject, payload, tuple(found.items()))


lifetimes = st.sampled_from(
    [(False, 0), (False, 0), (True, 0), (True, NANOS_PER_SECOND), (True, 2 * NANOS_PER_SECOND)]
)


def _with_lifetimes(config: StreamConfig, lives: tuple[bool, int]) -> StreamConfig:
    allowed, marker_ttl = lives
    return msgspec.structs.replace(
        config, allow_msg_ttl=allowed, subject_delete_marker_ttl=marker_ttl
    )


configs = st.builds(
    _with_lifetimes,
    lives=lifetimes,
    config=st.builds(
        StreamConfig,
        name=st.just("S"),
        subjects=st.just((">",)),
        storage=st.sampled_from(Storage),
        discard=st.sampled_from(Discard),
        discard_new_per_subject=st.booleans(),
        max_msgs=st.sampled_from([-1, -1, 1, 3, 8]),
        max_bytes=st.sampled_from([-1, -1, 60, 200, 500]),
        max_msgs_per_subject=st.sampled_from([-1, -1, 1, 1, 2, 3]),
        max_age=st.sampled_from([0, 0, 105 * MS, 1005 * MS]),
        max_msg_size=st.just(-1),
        duplicate_window=st.sampled_from([0, 205 * MS, 205 * MS, 2005 * MS]),
        allow_rollup_hdrs=st.just(True),
        first_seq=st.sampled_from([0, 0, 10]),
    ),
)


class StreamRules(RuleBasedStateMachine):
    """Both sides, driven by the same steps."""

    @initialize(config=configs, tail_bytes=st.sampled_from([1, 400, 1 << 20]))
    def create(self, config: StreamConfig, tail_bytes: int) -> None:
        self.bench = StreamBench(config, tail_bytes)
        last = max(config.first_seq, 1) - 1
        self.model = StreamModel(config, last_seq=last)
        self.replies = 0

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.bench.close()

    @property
    def now(self) -> int:
        return self.bench.clock.now()

    def _gather(self, batch: list[Publish]) -> list[bytes]:
        replies = [b"reply.%d" % (self.replies + i) for i in range(len(batch))]
        self.replies += len(batch)
        for publish, reply in zip(batch, replies, strict=True):
            self.bench.gather(publish.subject, publish.payload, publish.block(), reply)
        return replies

    def _aim(self, batch: list[Publish], hits: list[bool]) -> list[Publish]:
        """Make some of the expectations come true, as of before the batch."""
        aimed = []
        for publish, hit in zip(batch, hits, strict=False):
            headers = dict(publish.headers)
            if hit and b"Nats-Expected-Last-Sequence" in headers:
                headers[b"Nats-Expected-Last-Sequence"] = b"%d" % self.model.last_seq
            if hit and b"Nats-Expected-Last-Subject-Sequence" in headers:
                stored = self.model.of(publish.subject)
                last = stored[-1].seq if stored else 0
                headers[b"Nats-Expected-Last-Subject-Sequence"] = b"%d" % last
            if hit and b"Nats-Expected-Last-Msg-Id" in headers and self.model.last_id:
                headers[b"Nats-Expected-Last-Msg-Id"] = self.model.last_id
            aimed.append(Publish(publish.subject, publish.payload, tuple(headers.items())))
        return aimed

    @rule(
        batch=st.lists(publishes(), min_size=1, max_size=8),
        hits=st.lists(st.booleans(), min_size=8),
    )
    def publish(self, batch: list[Publish], hits: list[bool]) -> None:
        batch = self._aim(batch, hits)
        replies = self._gather(batch)

        self.bench.flush()

        expected = self.model.publish(batch, self.now)
        assert [_read(self.bench.answers.pop(r)) for r in replies] == expected

    @rule(batch=st.lists(publishes(), min_size=1, max_size=5))
    def publish_in_vain(self, batch: list[Publish]) -> None:
        """The commit is refused: every publisher is told so, and nothing has changed."""
        replies = self._gather(batch)

        self.bench.flush(refused=api_error("JSStreamStoreFailed", err="disk full"))

        before = self.model.last_seq
        for reply in replies:
            kind, value = _read(self.bench.answers.pop(reply))
            assert kind == "error" or (kind == "duplicate" and value <= before)

    @rule(subject=subjects, crashes=st.booleans())
    def roll_up(self, subject: bytes, crashes: bool) -> None:
        self.publish([Publish(subject, b"", ((b"Nats-Rollup", b"sub"),))], [False])
        if crashes:
            self.crash()

    @rule(steps=st.sampled_from([1, 5, 12, 60]))
    def let_time_pass(self, steps: int) -> None:
        self.bench.clock.time += steps * 10 * MS

    @rule()
    def expire(self) -> None:
        self.bench.serve(self.bench.runner.requests.trim())

        self.model.expire(self.now)

    @rule(batch=st.lists(publishes(), min_size=1, max_size=4), crashes=st.booleans())
    def outlive(self, batch: list[Publish], crashes: bool) -> None:
        """Messages expire, and so do the markers they leave; rows may outlast a crash."""
        self.publish(batch, [False] * 8)
        for _ in range(2):
            self.let_time_pass(110)
            self.expire()
            if crashes:
                self.crash()

    @rule(pattern=st.sampled_from([None, *FILTERS]), seq=sequences, keep=st.integers(0, 3))
    def purge(self, pattern: bytes | None, seq: int, keep: int) -> None:
        if seq and keep:
            keep = 0
        text = pattern.decode() if pattern else None
        purged = self.bench.serve(self.bench.runner.requests.purge(text, seq or None, keep or None))

        assert purged == self.model.purge(pattern or b">", seq, keep)

    @rule(seq=sequences)
    def delete(self, seq: int) -> None:
        there = [m for m in self.model.messages if m.seq == seq]
        request = self.bench.runner.requests.delete_message(seq)
        if there:
            self.bench.serve(request)
            self.model.drop(there)
        else:
            with pytest.raises(ApiError):
                self.bench.serve(request)

    @precondition(lambda self: self.model.messages)
    @rule(data=st.data(), crashes=st.booleans())
    def delete_one_of(self, data: st.DataObject, crashes: bool) -> None:
        self.delete(data.draw(st.sampled_from([m.seq for m in self.model.messages])))
        if crashes:
            self.crash()

    @rule()
    def sweep(self) -> None:
        runner = self.bench.runner
        self.bench.run(self.bench.janitor.finish(runner.log))

        assert sorted(self.bench.store.rows) == [m.seq for m in self.model.messages]
        assert all(seq >= runner.log.tail.start for seq in runner.log.removed.hidden)

    @rule()
    def crash(self) -> None:
        """Only rows, head and the ids of what was removed remain.

        What is due leaves before anybody can ask for it.
        """
        rows = self.bench.store.rows
        self.bench.reload()

        if self.model.last_seq not in rows or not self.model.messages:
            self.model.last_id = b""
        if self.model.config.allow_msg_ttl:
            self.expire()

    @rule(config=configs)
    def change_limits(self, config: StreamConfig) -> None:
        old = self.model.config
        config = msgspec.structs.replace(
            config,
            storage=old.storage,
            first_seq=old.first_seq,
            duplicate_window=old.duplicate_window,
            allow_msg_ttl=old.allow_msg_ttl or config.allow_msg_ttl,
        )
        if config.allow_msg_ttl:
            self.expire()
        self.bench.config = config
        self.bench.serve(self.bench.runner.reconfigure(config, saved))

        self.model.config = config
        self.model.expire(self.now)

    # -- what must hold ----------------------------------------------------------------------

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "bench"):
            return
        machine, model = self.bench.machine, self.model
        head = self.bench.store.head
        assert machine.msgs == head.msgs == len(model.messages)
        assert machine.bytes == head.bytes == model.nbytes()
        assert machine.last_seq == head.last_seq == model.last_seq
        assert machine.last_ts == head.last_ts == model.last_ts
        found = {s: (n, last) for s, n, last in machine.index.items()}
        there = {m.publish.subject for m in model.messages}
        assert found == {s: (len(model.of(s)), model.of(s)[-1].seq) for s in there}
        first = model.messages[0].seq if model.messages else model.last_seq + 1
        assert head.first_seq <= first
        assert machine.first_seq <= first

    @invariant()
    def readers_agree(self) -> None:
        if not hasattr(self, "bench"):
            return
        bench, model = self.bench, self.model
        wanted = [
            (m.seq, m.ts, m.publish.subject, m.publish.block(), m.publish.payload)
            for m in model.messages
        ]
        assert bench.live() == wanted
        by_seq = {row[0]: row for row in wanted}
        for seq in range(model.last_seq + 2):
            assert bench.run(bench.runner.log.get(seq)) == by_seq.get(seq)

    @invariant()
    def readers_of_sql_agree(self) -> None:
        """Whatever waits for its deletion, rows and records say what is there."""
        if not hasattr(self, "bench"):
            return
        config, now = self.model.config, self.now
        there = [
            m.seq for m in self.model.messages if not is_due(config, m.ts, m.publish.block(), now)
        ]
        assert self.bench.store.shown(config, now) == there

    @invariant()
    def questions_agree(self) -> None:
        if not hasattr(self, "bench"):
            return
        runner, model, run = self.bench.runner, self.model, self.bench.run
        state = run(runner.info(deleted=True)).state
        first = model.messages[0].seq if model.messages else model.last_seq + 1
        assert state.first_seq == (first if model.is_touched else 0)
        there = {m.seq for m in model.messages}
        gaps = [s for s in range(first, model.last_seq + 1) if s not in there] if there else []
        if not model.is_touched and runner.machine.on_file:
            gaps = [0]  # as the reference server has it before the first message
        assert list(state.deleted) == gaps
        assert state.num_deleted == len(gaps)
        middle = (first + model.last_seq) // 2
        for pattern in FILTERS:
            found = [m.seq for m in model.messages if matches(m.publish.subject, pattern)]
            last = run(last_by_subject(runner.log, pattern))
            assert (last[0] if last else 0) == (found[-1] if found else 0)
            after = [s for s in found if s >= middle]
            following = run(next_by_subject(runner.log, pattern, middle))
            assert (following[0] if following else 0) == (after[0] if after else 0)


def _read(answer: bytes) -> tuple[str, int]:
    body = json.loads(answer)
    if "error" in body:
        return "error", body["error"]["err_code"]
    return ("duplicate" if body.get("duplicate") else "ok"), body["seq"]


TestStream = StreamRules.TestCase
TestStream.settings = settings(
    max_examples=120,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


# -- the column form is a shortcut, not another rule -------------------------------------------


class OneByOne(Planner):
    """Checks every message, also those that can be stored as they came."""

    def store_whole(self) -> bool:
        return False


@settings(max_examples=200, deadline=None)
@given(
    config=configs,
    batches=st.lists(
        st.lists(st.tuples(subjects, st.binary(max_size=20)), min_size=1, max_size=12),
        min_size=1,
        max_size=4,
    ),
)
def test_columns_and_messages_one_by_one_give_the_same_plan(
    config: StreamConfig, batches: list[list[tuple[bytes, bytes]]]
) -> None:
    machines = StreamMachine(config), StreamMachine(config)
    now = 1_000_000_000_000

    for batch in batches:
        now += 40 * MS
        plans = []
        for machine, kind in zip(machines, (Planner, OneByOne), strict=True):
            plan = kind(machine, _columns(batch), now, NO_PRECONDITIONS).decide().build()
            machine.apply(plan)
            plans.append(plan)

        assert _preconditions(plans[0]) == _preconditions(plans[1])
        assert _answers(plans[0]) == _answers(plans[1])
        assert list(machines[0].index.items()) == list(machines[1].index.items())


def _columns(batch: list[tuple[bytes, bytes]]) -> MessageColumns:
    columns = MessageColumns()
    for i, (subject, payload) in enumerate(batch):
        columns.add(subject, b"r.%d" % i, b"", payload)
    return columns


def _preconditions(plan: StreamPlan) -> list[object]:
    segment = plan.segment
    rows: list[object] = []
    if segment is not None:
        rows = list(
            zip(segment.seqs, segment.times, segment.subjects, segment.payloads, strict=True)
        )
        rows += [segment.headers, segment.nbytes]
    head = (plan.before, plan.first_seq, plan.last_seq, plan.last_ts, plan.msgs, plan.nbytes)
    gone = [sorted(plan.removed), plan.erased, plan.purged_below]
    return [head, rows, stored_subjects(plan), gone, plan.ids, plan.last_msg_id]


def _answers(plan: StreamPlan) -> list[tuple[bytes, tuple[str, int]]]:
    said = [(reply, _read(body)) for reply, body in plan.answers]
    return said + [(reply, ("ok", seq)) for seq, reply in enumerate(plan.acks, plan.ack_first)]
