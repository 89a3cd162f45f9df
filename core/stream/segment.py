"""A run of committed messages as parallel columns.

What the tail cache holds and what every reader (consumers, Direct Get) works from; rows read
from storage come in the same shape, so there is one delivery path for warm and cold messages.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Segment:
    """Messages in ascending sequence order, one list per column.

    `seqs` and `times` (nanoseconds since the epoch) are ranges where they are contiguous.
    `headers` is None when no message of the segment has any; otherwise an entry is the
    complete header block (`NATS/1.0\\r\\n...\\r\\n\\r\\n`) or None.
    """

    seqs: Sequence[int]
    times: Sequence[int]
    subjects: list[bytes]
    headers: list[bytes | None] | None
    payloads: list[bytes]
    nbytes: int

    @property
    def first(self) -> int:
        """Sequence of the first message."""
        return self.seqs[0]

    @property
    def last(self) -> int:
        """Sequence of the last message."""
        return self.seqs[-1]

    def __len__(self) -> int:
        return len(self.payloads)

    def index(self, seq: int) -> int:
        """Position of the first message with a sequence at or after `seq` (may be len)."""
        seqs = self.seqs
        if isinstance(seqs, range):
            return min(max(seq - seqs.start, 0), len(seqs))
        return bisect_left(seqs, seq)

    def keep(self, places: Sequence[int]) -> None:
        """Reduce the segment to the messages at `places`; `nbytes` is left to the caller."""
        self.seqs = [self.seqs[i] for i in places]
        self.times = [self.times[i] for i in places]
        self.subjects = [self.subjects[i] for i in places]
        self.payloads = [self.payloads[i] for i in places]
        if self.headers is not None:
            self.headers = [self.headers[i] for i in places]
