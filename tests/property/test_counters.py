"""Counters against a list of numbers: whatever goes, fails or crashes, the totals are right."""

# Subject: counters

import json
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.model.api_errors import api_error
from core.model.stream import StreamConfig
from core.rules.stream.plans.sourced import SourcedBatch, plan_sourced
from core.subjects.subject import matches
from tests.support.streams import StreamBench, saved

SUBJECTS = [b"c.a", b"c.b", b"d"]
FILTERS = [b"c.a", b"c.*", b"d", b">"]
ORIGINS = ["A", "B"]

numbers = st.one_of(st.integers(-3, 9), st.integers(-(10**40), 10**40))
subjects = st.sampled_from(SUBJECTS)


@dataclass(frozen=True)
class Increment:
    """What a client sends; without a number it is refused."""

    subject: bytes
    number: int | None
    msg_id: str = ""

    def block(self) -> bytes:
        lines = [] if self.number is None else [f"Nats-Incr: {self.number:+d}"]
        lines += [f"Nats-Msg-Id: {self.msg_id}"] if self.msg_id else []
        return "\r\n".join(["NATS/1.0", *lines, "", ""]).encode() if lines else b""


@dataclass
class Stored:
    """A message of the stream; `told` is what each origin said last."""

    seq: int
    subject: bytes
    total: int
    told: dict[str, int]


increments = st.builds(
    Increment,
    subjects,
    st.one_of(numbers, numbers, st.none()),
    st.sampled_from(["", "", "", "i1", "i2"]),
)


