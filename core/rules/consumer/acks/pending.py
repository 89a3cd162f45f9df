"""The messages of a consumer that were delivered and not acknowledged yet (ack pending).

A stream sequence is *pending* from its first delivery until it is acknowledged, terminated, removed
from the stream, or delivered `max_deliver` times. It keeps the consumer sequence of its first
delivery, so the ack floor never passes a message that is being redelivered. The limit
`max_ack_pending` is applied by `ConsumerMachine.ack_pending_left`.

A batch of first deliveries costs one `dict.update` and one heap entry, not one per message. Only
messages that were redelivered, delayed or reported in progress have a deadline of their own in
`_due`; the value 0 there means "in the redelivery queue". Heap and queue are never searched: an
outdated entry no longer agrees with `_due`, and is skipped when it is the first one.

The ack floor is the highest delivery up to which no message is pending. It moves only after an
acknowledgement, and is computed only on request.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice, repeat, takewhile

from core.units import ConsumerSeq

_QUEUED = 0
_DELIVERY_TIME_EVERY = 100_000_000  # nanoseconds
_DELIVERY_TIMES_MAX = 4096


def wait_of(waits: Sequence[int], count: int) -> int:
    """Return the ack wait of the `count`-th delivery, in nanoseconds.

    `waits` are the ack waits of the first, second, ... delivery; the last applies to all later
    ones.
    """
    return waits[min(count, len(waits)) - 1]


class Pending:
    """The pending messages of one consumer: ack deadlines, redelivery queue and ack floor.

    Times are monotonic nanoseconds.
    """

    __slots__ = (
        "_due",
        "_floor_stale",
        "_heap",
        "_heap_size",
        "_queue",
        "_serial",
        "counts",
        "delivery_times",
        "first",
        "floor_cseq",
        "floor_sseq",
    )

    def __init__(self) -> None:
        self.first: dict[int, ConsumerSeq] = {}
        """Stream sequence -> consumer sequence of the first delivery, ascending in both."""
        self.counts: dict[int, int] = {}
        """Stream sequence -> number of deliveries, if it is more than one or `max_deliver`."""
        self.floor_cseq = ConsumerSeq(0)
        self.floor_sseq = 0
        self.delivery_times: deque[tuple[ConsumerSeq, int]] = deque()
        """(consumer sequence, time): approximate time of first deliveries from that sequence on."""
        self._due: dict[int, int] = {}
        self._heap: list[tuple[int, int, Sequence[int], bool]] = []
        self._heap_size = 0
        self._queue: deque[int] = deque()
        self._serial = 0
        self._floor_stale = False

    def __len__(self) -> int:
        return len(self.first)

    # deliveries

    def add(self, sseqs: Sequence[int], cseq: ConsumerSeq, now: int, wait: int) -> None:
        """Record the first deliveries of messages.

        Args:
            sseqs: Their stream sequences, ascending.
            cseq: Consumer sequence of the first one; the others follow.
            now: Monotonic nanoseconds.
            wait: Nanoseconds until they are redelivered without an ack.
        """
        cseqs = range(cseq, cseq + len(sseqs))
        self.first.update(zip(sseqs, cseqs, strict=True))  # type: ignore[arg-type]
        if not self.delivery_times or now - self.delivery_times[-1][1] >= _DELIVERY_TIME_EVERY:
            self.delivery_times.append((cseq, now))
            if len(self.delivery_times) > _DELIVERY_TIMES_MAX:
                self.delivery_times = deque(list(self.delivery_times)[::2])
        self._push(now + wait, sseqs, first=True)

    def add_redelivery(self, sseq: int, count: int, deadline: int) -> None:
        """Record a redelivery, the `count`-th delivery of a message.

        `deadline` is the time at which it is redelivered without an ack, in monotonic nanoseconds.
        """
        self.counts[sseq] = count
        self.delay(sseq, deadline)

    def delay(self, sseq: int, deadline: int) -> None:
        """Set the time at which one pending message is redelivered without an ack.

        `deadline` is in monotonic nanoseconds.
        """
        self._due[sseq] = deadline
        self._push(deadline, (sseq,), first=False)

    def deliveries(self, sseq: int) -> int:
        """Return how often a message was delivered; 1 also for unknown messages."""
        return self.counts.get(sseq, 1)

    # acknowledgements

    def ack(self, sseqs: Iterable[int]) -> None:
        """Remove acknowledged messages; sequences that are not pending are ignored."""
        sseqs = list(sseqs)
        before = len(self.first)
        deque(map(self.first.pop, sseqs, repeat(None)), maxlen=0)
        if self.counts or self._due:
            deque(map(self.counts.pop, sseqs, repeat(None)), maxlen=0)
            deque(map(self._due.pop, sseqs, repeat(None)), maxlen=0)
        if len(self.first) < before:
            self._floor_stale = True

    def finish(self, sseqs: Iterable[int]) -> None:
        """Remove messages that are no longer redelivered, and let the ack floor pass them."""
        self.ack(sseqs)
        self._floor_stale = True

    def ack_all(self, sseq: int, cseq: ConsumerSeq) -> None:
        """Remove all messages up to stream sequence `sseq`, and raise the ack floor to it.

        Does nothing if the ack floor is already there or above.
        """
        if sseq <= self.floor_sseq or cseq <= self.floor_cseq:
            return
        self.ack(list(takewhile(lambda seq: seq <= sseq, self.first)))
        if self.counts:
            self.ack([seq for seq in self.counts if seq <= sseq])
        self.floor_cseq, self.floor_sseq = cseq, sseq
        self._floor_stale = False
        if not self.first:
            self._reset_deadlines()

    def settle_floor(self, delivered_cseq: ConsumerSeq, delivered_sseq: int) -> None:
        """If acks have left no message pending, raise the ack floor to the last delivery.

        `delivered_cseq` and `delivered_sseq` are the sequences of that delivery.
        """
        if not self.first and self._floor_stale:
            self.floor_cseq, self.floor_sseq = delivered_cseq, delivered_sseq
            self._floor_stale = False
            self._reset_deadlines()

    def floor(self) -> tuple[ConsumerSeq, int]:
        """Return the ack floor as (consumer sequence, stream sequence)."""
        if self._floor_stale and self.first:
            sseq, cseq = next(iter(self.first.items()))
            if cseq - 1 > self.floor_cseq:
                self.floor_cseq = cseq - 1  # type: ignore[assignment]
                self.floor_sseq = max(self.floor_sseq, sseq - 1)
            self._floor_stale = False
            while len(self.delivery_times) > 1 and self.delivery_times[1][0] <= cseq:
                self.delivery_times.popleft()
        return self.floor_cseq, self.floor_sseq

    # deadlines and redelivery

    def deadline(self) -> int | None:
        """Return the time of the next call of `expire`, in monotonic nanoseconds.

        None: no pending message waits for an ack deadline. The time may be too early, never too
        late.
        """
        return self._heap[0][0] if self._heap else None

    def change_waits(self, before: Sequence[int], after: Sequence[int]) -> None:
        """Apply changed ack waits to the deadlines of pending messages.

        `before` and `after` are the ack waits per delivery, in nanoseconds. As in nats-server, no
        deadline becomes earlier while the first wait is unchanged.
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
        """Queue the messages whose ack deadline has passed for redelivery, in stream order.

        Args:
            now: Monotonic nanoseconds.
            max_deliver: The limit of deliveries (-1: no limit).

        Returns:
            The sequences that were delivered `max_deliver` times, and so are not queued. They are
            no longer pending; the ack floor does not move by itself.
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
                self.stop_redelivering(sseq)
                given_up.append(sseq)
            else:
                self._due[sseq] = _QUEUED
                self._queue.append(sseq)
        return given_up

    def stop_redelivering(self, sseq: int) -> None:
        """Do not redeliver a message any more.

        Its number of deliveries stays, and CONSUMER.INFO counts it as redelivered.
        """
        count = self.counts.get(sseq, 1)
        self.first.pop(sseq, None)
        self._due.pop(sseq, None)
        self.counts[sseq] = count

    def enqueue(self, sseq: int) -> None:
        """Put a pending message into the redelivery queue, unless it is in it already."""
        if self._due.get(sseq) != _QUEUED:
            self._due[sseq] = _QUEUED
            self._queue.append(sseq)

    def is_queued(self, sseq: int) -> bool:
        """Return whether a message is in the redelivery queue."""
        return self._due.get(sseq) == _QUEUED

    def next_queued(self) -> int | None:
        """Return the first message of the redelivery queue and leave it there; None: empty."""
        queue, due = self._queue, self._due
        while queue:
            if due.get(queue[0]) == _QUEUED:
                return queue[0]
            queue.popleft()
        return None

    def later_queued(self, limit: int = 500) -> list[int]:
        """Return up to `limit` messages that follow the first one in the redelivery queue.

        They are read from storage together with it.
        """
        due = self._due
        return [seq for seq in islice(self._queue, 1, limit) if due.get(seq) == _QUEUED]

    def unqueue(self) -> None:
        """Remove the first message of the redelivery queue, which `next_queued` returned."""
        self._queue.popleft()

    def requeue(self) -> None:
        """Move the first message of the redelivery queue to its end."""
        self._queue.rotate(-1)

    def queued(self) -> int:
        """Return the number of messages in the redelivery queue; drops outdated entries."""
        if not self._queue:
            return 0
        due = self._due
        self._queue = deque(dict.fromkeys(s for s in self._queue if due.get(s) == _QUEUED))
        return len(self._queue)

    # persisted state

    def deadlines(self) -> dict[int, int]:
        """Return {stream sequence: ack deadline} of messages that have a deadline of their own.

        These are messages that were redelivered, delayed or reported in progress. Deadlines are
        monotonic nanoseconds; 0: the message is in the redelivery queue.
        """
        return self._due

    def restore(self, groups: Iterable[tuple[int, list[int]]], deadlines: dict[int, int]) -> None:
        """Set the ack deadlines of pending messages after a restart, in monotonic nanoseconds.

        Args:
            groups: Pairs (deadline, stream sequences) of messages that were delivered once.
            deadlines: Stream sequence -> deadline, for messages that were redelivered, delayed or
                reported in progress; 0: put the message into the redelivery queue.
        """
        for deadline, sseqs in groups:
            self._push(deadline, sseqs, first=True)
        for sseq, deadline in deadlines.items():
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
        """Drop the entries of the heap whose messages are no longer pending."""
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
        self.delivery_times.clear()
