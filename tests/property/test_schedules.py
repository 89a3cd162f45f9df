"""Schedules of a stream against a naive model: what is pending, what is sent, what is left."""

# Subject: schedules

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from core.rules.stream.plans.scheduled import Firing, outputs, plan_firings
from core.rules.stream.preconditions import NO_PRECONDITIONS
from core.rules.stream.schedules.pending import schedule_of
from tests.unit.rules.stream.support import SECOND, Stream, block, message

SUBJECTS = st.sampled_from(["a", "b", "c"])
CANCELS = {"Nats_Schedule_Next": "purge"}


def rounded(instant: int) -> int:
    return (instant + SECOND // 2) // SECOND * SECOND


class ScheduleRules(RuleBasedStateMachine):
    """Publishing, cancelling, deleting, and the clock."""

    @initialize(limit=st.sampled_from([1, 3]))
    def create(self, limit: int) -> None:
        self.limit = limit
        self.stream = Stream(allow_msg_schedules=True, max_msgs_per_subject=limit)
        # (sequence, subject, whether a schedule), oldest first
        self.rows: list[tuple[int, str, bool]] = []
        # subject -> sequence, when, interval (0: once)
        self.pending: dict[str, tuple[int, int, int]] = {}
        self.headers: dict[int, bytes] = {}

    def _store(self, subject: str, scheduled: bool = False) -> int:
        """Note one more message; the oldest of its subject may go for it."""
        seq = int(self.stream.machine.last_seq)
        own = [row for row in self.rows if row[1] == subject]
        if len(own) == self.limit:
            self._drop(own[0])
        self.rows.append((seq, subject, scheduled))
        return seq

    def _drop(self, row: tuple[int, str, bool]) -> None:
        self.rows.remove(row)
        if self.pending.get(row[1], (0,))[0] == row[0]:
            del self.pending[row[1]]

    def _purge(self, subject: str) -> None:
        for row in [row for row in self.rows if row[1] == subject]:
            self._drop(row)

    @rule(subject=SUBJECTS, seconds=st.integers(-5, 20), every=st.sampled_from([0, 0, 1, 7]))
    def schedule(self, subject: str, seconds: int, every: int) -> None:
        moment = self.stream.now // SECOND + seconds
        minutes, left = divmod(moment, 60)
        at = f"@at 1970-01-01T{minutes // 60:02}:{minutes % 60:02}:{left:02}Z"
        headers = {
            "Nats_Schedule": f"@every {every}s" if every else at,
            "Nats_Schedule_Target": "out",
        }
        (seq,) = self.stream.publish(message(subject, b"", **headers))
        self._purge(subject)
        assert self._store(subject, True) == seq
        stored = self.stream.machine.last_ts
        due = rounded(stored) + every * SECOND if every else moment * SECOND
        self.pending[subject] = (seq, due, every * SECOND)
        self.headers[seq] = block(**headers)

    @rule(subject=SUBJECTS, headed=st.booleans())
    def plain(self, subject: str, headed: bool) -> None:
        self.stream.publish(message(subject, b"", **({"X": "y"} if headed else {})))
        self._store(subject)
        self.pending.pop(subject, None)

    @rule(subject=SUBJECTS)
    def cancel(self, subject: str) -> None:
        (said,) = self.stream.publish(message("x", b"", Nats_Scheduler=subject, **CANCELS))
        own = [row for row in self.rows if row[1] == subject]
        if own and not own[-1][2]:
            assert said[1] == 10212
            return
        self._purge(subject)
        assert self._store("x") == said

    @rule(place=st.integers(0, 20))
    def delete(self, place: int) -> None:
        if not self.rows:
            return
        row = self.rows[place % len(self.rows)]
        machine = self.stream.machine
        plan = machine.unchanged()
        sizes = dict(machine.index.of_subject(row[1].encode()) or ())
        machine.remove(plan, row[0], row[1].encode(), sizes[row[0]])
        machine.apply(plan.build())
        self._drop(row)

    @rule(passed=st.integers(1, 30_000), at_once=st.integers(1, 3))
    def wait(self, passed: int, at_once: int) -> None:
        """Let milliseconds pass and send what is due, some at a time."""
        self.stream.now += passed * SECOND // 1000
        now = self.stream.now
        while self._due():
            firings = [self._firing(pending) for pending in self._schedules().due(now, at_once)]
            plan, refused = plan_firings(
                self.stream.machine, firings, outputs(firings, now), now, NO_PRECONDITIONS
            )
            assert refused == []
            self.stream.machine.apply(plan.build())
            last = self.stream.machine.last_seq
            for place, firing in enumerate(firings):
                self._sent(firing, last - len(firings) + place + 1)
            self.rows = sorted(self.rows)

    def _due(self) -> list[str]:
        return [s for s, (_, due, _) in self.pending.items() if due <= self.stream.now]

    def _firing(self, pending: Any) -> Firing:
        subject = pending.subject.decode()
        assert self.pending[subject][:2] == (pending.seq, pending.due)
        headers = self.headers[pending.seq]
        schedule = schedule_of(headers)
        assert schedule is not None, "it was published as one"
        firing = Firing(pending, schedule, headers, b"")
        firing.copy(0, headers, b"")
        return firing

    def _sent(self, firing: Firing, seq: int) -> None:
        """Note an output, and what becomes of its schedule."""
        subject = firing.pending.subject.decode()
        own = [row for row in self.rows if row[1] == "out"]
        if len(own) == self.limit:
            self._drop(own[0])
        self.rows.append((seq, "out", False))
        number, due, every = self.pending[subject]
        if not every:
            self._purge(subject)
            return
        following = rounded(due) + every
        if following < self.stream.now:
            following = rounded(self.stream.now) + every
        self.pending[subject] = (number, following, every)

    def _schedules(self) -> Any:
        schedules = self.stream.machine.schedules
        assert schedules is not None, "the stream allows schedules"
        return schedules

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "stream"):
            return
        schedules, machine = self._schedules(), self.stream.machine
        for subject in "abc":
            own = [seq for seq, s, scheduled in self.rows if s == subject and scheduled]
            assert schedules.seq_of(subject.encode()) == (own[-1] if own else 0)
        assert len(schedules) == len(self.pending)
        dues = [due for _, due, _ in self.pending.values()]
        assert schedules.next_due() == (min(dues) if dues else None)
        assert machine.msgs == len(self.rows)
        for subject in ("a", "b", "c", "x", "out"):
            stored = machine.index.of_subject(subject.encode()) or []
            assert [seq for seq, _ in stored] == [r[0] for r in self.rows if r[1] == subject]


TestSchedules = ScheduleRules.TestCase
TestSchedules.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
