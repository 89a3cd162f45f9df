"""Atomic batches against lists: a batch is there as a whole or not at all, whatever fails."""

# Subject: batches

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.model.api_errors import api_error
from core.model.stream import Discard
from core.rules.stream.batches.open_batches import BatchLimits
from core.units import NANOS_PER_SECOND
from tests.support.streams import StreamBench
from tests.unit.rules.stream.support import config

LIMITS = BatchLimits(per_stream=3, total=3, messages=3, timeout=10 * NANOS_PER_SECOND)
CONFIGS = [
    {},
    {"max_msgs": 4},
    {"max_msgs_per_subject": 1},
    {"max_msgs": 4, "discard": Discard.NEW},
]
REFUSED = 10077


@dataclass(frozen=True)
class Sent:
    """A publish: without a batch it is an ordinary one. `step` leads to the batch's next place."""

    subject: bytes
    batch: str = ""
    step: int = 1
    ends: str = ""
    msg_id: str = ""
    expected: int | None = None

    def block(self, seq: int) -> bytes:
        lines = [f"Nats-Msg-Id: {self.msg_id}"] if self.msg_id else []
        if self.batch:
            lines += [f"Nats-Batch-Id: {self.batch}", f"Nats-Batch-Sequence: {seq}"]
        if self.ends:
            lines.append(f"Nats-Batch-Commit: {self.ends}")
        if self.expected is not None:
            lines.append(f"Nats-Expected-Last-Subject-Sequence: {self.expected}")
        return "\r\n".join(["NATS/1.0", *lines, "", ""]).encode() if lines else b""


@dataclass
class Open:
    deadline: int
    messages: list[Sent] = field(default_factory=list)


Answer = tuple[object, ...]
subjects = st.sampled_from([b"a", b"b", b"c"])
ids = st.sampled_from(["", "", "", "i1", "i2"])
lasts = st.sampled_from([None, None, None, 0, 1, 2])
ordinary = st.builds(Sent, subjects, msg_id=ids)
batched = st.builds(
    Sent,
    subjects,
    st.sampled_from(["A", "A", "A", "B", "C", "D"]),
    st.sampled_from([1, 1, 1, 1, 1, 1, 0, 2]),
    st.sampled_from(["", "", "1", "1", "eob", "no"]),
    ids,
    lasts,
)


