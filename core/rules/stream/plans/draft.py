"""The state of a stream during the decision on a batch of publishes.

A message is checked against the committed state and the changes by earlier messages of its batch:
message ids, last sequences, roll-ups, schedules. A stream with discard policy `old` evicts at the
end of the batch, so evictions affect no check of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.rules.stream.headers import MSG_ID
from core.rules.stream.schedules.schedule_headers import ended_by
from core.rules.stream.state.wildcard_purges import PurgedFilters, covered
from core.subjects.subject import compile_filters, has_wildcard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from core.rules.stream.counters import Counting
    from core.rules.stream.machine import StreamMachine
    from core.rules.stream.plan import PlanBuilder
    from core.rules.stream.preconditions import Preconditions


class Message:
    """A published message during its checks.

    Attributes:
        place: Its index in the batch.
        subject: Its subject.
        block: Its header block (b"": none).
        payload: Its payload.
        found: Its `Nats-*` headers.
        rollup: Kind of its roll-up, set by the checks (b"": none).
        is_schedule: Whether it begins a schedule, set by the checks.
    """

    __slots__ = ("block", "found", "is_schedule", "payload", "place", "rollup", "subject")

    def __init__(
        self, place: int, subject: bytes, block: bytes, payload: bytes, found: dict[bytes, bytes]
    ) -> None:
        self.place = place
        self.subject = subject
        self.block = block
        self.payload = payload
        self.found = found
        self.rollup = b""
        self.is_schedule = False


class Draft:
    """The changes that accepted messages of a batch of publishes make, before they are committed.

    Args:
        machine: The committed state.
        subjects: The subjects of all messages of the batch, by index.
        now: Wall-clock time in nanoseconds since the Unix epoch.
        preconditions: Data that the decision needs beside the committed state.
        dedups: Whether message ids are deduplicated.
        counting: The totals of the batch, in a stream of counters.
    """

    def __init__(
        self,
        machine: StreamMachine,
        subjects: list[bytes],
        now: int,
        preconditions: Preconditions,
        *,
        dedups: bool,
        counting: Counting | None,
    ) -> None:
        self.machine = machine
        self.config = machine.config
        self.now = now
        self.preconditions = preconditions
        self.dedups = dedups
        self.counting = counting
        self.next_seq = machine.last_seq + 1
        self.last_msg_id = machine.last_msg_id
        self.ids: dict[bytes, int] = {}
        # Header blocks of the accepted messages as they will be stored.
        self.blocks: list[bytes | None] = []
        # Answers to the messages that are not accepted, by place.
        self.refused: dict[int, bytes] = {}
        # Subjects of the accepted messages, for atomic batches only.
        self.written: set[bytes] = set()
        # Subjects of schedules in the batch, and subjects whose schedules the batch ends.
        self.schedules: dict[bytes, int] = {}
        self._ended: set[bytes] = set()
        self._subjects = subjects
        # Last sequence by subject within the batch, over the first `_scanned` messages.
        self._last_seqs: dict[bytes, int] = {}
        self._scanned = 0
        # Index among the accepted messages of the newest roll-up of each subject or filter, and of
        # the newest roll-up of all subjects.
        self._rollups: dict[bytes, int] = {}
        self._wiped = -1
        # Number of accepted messages that are replaced, by subject; and the filters by which stored
        # messages are replaced.
        self._rolled: dict[bytes, int] = {}
        self._purged = PurgedFilters()

    # -- queries -----------------------------------------------------------------------------

    def find_id(self, msg_id: bytes) -> int | None:
        """Return the sequence of a message id within the duplicate window (None: it is new)."""
        return self.ids.get(msg_id) or self.machine.dedup.find(msg_id, self.now)

    def is_stored(self, subject: bytes) -> bool:
        """Return whether messages on a subject are stored.

        With interest retention, a message that no consumer matches only uses a sequence.
        """
        return subject not in self.preconditions.no_interest

    def last_of(self, pattern: bytes, place: int) -> int:
        """Return the last sequence of a subject or filter before message `place` of the batch.

        0: there is none.
        """
        self._scan(place)
        return self._last(pattern, self._last_seqs, self._is_gone)

    def committed_last_of(self, pattern: bytes) -> int:
        """Return the last committed sequence of a subject or filter, without the batch.

        0: there is none.
        """
        return self._last(pattern, {}, _nothing)

    def _is_gone(self, subject: bytes) -> bool:
        """Return whether the batch has removed all messages stored before it on a subject."""
        return self._wiped >= 0 or self._purged.have(subject)

    def _last(
        self, pattern: bytes, known: dict[bytes, int], is_gone: Callable[[bytes], bool]
    ) -> int:
        index = self.machine.index
        if b"*" not in pattern and b">" not in pattern:
            last = known.get(pattern)
            if last is None:
                return 0 if is_gone(pattern) else index.last(pattern)
            return last
        match = compile_filters([pattern]) or _everything
        for _ in index.prepare((pattern,)):
            pass
        matching = (s for part in index.search((pattern,)) for s in part)
        found = {s: index.last(s) for s in matching if not is_gone(s)}
        found.update((s, last) for s, last in known.items() if match(s))
        return max(found.values(), default=0)

    def _scan(self, through: int) -> None:
        """Record the last sequences of the accepted messages with indices below `through`."""
        start, refused = self._scanned, self.refused
        self._scanned = through
        places = [i for i in range(start, through) if i not in refused]
        seqs = range(self.next_seq - len(places), self.next_seq)
        self._last_seqs.update(zip([self._subjects[i] for i in places], seqs, strict=True))

    # -- changes -----------------------------------------------------------------------------

    def accept(self, message: Message) -> None:
        """Accept a message: it gets the next sequence of the stream."""
        msg_id = message.found.get(MSG_ID)
        self.last_msg_id = msg_id or b""
        if msg_id:
            self.ids[msg_id] = self.next_seq
        self.next_seq += 1
        self.blocks.append(message.block or None)

    def roll_up_subject(self, subject: bytes, place: int) -> None:
        """Let the message at index `place` replace all earlier messages of its subject.

        Call this before it is accepted. A subject with wildcards selects the subjects to replace,
        as in a purge.
        """
        count = self._rollups[subject] = self._rolled[subject] = len(self.blocks)
        if not has_wildcard(subject):
            return
        self._scan(place)
        for written in covered(self._last_seqs, subject):
            del self._last_seqs[written]
            self._rolled[written] = count
        self._purged.add(subject)

    def roll_up_all(self, place: int) -> None:
        """Let the message at index `place` replace all earlier messages of the stream.

        Call this before it is accepted.
        """
        self._wiped = len(self.blocks)
        self._last_seqs.clear()
        if self.counting is not None:
            self.counting.wipe()
        self._scanned = place

    def replace_stored(self) -> None:
        """Let the batch as a whole replace all messages stored before it."""
        self._wiped = 0

    def end_schedule(self, message: Message) -> None:
        """Remove the schedule that a message names in its headers, if it names one.

        Call this before the message is accepted.
        """
        subject = ended_by(message.found)
        if subject:
            self._scan(message.place)
            self._last_seqs[subject] = 0
            self._rollups[subject] = self._rolled[subject] = len(self.blocks) + 1
            self._ended.add(subject)

    # -- the plan ----------------------------------------------------------------------------

    def remove_replaced(self, plan: PlanBuilder, subjects: list[bytes]) -> set[int] | None:
        """Add the messages that roll-ups of the batch remove to the batch's plan (effect).

        Args:
            plan: The plan.
            subjects: The subjects of the accepted messages.

        Returns:
            The indices of accepted messages that are replaced themselves (None: there are no
            roll-ups).
        """
        wiped, rolled, machine = self._wiped, self._rolled, self.machine
        if not self._rollups and wiped < 0:
            return None
        if wiped >= 0:
            plan.purged_below = machine.last_seq + 1
            plan.msgs = plan.nbytes = 0
        else:
            first = machine.last_seq + 1
            plan.purges += [(named, first + place) for named, place in self._rollups.items()]
            covered_too = (s for pattern in self._purged for s in machine.index.covered(pattern))
            for subject in dict.fromkeys((*rolled, *covered_too)):
                self._remove_subject(plan, subject)
        place_of = rolled.get
        return {i for i, s in enumerate(subjects) if i < wiped or i < place_of(s, 0)}

    def _remove_subject(self, plan: PlanBuilder, subject: bytes) -> None:
        machine = self.machine
        # With one message per subject, the next leader derives from the rows which messages a newer
        # one of the same subject replaced.
        own = self._rollups.get(subject, -1)
        is_replaced = own == self._rolled.get(subject)
        is_derived = machine.limit == 1 and is_replaced and subject not in self._ended
        stored: Sequence[tuple[int, int]] | None = machine.index.of_subject(subject)
        if stored is None:
            stored = self.preconditions.replaced.get(subject, ())
        for seq, size in stored:
            machine.remove(plan, seq, subject, size)
            (plan.replaced if is_derived else plan.erased).append(seq)


def _everything(_subject: bytes) -> bool:
    return True


def _nothing(_subject: bytes) -> bool:
    return False
