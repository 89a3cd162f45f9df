"""Offsets of `mode=consumer`: the delivered but unacknowledged messages of one batch (no I/O).

A delivery is a message's stream sequence and consumer sequence; the two determine its ack subject.
To be small, an offset stores runs of deliveries whose sequences both ascend by one, each as
`seq:consumer_seq:count`, separated by commas. A batch that is delivered in order is one run.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

VERSION = 1
MOST = 10_000
"""Default limit of a batch, in messages."""

_RUN = re.compile(r"(\d+):(\d+):(\d+)")

Delivery = tuple[int, int]
"""Stream sequence and consumer sequence of one message."""


class OffsetError(ValueError):
    """An offset in a checkpoint has an unknown format, or belongs to another consumer."""


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The messages of one micro-batch, as its offset stores them.

    Attributes:
        stream, consumer: Names of the stream and the consumer.
        incarnation: Creation time of the stream, in nanoseconds since the epoch.
        number: Number of the batch, from 1; 0 for the offset before the first batch.
        prefix: The tokens of all ack subjects up to and including the consumer's name.
        runs: Tuples of first stream sequence, first consumer sequence, and number of messages.
    """

    stream: str
    consumer: str
    incarnation: int
    number: int
    prefix: str
    runs: tuple[tuple[int, int, int], ...]

    def __len__(self) -> int:
        return sum(count for _, _, count in self.runs)

    def sequences(self) -> list[int]:
        """Return the stream sequences of the batch, ascending, without duplicates."""
        return sorted({seq + step for seq, _, count in self.runs for step in range(count)})

    def ack_subjects(self) -> Iterator[str]:
        """Yield the ack subject of each message of the batch."""
        for seq, consumer_seq, count in self.runs:
            for step in range(count):
                # The server evaluates only the two sequences, not the delivery count, the time and
                # the number of pending messages. So these three are constants.
                yield f"{self.prefix}.1.{seq + step}.{consumer_seq + step}.0.0"

    def to_json(self) -> dict[str, Any]:
        """Return this batch as the JSON object that Spark stores as an offset."""
        return {
            "v": VERSION,
            "stream": self.stream,
            "consumer": self.consumer,
            "incarnation": self.incarnation,
            "batch": self.number,
            "acks": self.prefix,
            "runs": ",".join(f"{seq}:{at}:{count}" for seq, at, count in self.runs),
        }


def runs_of(deliveries: Iterable[Delivery]) -> tuple[tuple[int, int, int], ...]:
    """Return deliveries as runs of consecutive messages, ordered by consumer sequence.

    A run is a tuple of first stream sequence, first consumer sequence, and number of messages.
    """
    runs: list[tuple[int, int, int]] = []
    for seq, consumer_seq in sorted(deliveries, key=lambda delivery: delivery[1]):
        if runs:
            first, at, count = runs[-1]
            if (seq, consumer_seq) == (first + count, at + count):
                runs[-1] = (first, at, count + 1)
                continue
        runs.append((seq, consumer_seq, 1))
    return tuple(runs)


def from_json(offset: dict[str, Any], stream: str, consumer: str) -> Deliveries:
    """Parse the offset of a consumer from Spark's JSON object.

    Raises:
        OffsetError: The offset belongs to another consumer, or has another format or version.
    """
    try:
        found = Deliveries(
            stream=str(offset["stream"]),
            consumer=str(offset["consumer"]),
            incarnation=int(offset["incarnation"]),
            number=int(offset["batch"]),
            prefix=str(offset["acks"]),
            runs=tuple(
                (int(seq), int(at), int(count))
                for seq, at, count in (_parts(run) for run in offset["runs"].split(",") if run)
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OffsetError(f"no offset of mode=consumer: {offset!r}") from error
    if offset.get("v") != VERSION:
        raise OffsetError(f"offset of version {offset.get('v')!r}, expected {VERSION}")
    if (found.stream, found.consumer) != (stream, consumer):
        raise OffsetError(
            f"the checkpoint is of consumer {found.consumer!r} of stream {found.stream!r}, "
            f"the options ask for {consumer!r} of {stream!r}"
        )
    return found


def _parts(run: str) -> tuple[str, str, str]:
    match = _RUN.fullmatch(run)
    if match is None:
        raise ValueError(run)
    return match[1], match[2], match[3]
