"""The deduplication window: message ids seen in the last `duplicate_window` nanoseconds.

Ids live in generations that are dropped whole, so that ageing costs nothing per message. A
generation keeps its ids as bare keys and their sequences in an array beside them, in the same
order: half the memory of a number object per id. The first duplicate that a generation meets
pairs them up, once. A hit is checked against the age of the message it names: never forgotten
early, at most a millisecond late.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

# What fills a dictionary of 2**20 slots to two thirds, just before it would grow.
_GENERATION_IDS = (1 << 20) * 2 // 3
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
            if msg_id in generation.ids:
                if not generation.paired:
                    self._unpair_others(generation)
                seq = generation.sequence(msg_id)
                return seq if generation.time_of(seq) > oldest else None
        return None

    def _unpair_others(self, wanted: "_Generation") -> None:
        """Only the newest generation, where retries fall, and one other stay paired."""
        newest = self._generations[-1]
        for generation in self._generations:
            if generation is not newest and generation is not wanted:
                generation.unpair()

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
    __slots__ = ("_known", "_mark", "_numbers", "born", "ids", "seqs", "times")

    def __init__(self, born: int) -> None:
        self.born = born
        self.ids: dict[bytes, None] = {}
        self._numbers = array("Q")
        self._known: dict[bytes, int] | None = None
        # Ages: from seqs[i] on, ids are stored by times[i], the newest time of their mark.
        self.seqs: list[int] = []
        self.times: list[int] = []
        self._mark = 0

    def extend(self, ids: Sequence[tuple[bytes, int]], ts: int) -> None:
        if self._known is not None:
            self._known.update(ids)
        names, numbers = zip(*ids, strict=True)
        self.ids.update(dict.fromkeys(names))
        self._numbers.extend(numbers)
        if len(self._numbers) != len(self.ids):
            self._realign(ids)
        if self.times and ts - self._mark <= _MARK_NS:
            self.times[-1] = ts
            return
        self._mark = ts
        self.seqs.append(ids[0][1])
        self.times.append(ts)

    def _realign(self, ids: Sequence[tuple[bytes, int]]) -> None:
        """An id came a second time: its place in the order of keys is that of the first."""
        known = self._known
        if known is None:
            known = dict(
                zip(self.ids, self._numbers[: len(self._numbers) - len(ids)], strict=False)
            )
            known.update(ids)
        self._known = known
        self._numbers = array("Q", (known[msg_id] for msg_id in self.ids))

    def sequence(self, msg_id: bytes) -> int:
        """Return the sequence of an id of this generation."""
        if self._known is None:
            self._known = dict(zip(self.ids, self._numbers, strict=True))
        return self._known[msg_id]

    @property
    def paired(self) -> bool:
        """Whether ids and sequences are paired up."""
        return self._known is not None

    def unpair(self) -> None:
        """Keep ids and sequences apart again."""
        self._known = None

    def time_of(self, seq: int) -> int:
        return self.times[max(bisect_right(self.seqs, seq) - 1, 0)]
