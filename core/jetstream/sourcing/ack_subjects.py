"""Parsing the ack subjects (reply subjects) of messages delivered by an origin's consumer.

`$JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<time>.<left>`: stream sequence, consumer
sequence, time, messages left. The longer form has domain and account before the stream and a random
token at the end (ADR-15).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from core.units import ConsumerSeq

_SHORT = 8
_DELIVERED, _LONG_DELIVERED = 4, 6
_consumer_seq = cast("Callable[[bytes], ConsumerSeq]", int)


@dataclass(frozen=True, slots=True)
class AckSubjects:
    """The parsed ack subjects of one batch of messages, one list per field.

    Attributes:
        seqs: Stream sequences in the origin.
        cseqs: Consumer sequences.
        times: Times of the messages, in nanoseconds since the Unix epoch.
        left: Messages that the origin still had after the last one of the batch.
    """

    seqs: list[int]
    cseqs: list[ConsumerSeq]
    times: list[int]
    left: int

    def unbroken(self, start: int, expected: int) -> int:
        """Return the end of the run of consecutive consumer sequences that begins at index `start`.

        Args:
            start: The index of the first message to examine.
            expected: The consumer sequence that it should have.

        Returns:
            The index after the run's last message; `start` if the first one is unexpected.
        """
        cseqs = self.cseqs
        count = len(cseqs) - start
        if cseqs[start] == expected and cseqs[-1] == expected + count - 1:
            return len(cseqs)
        stop = start
        while stop < len(cseqs) and cseqs[stop] == expected + stop - start:
            stop += 1
        return stop


def parse_ack_subjects(replies: Sequence[bytes]) -> AckSubjects | None:
    """Parse the ack subjects of a batch; None if one of them is not an ack subject."""
    at = _DELIVERED if replies[0].count(b".") == _SHORT else _LONG_DELIVERED
    rows = [reply.split(b".") for reply in replies]
    try:
        seqs = [int(row[at + 1]) for row in rows]
        cseqs = [_consumer_seq(row[at + 2]) for row in rows]
        times = [int(row[at + 3]) for row in rows]
        return AckSubjects(seqs, cseqs, times, int(rows[-1][at + 4]))
    except (ValueError, IndexError):
        return None
