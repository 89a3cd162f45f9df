"""Retention by interest and as a work queue against sets of sequences.

Rules publish, let consumers come and go, deliver, acknowledge, give up and crash, with consumer
states that are older than the rows or newer; after each step the rows must be what the sets say.
"""

# Subject: retention

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.model.stream import Retention, StreamConfig
from core.subjects.subject import matches
from tests.support.readers import Reader
from tests.support.streams import StreamBench

SUBJECTS = (b"s.a", b"s.b", b"s.c")
FILTERS = {"a": (), "b": ("s.a",), "c": ("s.b", "s.c"), "d": ("s.*",)}
PARTS = {"b": ("s.a",), "c": ("s.b",)}  # filters of a work queue may not overlap; s.c has nobody

names = st.sampled_from(sorted(FILTERS))


@dataclass(slots=True)
class Wish:
    """What a consumer wants and what it is done with."""

    filters: tuple[str, ...]
    done: set[int] = field(default_factory=set)
    taken: int = 0

    def wants(self, subject: bytes) -> bool:
        return not self.filters or any(matches(subject, f.encode()) for f in self.filters)


class RetentionRules(RuleBasedStateMachine):
    """The keeper of a stream and its readers, side by side with sets."""

    @initialize(by_interest=st.booleans(), tail_bytes=st.sampled_from([1, 64 << 20]))
    def create(self, by_interest: bool, tail_bytes: int) -> None:
        self.by_interest = by_interest
        retention = Retention.INTEREST if by_interest else Retention.WORKQUEUE
        config = StreamConfig(
            name="S", subjects=("s.>",), retention=retention, max_msgs=-1, max_bytes=-1,
            max_msgs_per_subject=-1, max_msg_size=-1, duplicate_window=0,
        )  # fmt: skip
        self.bench = StreamBench(config, tail_bytes=tail_bytes)
        self.readers: dict[str, Reader] = {}
        self.wishes: dict[str, Wish] = {}
        self.subjects: dict[int, bytes] = {}
        self.left: set[int] = set()
        self.last = 0

    def teardown(self) -> None:
        self.bench.close()

    # -- the sets ----------------------------------------------------------------------------

    def _needed(self, seq: int) -> bool:
        subject = self.subjects[seq]
        return any(w.wants(subject) and seq not in w.done for w in self.wishes.values())

    def _await_idle(self, seqs: set[int]) -> None:
        self.left -= {s for s in seqs if not (self.by_interest and self._needed(s))}

    # -- rules -------------------------------------------------------------------------------

    @rule(subjects=st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=6))
    def publish(self, subjects: list[bytes]) -> None:
        for subject in subjects:
            self.bench.gather(subject, b"m")
            self.last += 1
            self.subjects[self.last] = subject
            if not self.by_interest or any(w.wants(subject) for w in self.wishes.values()):
                self.left.add(self.last)
        self.bench.flush()

    @rule(name=names)
    def come(self, name: str) -> None:
        filters = FILTERS[name] if self.by_interest else PARTS.get(name)
        if name in self.readers or filters is None:
            return
        self.readers[name] = Reader(self.bench, name, *filters)
        self.wishes[name] = Wish(filters)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.readers)))
        self._settle_all()
        del self.readers[name], self.wishes[name], self.bench.runner.consumers[name]
        self.bench.serve(self.bench.runner.less_wanted())
        if self.by_interest:
            self.left = {seq for seq in self.left if self._needed(seq)}

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), count=st.integers(1, 5))
    def deliver(self, data: st.DataObject, count: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.readers)))
        wish = self.wishes[name]
        ahead = [s for s in sorted(self.left) if s > wish.taken and wish.wants(self.subjects[s])]
        if ahead:
            self.readers[name].deliver(*ahead[:count])
            wish.taken = ahead[:count][-1]

    @precondition(lambda self: any(r.machine.pending.first for r in self.readers.values()))
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        name, seqs = self._some_pending(data)
        self.readers[name].machine.ack_each(seqs)
        self.wishes[name].done.update(seqs)
        self._await_idle(set(seqs))

    @precondition(lambda self: any(r.machine.pending.first for r in self.readers.values()))
    @rule(data=st.data())
    def exhaust_deliveries(self, data: st.DataObject) -> None:
        """The last delivery that is allowed was in vain: the message stays where it is."""
        name, seqs = self._some_pending(data)
        self.readers[name].machine.pending.stop_redelivering(seqs[0])

    @rule()
    def crash(self) -> None:
        """Start over from rows and states."""
        self._reopen({name: reader.stored() for name, reader in self.readers.items()})

    @precondition(lambda self: any(r.machine.pending.first for r in self.readers.values()))
    @rule(data=st.data())
    def crash_before_the_removal(self, data: st.DataObject) -> None:
        """A state row tells of acknowledgements whose messages are still there."""
        name, seqs = self._some_pending(data)
        self.readers[name].machine.ack_each(seqs)
        self.wishes[name].done.update(seqs)
        self._await_idle(set(seqs))
        self._reopen({name: reader.stored() for name, reader in self.readers.items()})

    @precondition(lambda self: any(r.machine.pending.first for r in self.readers.values()))
    @rule(data=st.data())
    def crash_before_the_state(self, data: st.DataObject) -> None:
        """Messages are gone of which a state row says that they wait; what is not waits again."""
        states = {name: reader.stored() for name, reader in self.readers.items()}
        name, seqs = self._some_pending(data)
        self.readers[name].machine.ack_each(seqs)
        self._settle_all()
        self.wishes[name].done.update(seqs)
        self._await_idle(set(seqs))
        self.wishes[name].done -= self.left.intersection(seqs)
        self._reopen(states)
        assert not set(self.readers[name].machine.pending.first) - self.left

    def _reopen(self, states: dict[str, bytes]) -> None:
        self.bench.reload()
        self.readers = {n: Reader(self.bench, n, *w.filters) for n, w in self.wishes.items()}
        for name, stored in states.items():
            self.readers[name].restore(stored)
        self.bench.serve(self._connected())

    async def _connected(self) -> None:
        assert self.bench.runner.retention is not None
        self.bench.runner.retention.sweep()
        await self.bench.runner.caught_up()

    def _some_pending(self, data: st.DataObject) -> tuple[str, list[int]]:
        waiting = [n for n, r in sorted(self.readers.items()) if r.machine.pending.first]
        name = data.draw(st.sampled_from(waiting))
        pending = sorted(self.readers[name].machine.pending.first)
        seqs = data.draw(st.lists(st.sampled_from(pending), min_size=1, max_size=4, unique=True))
        return name, sorted(seqs)

    def _settle_all(self) -> None:
        self.bench.serve(self.bench.runner.caught_up())

    # -- what must hold ----------------------------------------------------------------------

    @invariant()
    def rows_are_what_the_sets_say(self) -> None:
        if not hasattr(self, "bench"):
            return
        self._settle_all()
        assert sorted(self.bench.store.rows) == sorted(self.left)
        assert self.bench.machine.msgs == self.bench.store.head.msgs == len(self.left)
        assert self.bench.machine.last_seq == self.last
        first = min(self.left, default=self.last + 1)
        assert self.bench.machine.first_seq <= first


TestRetention: Any = RetentionRules.TestCase
TestRetention.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
