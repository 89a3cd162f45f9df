"""The expiry queues of a stream with TTLs of single messages (ADR-43).

Messages of one TTL expire in the order in which they were stored. So each TTL has a queue, and
expired messages are at the heads of queues. A queue keeps columns, about thirty bytes per message
beside its subject, which the subject index holds anyway. Messages without a TTL have a queue while
`max_age` applies; messages that never expire have none.

Messages removed for another reason stay in their queue at first, and their sequences are recorded.
Once there are enough of them, they are dropped from the queues, a few chunks at a time.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from core.model.segment import Segment
from core.rules.stream.ttl import NEVER, life_of
from core.units import NANOS_PER_SECOND

Row = tuple[int, bytes, int]

_CHUNK = 4096
_NAMES = 1 << 16
# Number of removed messages that starts a cleanup of the queues, and chunks per cleanup step.
_GONE_LEAST = 10_000
_STEP = 8
# A bit in the size of a message that is a marker; messages are smaller than 64 MiB.
_MARKER = 1 << 31
_PLAIN = (0, False)


class _Chunk:
    """A part of an expiry queue: messages as columns, oldest first.

    Messages before index `start` are dropped.
    """

    __slots__ = ("seqs", "sizes", "start", "subjects", "times")

    def __init__(self) -> None:
        self.seqs = array("q")
        self.times = array("q")
        self.sizes = array("I")
        self.subjects: list[bytes] = []
        self.start = 0

    def __len__(self) -> int:
        return len(self.subjects) - self.start

    def shed(self, gone: set[int], below: int) -> int:
        """Drop messages with sequences in `gone` or below `below`; return their number."""
        seqs, before = self.seqs, len(self)
        places = [
            i for i in range(self.start, len(seqs)) if seqs[i] >= below and seqs[i] not in gone
        ]
        if len(places) < before:
            self.seqs = array("q", [seqs[i] for i in places])
            self.times = array("q", [self.times[i] for i in places])
            self.sizes = array("I", [self.sizes[i] for i in places])
            self.subjects = [self.subjects[i] for i in places]
            self.start = 0
        return before - len(places)


class Due:
    """Expired messages, found by `Expiry.due`.

    Attributes:
        rows: The messages that are still stored.
        counts: Pairs (TTL in nanoseconds, number of messages to drop from the head of that queue).
        markers: Sequences of those rows that are delete markers.
    """

    __slots__ = ("counts", "markers", "rows")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.counts: list[tuple[int, int]] = []
        self.markers: set[int] = set()


class Expiry:
    """The expiry queues of one stream.

    `due` finds expired messages; `remove_due` drops them from the queues after the COMMIT of their
    removal. Times are nanoseconds since the Unix epoch.

    Args:
        max_age: Nanoseconds after which every message expires, regardless of its TTL (0: no limit).
    """

    def __init__(self, max_age: int) -> None:
        self.max_age = max_age
        # TTL in nanoseconds (0: none) -> its messages.
        self._queues: dict[int, deque[_Chunk]] = {}
        # (time, TTL): the head of that queue expires no earlier.
        self._heads: list[tuple[int, int]] = []
        self._listed: set[int] = set()
        self._names: dict[bytes, bytes] = {}
        self._gone: set[int] = set()
        self._leaving: set[int] = set()
        self._below = 0
        self._walk: Iterator[None] | None = None
        self._held = 0

    def __len__(self) -> int:
        """The number of messages in the queues, including removed ones not dropped yet."""
        return self._held

    def configure(self, max_age: int) -> None:
        """Change `max_age` (nanoseconds). A change from zero requires the queues to be rebuilt."""
        if max_age == self.max_age:
            return
        self.max_age = max_age
        if not max_age:
            self._held -= sum(map(len, self._queues.pop(0, ())))
        self._heads, self._listed = [], set()
        for ttl, queue in self._queues.items():
            self._list(ttl, self._due(ttl, queue))

    def _list(self, ttl: int, due: int) -> None:
        """Schedule the queue of a TTL for the time when its head expires, unless already scheduled.

        `due` is that time in nanoseconds since the Unix epoch.
        """
        if ttl not in self._listed:
            self._listed.add(ttl)
            heappush(self._heads, (due, ttl))

    # -- adding ------------------------------------------------------------------------------

    def add(self, segment: Segment, sizes: Sequence[int]) -> None:
        """Add newly stored messages; `sizes` are in bytes."""
        if segment.headers is None:
            if self.max_age:
                self._put(0, segment.seqs, segment.times, sizes, segment.subjects)
            return
        self.load(segment.seqs, segment.times, segment.subjects, sizes, segment.headers)

    def load(
        self,
        seqs: Sequence[int],
        times: Sequence[int],
        subjects: Sequence[bytes],
        sizes: Sequence[int],
        blocks: Sequence[bytes | None],
    ) -> None:
        """Add messages with their header blocks, in the order in which they were stored.

        `times` are nanoseconds since the Unix epoch, `sizes` bytes; a block is None or b"" without
        headers.
        """
        lives = [life_of(block) if block else _PLAIN for block in blocks]
        ttls = [ttl for ttl, _ in lives]
        kinds, are_markers = set(ttls), [is_marker for _, is_marker in lives]
        if any(are_markers):
            sizes = [
                size | _MARKER if is_marker else size
                for size, is_marker in zip(sizes, are_markers, strict=True)
            ]
        for ttl in kinds:
            if ttl == NEVER or not (ttl or self.max_age):
                continue
            if len(kinds) == 1:
                self._put(ttl * NANOS_PER_SECOND, seqs, times, sizes, subjects)
                return
            places = [i for i, other in enumerate(ttls) if other == ttl]
            self._put(
                ttl * NANOS_PER_SECOND,
                [seqs[i] for i in places],
                [times[i] for i in places],
                [sizes[i] for i in places],
                [subjects[i] for i in places],
            )

    def _put(
        self,
        ttl: int,
        seqs: Sequence[int],
        times: Sequence[int],
        sizes: Sequence[int],
        subjects: Sequence[bytes],
    ) -> None:
        queue = self._queues.get(ttl)
        if queue is None:
            queue = self._queues[ttl] = deque()
        if not queue:
            queue.append(_Chunk())
            self._list(ttl, times[0] + self._age(ttl))
        elif len(queue[-1].subjects) >= _CHUNK:
            queue.append(_Chunk())
        chunk = queue[-1]
        if chunk.times and times[0] < chunk.times[-1]:
            # A mirror keeps the times of its origin, whose clock may go backwards.
            times = [max(ts, chunk.times[-1]) for ts in times]
        chunk.seqs.extend(seqs)
        chunk.times.extend(times)
        chunk.sizes.extend(sizes)
        if len(self._names) > _NAMES:
            self._names.clear()
        # Messages of one subject share one object for its name.
        chunk.subjects += map(self._names.setdefault, subjects, subjects)
        self._held += len(seqs)

    def _age(self, ttl: int) -> int:
        """Return the time after which messages of the queue of `ttl` expire, in nanoseconds."""
        return min(ttl, self.max_age) if ttl and self.max_age else ttl or self.max_age

    def _due(self, ttl: int, queue: deque[_Chunk]) -> int:
        chunk = queue[0]
        return chunk.times[chunk.start] + self._age(ttl)

    # -- expiring ----------------------------------------------------------------------------

    def next_due(self) -> int:
        """Return a time before which no message expires (0: none ever expires).

        In nanoseconds since the Unix epoch.
        """
        return self._heads[0][0] if self._heads else 0

    def due(self, now: int, limit: int) -> Due:
        """Return at most `limit` messages that are expired at `now`, in order of sequence.

        `now` is in nanoseconds since the Unix epoch. Removed messages at the heads of the queues
        are dropped.
        """
        due = Due()
        heads, found = self._heads, list[tuple[int, int]]()
        while heads and heads[0][0] <= now and len(due.rows) < limit:
            ttl = heappop(heads)[1]
            self._listed.remove(ttl)
            queue = self._queues.get(ttl)
            if queue is None:
                continue
            cutoff = now - self._age(ttl)
            rows, taken = self._head_rows(queue, cutoff, limit - len(due.rows))
            if not rows:
                self._drop(ttl, taken)
                if ttl in self._queues:
                    self._list(ttl, self._due(ttl, queue))
                continue
            found.append((self._due(ttl, queue), ttl))
            due.rows += rows
            due.counts.append((ttl, taken))
        for when, ttl in found:
            self._list(ttl, when)
        if len(due.counts) > 1:
            due.rows.sort()
        if max([row[2] for row in due.rows], default=0) >= _MARKER:
            due.markers = {seq for seq, _, size in due.rows if size & _MARKER}
            due.rows = [(seq, subject, size & ~_MARKER) for seq, subject, size in due.rows]
        return due

    def _head_rows(self, queue: deque[_Chunk], cutoff: int, limit: int) -> tuple[list[Row], int]:
        """Return the messages of a queue that were stored up to `cutoff`, at most `limit`.

        `cutoff` is in nanoseconds since the Unix epoch. Also returns the number of entries of the
        queue that they span, with removed messages.
        """
        rows: list[Row] = []
        taken, below, gone, leaving = 0, self._below, self._gone, self._leaving
        for chunk in queue:
            start = chunk.start
            end = min(bisect_right(chunk.times, cutoff, start), start + limit - len(rows))
            columns = (chunk.seqs[start:end], chunk.subjects[start:end], chunk.sizes[start:end])
            part: list[Row] = list(zip(*columns, strict=True))
            if gone or leaving or (part and part[0][0] < below):
                part = [
                    row
                    for row in part
                    if row[0] >= below and row[0] not in gone and row[0] not in leaving
                ]
            rows += part
            taken += end - start
            if end < len(chunk.subjects):
                break
        return rows, taken

    def remove_due(self, due: Due) -> None:
        """Drop the messages that `due` returned, after their removal is committed."""
        for ttl, count in due.counts:
            self._drop(ttl, count)

    def _drop(self, ttl: int, count: int) -> None:
        queue = self._queues.get(ttl)
        if queue is None:  # an update has removed the queue in the meantime
            return
        self._held -= count
        while count:
            chunk = queue[0]
            part = min(len(chunk), count)
            chunk.start += part
            count -= part
            if not len(chunk):
                queue.popleft()
        if not queue:
            del self._queues[ttl]

    # -- removed for another reason ----------------------------------------------------------

    def forget(self, rows: Iterable[Row]) -> None:
        """Record messages that were removed for another reason than expiry.

        `rows` are (sequence, subject, size).
        """
        self._gone.update([seq for seq, _, _ in rows])
        if self._walk is None and len(self._gone) > max(_GONE_LEAST, self._held >> 2):
            self._tidy()
        if self._walk is not None and next(self._walk, self) is self:
            self._walk = None
            self._leaving = set()

    def purged(self, below: int, *, everything: bool) -> None:
        """Record that all messages below sequence `below` were removed.

        `everything`: the stream was purged completely.
        """
        self._below = below
        if everything:
            self._queues.clear()
            self._heads, self._listed, self._held = [], set(), 0
            self._gone, self._leaving, self._walk = set(), set(), None
        elif self._walk is None:
            self._tidy()

    def _tidy(self) -> None:
        """Begin to drop removed messages from the queues."""
        self._leaving, self._gone = self._gone, set()
        self._walk = self._walk_through(self._leaving)

    def _walk_through(self, leaving: set[int]) -> Iterator[None]:
        """Drop the messages with sequences in `leaving`; yields after each few chunks."""
        for ttl in list(self._queues):
            chunks = list(self._queues.get(ttl, ()))
            for start in range(0, len(chunks), _STEP):
                # Messages added since are not in `leaving`; messages taken since are in no queue.
                part = [chunk for chunk in chunks[start : start + _STEP] if len(chunk)]
                self._held -= sum(chunk.shed(leaving, self._below) for chunk in part)
                left = deque(chunk for chunk in self._queues.get(ttl, ()) if len(chunk))
                if left:
                    self._queues[ttl] = left
                else:
                    self._queues.pop(ttl, None)
                yield
