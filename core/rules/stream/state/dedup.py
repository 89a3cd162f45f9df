"""The deduplication window: message ids of the last `duplicate_window` nanoseconds.

Ids are kept in generations that are dropped as a whole, so that expiry costs nothing per message. A
generation keeps its ids as keys of a dictionary and their sequences in an array of the same order,
which takes half the memory of a number object per id. The first duplicate found in a generation
builds a dictionary from both. A hit is checked against the age of its message: an id expires at
most a millisecond late, and never early.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

# Two thirds of 2**20 dictionary slots, just before the dictionary would grow.
_GENERATION_IDS = (1 << 20) * 2 // 3
# Batches closer than this share an age mark: the list stays short under load.
_MARK_NS = 1_000_000


class DedupWindow:
    """The message ids inside the duplicate window, with the sequence of the first message of each.

    Args:
        window: Length of the window in nanoseconds.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self._generations: deque[_Generation] = deque()

    def __len__(self) -> int:
        return sum(len(generation.ids) for generation in self._generations)

    def find(self, msg_id: bytes, now: int) -> int | None:
        """Return the sequence of the first message with this id (None: not in the window).

        `now` is in nanoseconds since the Unix epoch.
        """
        oldest = now - self.window
        for generation in reversed(self._generations):
            if msg_id in generation.ids:
                if not generation.paired:
                    self._unpair_rest(generation)
                seq = generation.sequence(msg_id)
                return seq if generation.time_of(seq) > oldest else None
        return None

    def _unpair_rest(self, wanted: "_Generation") -> None:
        """Drop the id dictionaries of all generations except the newest one and `wanted`.

        A generation holds the ids of one period. Retries of publishes occur in the newest one.
        """
        newest = self._generations[-1]
        for generation in self._generations:
            if generation is not newest and generation is not wanted:
                generation.unpair()

    def add(self, ids: Sequence[tuple[bytes, int]], ts: int) -> None:
        """Record message ids (at least one), as (id, sequence) in order of sequence.

        `ts` is the time at which they were stored, in nanoseconds since the Unix epoch.
        """
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
        """Drop groups of message ids whose newest id is older than the window.

        `now` is in nanoseconds since the Unix epoch.
        """
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
        # Ages: from seqs[i] on, ids have the time times[i], the newest time of their age mark.
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
        """Rebuild the array of sequences after an id occurred twice.

        Its key keeps the position of the first occurrence.
        """
        known = self._known
        if known is None:
            known = dict(
                zip(self.ids, self._numbers[: len(self._numbers) - len(ids)], strict=False)
            )
            known.update(ids)
        self._known = known
        self._numbers = array("Q", (known[msg_id] for msg_id in self.ids))

    def sequence(self, msg_id: bytes) -> int:
        """Return the sequence of a message id of this generation."""
        if self._known is None:
            self._known = dict(zip(self.ids, self._numbers, strict=True))
        return self._known[msg_id]

    @property
    def paired(self) -> bool:
        """True while a dictionary from ids to sequences exists."""
        return self._known is not None

    def unpair(self) -> None:
        """Drop the dictionary from ids to sequences."""
        self._known = None

    def time_of(self, seq: int) -> int:
        return self.times[max(bisect_right(self.seqs, seq) - 1, 0)]
