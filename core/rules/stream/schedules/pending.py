"""The schedules of one stream that have to fire, with their due times (ADR-51).

A subject has at most one schedule. The schedule no longer fires once another message is stored on
its subject. `Schedules` changes only when messages and due times have been committed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from core.errors import ApiError
from core.model.segment import Segment
from core.rules.stream.headers import SCHEDULE, SCHEDULE_TIME_ZONE, SCHEDULER, find
from core.rules.stream.schedules.schedule import Schedule, parse_schedule

NEVER = 1 << 63
"""The due time of a schedule that is stored and never fires; later than any other time."""

_STALE = 64


@dataclass(slots=True, frozen=True)
class Pending:
    """A message schedule (ADR-51) of a stream that has still to fire, with its due time.

    Attributes:
        subject: The subject of the message that defines the schedule.
        seq: The sequence of that message.
        due: The next due time, in nanoseconds since the Unix epoch.
    """

    subject: bytes
    seq: int
    due: int


def schedule_of(block: bytes) -> Schedule | None:
    """Return the schedule in a stored header block; None if there is none, or it is invalid."""
    pattern = find(block, SCHEDULE)
    if not pattern:
        return None
    try:
        return parse_schedule(pattern, find(block, SCHEDULE_TIME_ZONE))
    except ApiError:
        return None


class Schedules:
    """The schedules of one stream by subject, and a heap of their due times.

    Due times are nanoseconds since the Unix epoch.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, Pending] = {}
        # (time, sequence, subject); outdated entries are skipped when they reach the top.
        self._heap: list[tuple[int, int, bytes]] = []

    def __len__(self) -> int:
        """The number of schedules that will fire."""
        return sum(pending.due < NEVER for pending in self._known.values())

    def seq_of(self, subject: bytes) -> int:
        """Return the sequence of a subject's schedule, even if it never fires (0: no schedule)."""
        pending = self._known.get(subject)
        return 0 if pending is None else pending.seq

    def is_pending(self, pending: Pending) -> bool:
        """Return whether a schedule still exists with the sequence and due time in `pending`."""
        return self._known.get(pending.subject) == pending

    # -- changes -----------------------------------------------------------------------------

    def stored(self, segment: Segment) -> None:
        """Process committed messages, which begin schedules or end the one of their subject."""
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
        """Mark the schedule of a subject as never firing; its message may still be stored."""
        self._known[subject] = Pending(subject, self._known[subject].seq, NEVER)

    def add(self, subject: bytes, seq: int, due: int | None) -> None:
        """Add a schedule in place of the one of its subject.

        `due` is its due time in nanoseconds since the Unix epoch; None: it never fires.
        """
        pending = Pending(subject, seq, NEVER if due is None else due)
        self._known[subject] = pending
        if due is not None:
            if len(self._heap) > 2 * len(self._known) + _STALE:
                self._heap = [(p.due, p.seq, p.subject) for p in self._known.values()]
                heapify(self._heap)
            else:
                heappush(self._heap, (due, seq, subject))

    def move(self, pending: Pending) -> None:
        """Set the next due time of a schedule to that in `pending`, unless it has been removed."""
        if self.seq_of(pending.subject) == pending.seq:
            due = None if pending.due >= NEVER else pending.due
            self.add(pending.subject, pending.seq, due)

    def end(self, pending: Pending) -> None:
        """Remove a schedule, if it still exists."""
        if self.seq_of(pending.subject) == pending.seq:
            del self._known[pending.subject]

    def forget(self, rows: Iterable[tuple[int, bytes, int]]) -> None:
        """Remove the schedules whose messages were removed from the stream.

        `rows` are tuples (sequence, subject, size).
        """
        if self._known:
            for seq, subject, _ in rows:
                if self.seq_of(subject) == seq:
                    del self._known[subject]

    def purged(self, below: int) -> None:
        """Remove the schedules whose messages have sequences below `below`."""
        self._known = {s: p for s, p in self._known.items() if p.seq >= below}

    # -- due schedules -----------------------------------------------------------------------

    def next_due(self) -> int | None:
        """Return the earliest due time, in nanoseconds since the Unix epoch.

        None: no schedule will fire.
        """
        heap = self._heap
        while heap:
            due, seq, subject = heap[0]
            pending = self._known.get(subject)
            if pending is not None and pending.seq == seq and pending.due == due:
                return due
            heappop(heap)
        return None

    def due(self, now: int, limit: int) -> list[Pending]:
        """Return schedules that are due at `now`, in order of their sequences.

        At most `limit` are returned: those with the earliest due times. They stay until `move` or
        `end`. `now` is in nanoseconds since the Unix epoch.
        """
        found: dict[bytes, Pending] = {}
        while len(found) < limit and (when := self.next_due()) is not None and when <= now:
            subject = heappop(self._heap)[2]
            found[subject] = self._known[subject]
        for pending in found.values():
            heappush(self._heap, (pending.due, pending.seq, pending.subject))
        return sorted(found.values(), key=lambda pending: pending.seq)
