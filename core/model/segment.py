"""Stored messages in columns.

The tail cache holds them, storage reads them, consumers and Direct Get deliver them: there is one
delivery path for warm and cold messages. Messages before they are stored, without a sequence and
with a reply subject, are `core.protocol.messages`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter


@dataclass(slots=True)
class Segment:
    """Messages in ascending sequence order, one list per column.

    `seqs` and `times` (nanoseconds since the epoch) are ranges where they are contiguous.
    `headers` is None when no message of the segment has any; otherwise an entry is the
    complete header block (`NATS/1.0\\r\\n...\\r\\n\\r\\n`) or None. `nbytes` is the size of
    all where somebody has counted it, and 0 in what `part` and `pick` return.
    """

    seqs: Sequence[int]
    times: Sequence[int]
    subjects: list[bytes]
    headers: list[bytes | None] | None
    payloads: list[bytes]
    nbytes: int = 0

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

    def size(self, place: int) -> int:
        """Bytes of subject, header block and payload of one message."""
        headers = (self.headers[place] if self.headers else None) or b""
        return len(self.subjects[place]) + len(headers) + len(self.payloads[place])

    def part(self, start: int, stop: int) -> "Segment":
        """Return a copy of the messages from `start` up to `stop`."""
        headers = self.headers
        return Segment(
            self.seqs[start:stop],
            self.times[start:stop],
            self.subjects[start:stop],
            headers[start:stop] if headers is not None else None,
            self.payloads[start:stop],
        )

    def pick(self, places: Sequence[int]) -> "Segment":
        """Return a copy of the messages at `places`, which ascend."""
        if not places:
            return Segment((), (), [], None, [])
        if places[-1] - places[0] == len(places) - 1:
            return self.part(places[0], places[-1] + 1)
        pick, headers = itemgetter(*places), self.headers
        return Segment(
            pick(self.seqs),
            pick(self.times),
            list(pick(self.subjects)),
            list(pick(headers)) if headers is not None else None,
            list(pick(self.payloads)),
        )

    def keep(self, places: Sequence[int]) -> None:
        """Reduce the segment to the messages at `places`; `nbytes` is left to the caller."""
        self.seqs = [self.seqs[i] for i in places]
        self.times = [self.times[i] for i in places]
        self.subjects = [self.subjects[i] for i in places]
        self.payloads = [self.payloads[i] for i in places]
        if self.headers is not None:
            self.headers = [self.headers[i] for i in places]
