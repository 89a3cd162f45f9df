"""The deduplication window: message ids seen in the last `duplicate_window` nanoseconds.

Ids live in generations that are dropped whole, so that ageing costs nothing per message and a
window of millions of ids stays one dictionary entry each. A hit is checked against the age of the
message it names: never forgotten early, at most a millisecond late.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

# What fills a dictionary of 2**21 slots to two thirds, just before it would grow.
_GENERATION_IDS = (2 << 20) * 2 // 3
# Batches closer than this share an age mark: the list stays short under load.
_MARK_NS = 1_000_000


class DedupWindow:
    """Message id -> sequence of the first copy."""

    def __init__(self, window: int) -> None:
        self.window = window
        self._generations: deque[_Generation] = deque()

    def __len__(self) -> int:
        return sum(len(generation.ids) for generation in self._generations)

    def find(self, msg_id: bytes, now: int) -> int | None:
        """Return the sequence of the first copy when the id is in the window at `now`."""
        oldest = now - self.window
        for generation in reversed(self._generations):
            seq = generation.ids.get(msg_id)
            if seq is not None:
                return seq if generation.time_of(seq) > oldest else None
        return None

    def add(self, ids: Sequence[tuple[bytes, int]], ts: int) -> None:
        """Record ids (at least one) stored at time `ts` (nanoseconds), in sequence order."""
        self.expire(ts)
        generations = self._generations
        slice_ns = self.window >> 2
        if (
            not generations
            or len(generations[-1].ids) + len(ids) > _GENERATION_IDS
            or ts - generations[-1].born > slice_ns
        ):
            generations.append(_Generation(ts))
        generations[-1].extend(ids, ts)

    def expire(self, now: int) -> None:
        """Drop the generations whose newest id is older than the window."""
        generations = self._generations
        oldest = now - self.window
        while generations and generations[0].times[-1] <= oldest:
            generations.popleft()


class _Generation:
    __slots__ = ("_mark", "born", "ids", "seqs", "times")

    def __init__(self, born: int) -> None:
        self.born = born
        self.ids: dict[bytes, int] = {}
        # Ages: from seqs[i] on, ids are stored by times[i], the newest time of their mark.
        self.seqs: list[int] = []
        self.times: list[int] = []
        self._mark = 0

    def extend(self, ids: Sequence[tuple[bytes, int]], ts: int) -> None:
        self.ids.update(ids)
        if self.times and ts - self._mark <= _MARK_NS:
            self.times[-1] = ts
            return
        self._mark = ts
        self.seqs.append(ids[0][1])
        self.times.append(ts)

    def time_of(self, seq: int) -> int:
        return self.times[max(bisect_right(self.seqs, seq) - 1, 0)]
