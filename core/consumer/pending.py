"""Deliveries that wait for an acknowledgement.

A stream sequence is *pending* from its first delivery until it is acknowledged, terminated,
removed from the stream, or delivered `max_deliver` times. It keeps the consumer sequence of its
first delivery, so the ack floor never runs ahead of a message that is being redelivered.

Cost is kept off the single message: a first delivery is one `dict.update` and one heap entry for
the whole batch. Only messages that leave that path (redelivered, delayed, in progress) have a
deadline of their own in `_due`; the value 0 there means "in the redelivery queue". Entries of the
heap and of the queue are never searched for: a stale one no longer agrees with `_due` and is
skipped when its turn comes.

The ack floor is the highest delivery below which nothing is pending. It moves only when something
was acknowledged, and is looked for only when somebody asks.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice, repeat, takewhile

_QUEUED = 0
_MARK_EVERY = 100_000_000
_MARKS_MAX = 4096


def wait_of(waits: Sequence[int], count: int) -> int:
    """How long to wait for the acknowledgement of the `count`-th delivery."""
    return waits[min(count, len(waits)) - 1]


class Pending:
    """The pending set of one consumer with its deadlines, redelivery queue and ack floor."""

    __slots__ = (
        "_due",
        "_floor_stale",
        "_heap",
        "_heap_size",
        "_queue",
        "_serial",
        "counts",
        "first",
        "floor_cseq",
        "floor_sseq",
        "marks",
    )

    def __init__(self) -> None:
        self.first: dict[int, int] = {}
        """Stream sequence -> consumer sequence of the first delivery, ascending in both."""
        self.counts: dict[int, int] = {}
        """Stream sequence -> deliveries, for those delivered more than once (or given up)."""
        self.floor_cseq = 0
        self.floor_sseq = 0
        self.marks: deque[tuple[int, int]] = deque()
        """(consumer sequence, time): first deliveries from there on happened about then."""
        self._due: dict[int, int] = {}
        self._heap: list[tuple[int, int, Sequence[int], bool]] = []
        self._heap_size = 0
        self._queue: deque[int] = deque()
        self._serial = 0
        self._floor_stale = False

    def __len__(self) -> int:
        return len(self.first)

    # deliveries

    def add(self, sseqs: Sequence[int], cseq: int, now: int, wait: int) -> None:
        """Record first deliveries: `sseqs` got consumer sequences from `cseq` on."""
        self.first.update(zip(sseqs, range(cseq, cseq + len(sseqs)), strict=True))
        if not self.marks or now - self.marks[-1][1] >= _MARK_EVERY:
            self.marks.append((cseq, now))
            if len(self.marks) > _MARKS_MAX:
                self.marks = deque(list(self.marks)[::2])
        self._push(now + wait, sseqs, first=True)

    def again(self, sseq: int, count: int, deadline: int) -> None:
        """Record a redelivery, the `count`-th delivery of this message."""
        self.counts[sseq] = count
        self.delay(sseq, deadline)

    def delay(self, sseq: int, deadline: int) -> None:
        """Give one pending message a deadline of its own."""
        self._due[sseq] = deadline
        self._push(deadline, (sseq,), first=False)

    def deliveries(self, sseq: int) -> int:
        """How often this pending message was delivered."""
        return self.counts.get(sseq, 1)

    # acknowledgements

    def ack(self, sseqs: Iterable[int]) -> None:
        """Forget deliveries; sequences that are not pending do no harm."""
        sseqs = list(sseqs)
        before = len(self.first)
        deque(map(self.first.pop, sseqs, repeat(None)), maxlen=0)
        if self.counts or self._due:
            deque(map(self.counts.pop, sseqs, repeat(None)), maxlen=0)
            deque(map(self._due.pop, sseqs, repeat(None)), maxlen=0)
        if len(self.first) < before:
            self._floor_stale = True

    def ack_all(self, sseq: int, cseq: int) -> None:
        """Forget every delivery up to `sseq` and put the floor there (never back)."""
        if sseq <= self.floor_sseq or cseq <= self.floor_cseq:
            return
        self.ack(list(takewhile(lambda seq: seq <= sseq, self.first)))
        if self.counts:
            self.ack([seq for seq in self.counts if seq <= sseq])
        self.floor_cseq, self.floor_sseq = cseq, sseq
        self._floor_stale = False
        if not self.first:
            self._reset_deadlines()

    def settle(self, delivered_cseq: int, delivered_sseq: int) -> None:
        """After acknowledgements: with nothing pending the floor is what was delivered."""
        if not self.first and self._floor_stale:
            self.floor_cseq, self.floor_sseq = delivered_cseq, delivered_sseq
            self._floor_stale = False
            self._reset_deadlines()

    def floor(self) -> tuple[int, int]:
        """The ack floor as (consumer sequence, stream sequence)."""
        if self._floor_stale and self.first:
            sseq, cseq = next(iter(self.first.items()))
            if cseq - 1 > self.floor_cseq:
                self.floor_cseq = cseq - 1
                self.floor_sseq = max(self.floor_sseq, sseq - 1)
            self._floor_stale = False
            while len(self.marks) > 1 and self.marks[1][0] <= cseq:
                self.marks.popleft()
        return self.floor_cseq, self.floor_sseq

    # deadlines and redelivery

    def deadline(self) -> int | None:
        """When `expire` has something to do, perhaps (a stale entry may make it early)."""
        return self._heap[0][0] if self._heap else None

    def rewait(self, before: Sequence[int], after: Sequence[int]) -> None:
        """Count what is not due yet from its delivery anew, with other waits for each attempt.

        As on the reference server, nothing is due earlier while the first wait stays the same.
        """
        groups = [(deadline, sseqs) for deadline, _, sseqs, first in self._heap if first]
        alone = [(sseq, due) for sseq, due in self._due.items() if due != _QUEUED]
        self._heap, self._heap_size = [], 0
        for deadline, sseqs in groups:
            self._push(deadline + after[0] - before[0], sseqs, first=True)
        for sseq, due in alone:
            count = self.deliveries(sseq)
            change = wait_of(after, count) - wait_of(before, count)
            self.delay(sseq, max(due + change, 1) if change > 0 or after[0] != before[0] else due)

    def expire(self, now: int, max_deliver: int) -> list[int]:
        """Queue what was not acknowledged in time, in stream order.

        Returns:
            Sequences given up because they were delivered `max_deliver` times (-1: no limit).
            They are no longer pending; the floor does not move by itself.
        """
        late: list[int] = []
        while self._heap and self._heap[0][0] <= now:
            deadline, _, sseqs, first = heappop(self._heap)
            self._heap_size -= len(sseqs)
            if first:
                due, pending = self._due, self.first
                late += [seq for seq in sseqs if seq in pending and seq not in due]
            else:
                late += [seq for seq in sseqs if self._due.get(seq) == deadline]
        late.sort()
        given_up = []
        for sseq in late:
            if 0 < max_deliver <= self.counts.get(sseq, 1):
                self.give_up(sseq)
                given_up.append(sseq)
            else:
                self._due[sseq] = _QUEUED
                self._queue.append(sseq)
        return given_up

    def give_up(self, sseq: int) -> None:
        """Stop redelivering; the count stays known (it shows as redelivered)."""
        count = self.counts.get(sseq, 1)
        self.first.pop(sseq, None)
        self._due.pop(sseq, None)
        self.counts[sseq] = count

    def enqueue(self, sseq: int) -> None:
        """Queue a pending message for redelivery unless it is queued already."""
        if self._due.get(sseq) != _QUEUED:
            self._due[sseq] = _QUEUED
            self._queue.append(sseq)

    def is_queued(self, sseq: int) -> bool:
        """Whether the message waits for redelivery."""
        return self._due.get(sseq) == _QUEUED

    def next_queued(self) -> int | None:
        """The message to redeliver next, left in the queue."""
        queue, due = self._queue, self._due
        while queue:
            if due.get(queue[0]) == _QUEUED:
                return queue[0]
            queue.popleft()
        return None

    def later_queued(self, limit: int = 500) -> list[int]:
        """Messages that come up for redelivery after the next one, for reading them together."""
        due = self._due
        return [seq for seq in islice(self._queue, 1, limit) if due.get(seq) == _QUEUED]

    def unqueue(self) -> None:
        """Take the message that `next_queued` showed out of the queue."""
        self._queue.popleft()

    def queued(self) -> int:
        """How many messages wait for redelivery (stale entries dropped first)."""
        if not self._queue:
            return 0
        due = self._due
        self._queue = deque(dict.fromkeys(s for s in self._queue if due.get(s) == _QUEUED))
        return len(self._queue)

    # persisted state

    def armed(self) -> dict[int, int]:
        """Deadlines of single messages; 0 for those in the redelivery queue."""
        return self._due

    def restore(self, groups: Iterable[tuple[int, list[int]]], armed: dict[int, int]) -> None:
        """Set the deadlines of a decoded state: `groups` of first deliveries, and single ones."""
        for deadline, sseqs in groups:
            self._push(deadline, sseqs, first=True)
        for sseq, deadline in armed.items():
            if deadline == _QUEUED:
                self.enqueue(sseq)
            else:
                self.delay(sseq, deadline)

    def _push(self, deadline: int, sseqs: Sequence[int], *, first: bool) -> None:
        self._serial += 1
        heappush(self._heap, (deadline, self._serial, sseqs, first))
        self._heap_size += len(sseqs)
        if self._heap_size > 4 * len(self.first) + 262_144:
            self._compact()

    def _compact(self) -> None:
        """Drop what is no longer pending from the heap."""
        pending, due = self.first, self._due
        kept: list[tuple[int, int, Sequence[int], bool]] = []
        for deadline, serial, sseqs, first in self._heap:
            if first:
                live = [seq for seq in sseqs if seq in pending and seq not in due]
            else:
                live = [seq for seq in sseqs if due.get(seq) == deadline]
            if live:
                kept.append((deadline, serial, live, first))
        heapify(kept)
        self._heap = kept
        self._heap_size = sum(len(entry[2]) for entry in kept)

    def _reset_deadlines(self) -> None:
        self._heap.clear()
        self._heap_size = 0
        self._queue.clear()
        self._due.clear()
        self.marks.clear()
