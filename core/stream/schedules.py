"""The schedules of one stream that are to come due (ADR-51).

A subject has one schedule at most. It never comes due any more once something else was stored
there. What is here follows from what plans store and remove, and from the times they note.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from core.errors import ApiError
from core.model.segment import Segment
from core.stream.headers import SCHEDULE, SCHEDULE_TIME_ZONE, SCHEDULER, find
from core.stream.schedule import Schedule, parse_schedule

NEVER = 1 << 63
"""The time of a schedule that is there and never comes due: later than any other."""

_STALE = 64


@dataclass(slots=True, frozen=True)
class Pending:
    """A schedule: its message, and when it comes due next, in nanoseconds since the epoch."""

    subject: bytes
    seq: int
    due: int


def schedule_of(block: bytes) -> Schedule | None:
    """Return the schedule that a stored header block holds (None: none that can be read)."""
    pattern = find(block, SCHEDULE)
    if not pattern:
        return None
    try:
        return parse_schedule(pattern, find(block, SCHEDULE_TIME_ZONE))
    except ApiError:
        return None


class Schedules:
    """Schedules by subject, and a heap of the times they come due."""

    def __init__(self) -> None:
        self._known: dict[bytes, Pending] = {}
        # (time, sequence, subject); what is no longer known so is skipped when it gets to the top.
        self._heap: list[tuple[int, int, bytes]] = []

    def __len__(self) -> int:
        """How many will come due."""
        return sum(pending.due < NEVER for pending in self._known.values())

    def seq_of(self, subject: bytes) -> int:
        """Return the sequence of the schedule of a subject, even if it is over (0: none)."""
        pending = self._known.get(subject)
        return 0 if pending is None else pending.seq

    def is_pending(self, pending: Pending) -> bool:
        """Whether a schedule is still there and due at that time."""
        return self._known.get(pending.subject) == pending

    # -- what happens ------------------------------------------------------------------------

    def stored(self, segment: Segment) -> None:
        """Take committed messages: schedules begin, and end with what replaces them."""
        blocks = segment.headers
        if blocks is None:
            if self._known:
                for subject in self._known.keys() & set(segment.subjects):
                    self._stop(subject)
            return
        rows = zip(segment.seqs, segment.times, segment.subjects, blocks, strict=True)
        for seq, stored, subject, block in rows:
            schedule = schedule_of(block) if block else None
            if schedule is not None:
                self.add(subject, seq, schedule.first(stored))
            elif subject in self._known and not (block and find(block, SCHEDULER)):
                self._stop(subject)

    def _stop(self, subject: bytes) -> None:
        """Have a schedule never come due; its message may still be there."""
        self._known[subject] = Pending(subject, self._known[subject].seq, NEVER)

    def add(self, subject: bytes, seq: int, due: int | None) -> None:
        """Take a schedule, in place of that of its subject (None: it never comes due)."""
        pending = Pending(subject, seq, NEVER if due is None else due)
        self._known[subject] = pending
        if due is not None:
            if len(self._heap) > 2 * len(self._known) + _STALE:
                self._heap = [(p.due, p.seq, p.subject) for p in self._known.values()]
                heapify(self._heap)
            else:
                heappush(self._heap, (due, seq, subject))

    def move(self, pending: Pending) -> None:
        """Note when a schedule comes due next, unless it has gone."""
        if self.seq_of(pending.subject) == pending.seq:
            due = None if pending.due >= NEVER else pending.due
            self.add(pending.subject, pending.seq, due)

    def end(self, pending: Pending) -> None:
        """Forget a schedule."""
        if self.seq_of(pending.subject) == pending.seq:
            del self._known[pending.subject]

    def forget(self, rows: Iterable[tuple[int, bytes, int]]) -> None:
        """Hear of (sequence, subject, size) of messages that left."""
        if self._known:
            for seq, subject, _ in rows:
                if self.seq_of(subject) == seq:
                    del self._known[subject]

    def purged(self, below: int) -> None:
        """Hear that all messages below a sequence left."""
        self._known = {s: p for s, p in self._known.items() if p.seq >= below}

    # -- what is due -------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """Return when the next schedule comes due (None: none does)."""
        heap = self._heap
        while heap:
            due, seq, subject = heap[0]
            pending = self._known.get(subject)
            if pending is not None and pending.seq == seq and pending.due == due:
                return due
            heappop(heap)
        return None

    def due(self, now: int, limit: int) -> list[Pending]:
        """Return schedules that are due, the oldest messages first; they stay until told of.

        At most `limit`, those that have been due for longest.
        """
        found: dict[bytes, Pending] = {}
        while len(found) < limit and (when := self.next_due()) is not None and when <= now:
            subject = heappop(self._heap)[2]
            found[subject] = self._known[subject]
        for pending in found.values():
            heappush(self._heap, (pending.due, pending.seq, pending.subject))
        return sorted(found.values(), key=lambda pending: pending.seq)
