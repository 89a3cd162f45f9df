"""The memory tail: the newest committed messages of each stream, within one limit per node.

Messages are held in segments (`core.model.segment`: messages as columns). When the tails of all
streams together exceed the limit, the segment that was added first is evicted.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable

from core.model.segment import Segment

# Approximate bytes per message besides its payload: objects, list slots, subject.
_MESSAGE_COST = 100
_SMALL = 64
_FULL = 512


class TailBudget:
    """The limit, in bytes, on the memory tails of all streams of a node.

    Attributes:
        limit: Largest number of bytes.
        used: Bytes used now.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._order: deque[tuple[Tail, Segment, int]] = deque()

    def charge(self, tail: "Tail", segment: Segment, cost: int) -> None:
        """Count `cost` bytes added to `segment` of a stream's memory tail.

        While the tails of the node exceed the limit, their oldest segments are evicted.
        """
        self.used += cost
        order = self._order
        if order and order[-1][1] is segment:
            order[-1] = (tail, segment, order[-1][2] + cost)
        else:
            order.append((tail, segment, cost))
        while self.used > self.limit and len(order) > 1:
            oldest, gone, freed = order.popleft()
            self.used -= freed
            oldest.drop(gone)


class Tail:
    """The newest messages of one stream in memory, without gaps up to its last sequence.

    Args:
        budget: The limit on the memory of all tails.
        start: The lowest sequence that the tail may hold; older messages are in storage only.
        dropped: Called with each segment that is evicted.
    """

    def __init__(self, budget: TailBudget, start: int, dropped: Callable[[Segment], None]) -> None:
        self.start = start
        self._budget = budget
        self._segments: list[Segment] = []
        self._dropped = dropped

    def append(self, segment: Segment) -> None:
        """Add the messages of a commit; fewer than 64 are merged into the newest segment."""
        cost = segment.nbytes + _MESSAGE_COST * len(segment)
        segments = self._segments
        if segments and len(segment) < _SMALL and len(segments[-1]) < _FULL:
            _extend(segments[-1], segment)
        else:
            segments.append(segment)
        self._budget.charge(self, segments[-1], cost)

    def drop(self, segment: Segment) -> None:
        """Evict `segment` from memory if it is the oldest one of the stream.

        Otherwise `clear` has removed it before.
        """
        if self._segments and self._segments[0] is segment:
            del self._segments[0]
            self.start = segment.last + 1
            self._dropped(segment)

    def clear(self, start: int) -> None:
        """Remove all messages; the lowest sequence that the tail may hold is then `start`."""
        self._segments.clear()
        self.start = start

    def at(self, seq: int) -> tuple[Segment, int] | None:
        """Return the position of the first message at or after `seq`, as (segment, index).

        None if `seq` is older than the messages in memory, or no message follows.
        """
        segments = self._segments
        if seq < self.start or not segments:
            return None
        place = max(bisect_right(segments, seq, key=_first) - 1, 0)
        segment = segments[place]
        index = segment.index(seq)
        if index < len(segment):
            return segment, index
        if place + 1 < len(segments):
            return segments[place + 1], 0
        return None

    def since(self, seq: int) -> list[tuple[Segment, int]]:
        """Return (segment, first index) pairs that contain all messages at or after `seq`.

        Empty if `seq` is older than the messages in memory, or no message follows.
        """
        found = self.at(seq)
        if found is None:
            return []
        segment, index = found
        place = next(i for i, s in enumerate(self._segments) if s is segment)
        return [(segment, index), *((s, 0) for s in self._segments[place + 1 :])]


def _first(segment: Segment) -> int:
    return segment.seqs[0]


def _extend(segment: Segment, more: Segment) -> None:
    """Append `more` to `segment` in place, so that indices which readers hold stay valid."""
    seqs, new = segment.seqs, more.seqs
    if isinstance(seqs, range) and isinstance(new, range) and seqs.stop == new.start:
        segment.seqs = range(seqs.start, new.stop)
    else:
        segment.seqs = [*seqs, *new]
    times = segment.times if isinstance(segment.times, list) else list(segment.times)
    times.extend(more.times)
    segment.times = times
    if segment.headers is None and more.headers is not None:
        segment.headers = [None] * len(segment)
    if segment.headers is not None:
        segment.headers += more.headers or [None] * len(more)
    segment.subjects += more.subjects
    segment.payloads += more.payloads
    segment.nbytes += more.nbytes
