"""Stored messages in column form: one list per field, such as sequences, subjects and payloads.

Storage returns segments, and the cache of new messages consists of segments. Consumers and Direct
Get deliver both in the same way. Messages that are not stored yet, without a sequence and with a
reply subject, are in `core.protocol.messages`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter


@dataclass(slots=True)
class Segment:
    r"""Stored messages in ascending sequence order, one list per field.

    Attributes:
        seqs: Stream sequences; a `range` if they are contiguous.
        times: Times of storage, in nanoseconds since the Unix epoch; may be a `range`.
        subjects: Subjects.
        headers: For each message the complete header block (`NATS/1.0\r\n...\r\n\r\n`), or None;
            None in place of the list if no message has headers.
        payloads: Payloads.
        nbytes: Size of all messages, in bytes; 0 if not counted, as in results of `part` and
            `pick`.
    """

    seqs: Sequence[int]
    times: Sequence[int]
    subjects: list[bytes]
    headers: list[bytes | None] | None
    payloads: list[bytes]
    nbytes: int = 0

    @property
    def first(self) -> int:
        """Stream sequence of the first message. The segment must not be empty."""
        return self.seqs[0]

    @property
    def last(self) -> int:
        """Stream sequence of the last message. The segment must not be empty."""
        return self.seqs[-1]

    def __len__(self) -> int:
        return len(self.payloads)

    def index(self, seq: int) -> int:
        """Return the list index of the first message with sequence `seq` or higher.

        If there is none, returns the number of messages.
        """
        seqs = self.seqs
        if isinstance(seqs, range):
            return min(max(seq - seqs.start, 0), len(seqs))
        return bisect_left(seqs, seq)

    def size(self, place: int) -> int:
        """Return the bytes of subject, header block and payload of the message at a list index."""
        headers = (self.headers[place] if self.headers else None) or b""
        return len(self.subjects[place]) + len(headers) + len(self.payloads[place])

    def part(self, start: int, stop: int) -> "Segment":
        """Return a copy of the messages from list index `start` up to `stop`, excluded."""
        headers = self.headers
        return Segment(
            self.seqs[start:stop],
            self.times[start:stop],
            self.subjects[start:stop],
            headers[start:stop] if headers is not None else None,
            self.payloads[start:stop],
        )

    def pick(self, places: Sequence[int]) -> "Segment":
        """Return a copy of the messages at the given list indexes, which must be ascending."""
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
        """Reduce the segment to the messages at these list indexes; the caller sets `nbytes`."""
        self.seqs = [self.seqs[i] for i in places]
        self.times = [self.times[i] for i in places]
        self.subjects = [self.subjects[i] for i in places]
        self.payloads = [self.payloads[i] for i in places]
        if self.headers is not None:
            self.headers = [self.headers[i] for i in places]