class BatchRules(RuleBasedStateMachine):
    """Both sides, driven by the same steps."""

    @initialize(limits=st.sampled_from(CONFIGS), tail_bytes=st.sampled_from([1, 1 << 20]))
    def create(self, limits: dict[str, Any], tail_bytes: int) -> None:
        limited = config(duplicate_window=3600 * NANOS_PER_SECOND, allow_atomic=True, **limits)
        self.bench = StreamBench(limited, tail_bytes)
        self.bench.runner.services.batches.own = lambda: LIMITS
        self.messages: list[tuple[int, bytes]] = []
        self.ids: dict[str, int] = {}
        self.open: dict[str, Open] = {}
        self.last_seq = 0
        self.replies = 0
        self.refused = False

    def teardown(self) -> None:
        if hasattr(self, "bench"):
            self.bench.close()

    # -- the lists ---------------------------------------------------------------------------

    def _store(self, sent: Sent) -> None:
        config = self.bench.config
        self.last_seq += 1
        if sent.msg_id:
            self.ids[sent.msg_id] = self.last_seq
        if config.max_msgs_per_subject == 1:
            self.messages = [m for m in self.messages if m[1] != sent.subject]
        self.messages.append((self.last_seq, sent.subject))
        if config.max_msgs > 0:
            del self.messages[: -config.max_msgs]

    def _is_full(self, more: int) -> bool:
        config = self.bench.config
        return config.discard is Discard.NEW and len(self.messages) + more > config.max_msgs

    def _expect_ordinary(self, sent: Sent) -> Answer:
        if sent.msg_id in self.ids:
            return "duplicate", self.ids[sent.msg_id]
        if self._is_full(1) or self.refused:
            return "error", REFUSED
        self._store(sent)
        return "stored", self.last_seq

    def _expect_batched(self, sent: Sent, seq: int) -> Answer:
        batch = self.open.get(sent.batch)
        if batch is None:
            if seq != 1:
                # Nothing less the end is more than any limit.
                size = seq - (sent.ends == "eob")
                return "error", 10199 if size > LIMITS.messages or size < 0 else 10176
            if len(self.open) == LIMITS.per_stream:
                return "error", 10210
            batch = self.open[sent.batch] = Open(0)
        if sent.ends == "no":
            return self._drop(sent, 10200)
        if seq != len(batch.messages) + 1:
            return self._drop(sent, 10176)
        if sent.ends == "eob":
            return self._commit(sent.batch) if batch.messages else self._drop(sent, 10176)
        if seq > LIMITS.messages:
            return self._drop(sent, 10199)
        batch.messages.append(sent)
        if sent.ends:
            return self._commit(sent.batch)
        batch.deadline = self.bench.clock.now() + LIMITS.timeout
        return ("put aside",)

    def _drop(self, sent: Sent, error: int) -> Answer:
        del self.open[sent.batch]
        return "error", error

    def _commit(self, name: str) -> Answer:
        messages = self.open.pop(name).messages
        error = self._fault(messages)
        if error or self.refused:
            return "error", error or REFUSED
        for sent in messages:
            self._store(sent)
        return "stored", self.last_seq, name, len(messages)

    def _fault(self, messages: list[Sent]) -> int:
        known = set(self.ids)
        for place, sent in enumerate(messages):
            if sent.msg_id in known:
                return 10201
            known |= {sent.msg_id} - {""}
            if sent.expected is not None:
                if sent.subject in {m.subject for m in messages[:place]}:
                    return 10164
                last = [seq for seq, subject in self.messages if subject == sent.subject]
                if sent.expected != (last[-1] if last else 0):
                    return 10071
            if self._is_full(place + 1):
                return REFUSED
        return 0

    # -- steps -------------------------------------------------------------------------------

    def _send(self, publishes: list[Sent], refused: bool) -> None:
        places = {name: len(batch.messages) for name, batch in self.open.items()}
        sent_at: list[tuple[Sent, int, bytes]] = []
        for sent in publishes:
            seq = max(places.get(sent.batch, 0) + sent.step, 0)
            places[sent.batch] = 0 if sent.ends else seq
            self.replies += 1
            sent_at.append((sent, seq, b"reply.%d" % self.replies))
            self.bench.gather(sent.subject, b"", sent.block(seq), sent_at[-1][2])
        self.refused = refused
        self.bench.flush(
            refused=api_error("JSStreamStoreFailed", err="disk full") if refused else None
        )
        for sent, seq, reply in sent_at:
            said = _effect(self.bench.answers.pop(reply))
            wanted = self._expect_batched(sent, seq) if sent.batch else self._expect_ordinary(sent)
            assert said == wanted, (sent, seq)

    @rule(publishes=st.lists(st.one_of(batched, batched, ordinary), min_size=1, max_size=10))
    def publish(self, publishes: list[Sent]) -> None:
        self._send(publishes, refused=False)

    @rule(batch=st.lists(st.tuples(subjects, ids, lasts), min_size=1, max_size=3))
    def publish_batch(self, batch: list[tuple[bytes, str, int | None]]) -> None:
        """A batch as clients send it, which is stored more often than not."""
        last = len(batch) - 1
        self._send(
            [
                Sent(subject, "D", ends="1" * (place == last), msg_id=msg_id, expected=expected)
                for place, (subject, msg_id, expected) in enumerate(batch)
            ],
            refused=False,
        )

    @rule(name=st.sampled_from(["A", "B"]))
    def put_aside(self, name: str) -> None:
        """One more message, which gives its batch more time."""
        self._send([Sent(b"a", name)], refused=False)

    @rule(
        publishes=st.lists(st.builds(Sent, subjects, st.just("A"), ends=st.sampled_from(["", "1"])))
    )
    def publish_in_vain(self, publishes: list[Sent]) -> None:
        """The commit is refused: what is put aside stays there, the rest is as if never sent."""
        self._send(publishes, refused=True)

    @rule(seconds=st.sampled_from([4, 6]))
    def wait(self, seconds: int) -> None:
        """Batches that wait too long are dropped."""
        self.bench.clock.time += seconds * NANOS_PER_SECOND

        self.bench.run(self._wake())

        now = self.bench.clock.now()
        self.open = {name: batch for name, batch in self.open.items() if batch.deadline > now}

    async def _wake(self) -> None:
        self.bench.runner.services.timers.run()

    @rule()
    def crash(self) -> None:
        """Only rows and head remain; what was put aside is lost."""
        self.bench.reload()
        self.bench.runner.services.batches.own = lambda: LIMITS

        self.open = {}

    @invariant()
    def what_is_stored_agrees(self) -> None:
        if hasattr(self, "bench"):
            found = [(seq, subject) for seq, _, subject, _, _ in self.bench.live()]
            assert found == self.messages

    @invariant()
    def what_is_put_aside_agrees(self) -> None:
        if hasattr(self, "bench"):
            quota = self.bench.runner.services.batches
            assert quota.batches == len(self.open)
            assert (quota.nbytes == 0) == (not self.open)


def _effect(answer: bytes) -> Answer:
    if not answer:
        return ("put aside",)
    body = json.loads(answer)
    if "error" in body:
        return "error", body["error"]["err_code"]
    if body.get("duplicate"):
        return "duplicate", body["seq"]
    return ("stored", body["seq"], *[body[key] for key in ("batch", "count") if key in body])


TestBatches = BatchRules.TestCase
TestBatches.settings = settings(
    max_examples=60,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