class CounterRules(RuleBasedStateMachine):
    """Both sides, driven by the same steps."""

    @initialize(
        limit=st.sampled_from([-1, 1, 2]),
        most=st.sampled_from([-1, -1, 1, 2, 4]),
        tail_bytes=st.sampled_from([1, 1 << 20]),
    )
    def create(self, limit: int, most: int, tail_bytes: int) -> None:
        config = StreamConfig(
            name="S",
            subjects=(">",),
            max_msgs=most,
            max_bytes=-1,
            max_msg_size=-1,
            max_msgs_per_subject=limit,
            duplicate_window=120_000_000_000,
            allow_msg_counter=True,
        )
        self.bench = StreamBench(config, tail_bytes)
        self.messages: list[Stored] = []
        self.ids: dict[str, int] = {}
        self.last_seq = 0
        self.replies = 0

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.bench.close()

    # -- the list ----------------------------------------------------------------------------

    def _last(self, subject: bytes) -> Stored:
        found = [m for m in self.messages if m.subject == subject]
        return found[-1] if found else Stored(0, subject, 0, {})

    def _store(self, subject: bytes, total: int, told: dict[str, int]) -> None:
        self.last_seq += 1
        self.messages.append(Stored(self.last_seq, subject, total, told))
        limit = self.bench.config.max_msgs_per_subject
        there = [m for m in self.messages if m.subject == subject]
        if 0 < limit < len(there):
            self.messages.remove(there[0])
        if 0 < self.bench.config.max_msgs < len(self.messages):
            del self.messages[0]

    def _expect(self, sent: Increment) -> tuple[object, ...]:
        if sent.msg_id in self.ids:
            return self.ids[sent.msg_id], "duplicate"
        if sent.number is None:
            return 0, 10169
        last = self._last(sent.subject)
        self._store(sent.subject, last.total + sent.number, last.told)
        if sent.msg_id:
            self.ids[sent.msg_id] = self.last_seq
        return self.last_seq, str(last.total + sent.number)

    # -- steps -------------------------------------------------------------------------------

    def _send(self, batch: list[Increment], refused: bool) -> list[tuple[object, ...]]:
        replies = [b"reply.%d" % (self.replies + i) for i in range(len(batch))]
        self.replies += len(batch)
        for sent, reply in zip(batch, replies, strict=True):
            self.bench.gather(sent.subject, b"", sent.block(), reply)
        self.bench.flush(
            refused=api_error("JSStreamStoreFailed", err="disk full") if refused else None
        )
        return [_effect(self.bench.answers.pop(reply)) for reply in replies]

    @rule(batch=st.lists(increments, min_size=1, max_size=8))
    def count(self, batch: list[Increment]) -> None:
        said = self._send(batch, refused=False)

        assert said == [self._expect(sent) for sent in batch]

    @rule(batch=st.lists(increments, min_size=1, max_size=4))
    def count_in_vain(self, batch: list[Increment]) -> None:
        """The commit is refused, and nothing of it counts."""
        for seq, meaning in self._send(batch, refused=True):
            assert meaning in (10077, 10169) or (
                meaning == "duplicate" and seq in self.ids.values()
            )

    @rule(
        origin=st.sampled_from(ORIGINS),
        batch=st.lists(st.tuples(subjects, numbers), min_size=1, max_size=4),
    )
    def copy(self, origin: str, batch: list[tuple[bytes, int]]) -> None:
        """An origin tells its totals, some of which it may have told before."""
        run = SourcedBatch(origin, "", self.last_seq + len(batch))
        for subject, total in batch:
            last = self._last(subject)
            told = {**last.told, origin: total}
            self._store(subject, last.total + total - last.told.get(origin, 0), told)
            run.seqs.append(len(run.seqs) + 1)
            run.times.append(self.bench.clock.now())
            source = f"NATS/1.0\r\nNats-Incr: 1\r\nNats-Stream-Source: {origin} 1 > > x\r\n\r\n"
            run.columns.add(subject, b"", source.encode(), b'{"val":"%d"}' % total)
        self.bench.change(self._plan_of(run))

    def _plan_of(self, run: SourcedBatch) -> Any:
        async def plan(now: int) -> Any:
            preconditions = await self.bench.runner._preconditions.read(run.columns, now)
            return plan_sourced(self.bench.machine, [run], now, preconditions, mirrors=False).plan

        return plan

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.messages:
            gone = data.draw(st.sampled_from(self.messages))
            self.bench.serve(self.bench.runner.requests.delete_message(gone.seq))
            self.messages.remove(gone)

    @rule(pattern=st.sampled_from(FILTERS), keep=st.integers(0, 2))
    def purge(self, pattern: bytes, keep: int) -> None:
        self.bench.serve(self.bench.runner.requests.purge(pattern.decode(), None, keep or None))

        found = [m for m in self.messages if matches(m.subject, pattern)]
        kept = found[len(found) - keep :] if keep else []
        self.messages = [m for m in self.messages if m not in found or m in kept]

    @rule(limit=st.sampled_from([-1, 1, 2]))
    def change_limit(self, limit: int) -> None:
        config = msgspec.structs.replace(self.bench.config, max_msgs_per_subject=limit)
        self.bench.config = config
        self.bench.serve(self.bench.runner.reconfigure(config, saved))

        for subject in SUBJECTS if limit > 0 else ():
            for gone in [m for m in self.messages if m.subject == subject][:-limit]:
                self.messages.remove(gone)

    @rule()
    def crash(self) -> None:
        """Only rows, head and the ids of what was removed remain."""
        self.bench.reload()

    @invariant()
    def what_is_stored_agrees(self) -> None:
        if hasattr(self, "bench"):
            wanted = [(m.seq, m.subject, b'{"val":"%d"}' % m.total) for m in self.messages]
            found = [(seq, subject, body) for seq, _, subject, _, body in self.bench.live()]
            assert found == wanted


def _effect(answer: bytes) -> tuple[object, ...]:
    body = json.loads(answer)
    if "error" in body:
        return body["seq"], body["error"]["err_code"]
    return body["seq"], "duplicate" if body.get("duplicate") else body["val"]


TestCounters = CounterRules.TestCase
TestCounters.settings = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
