"""Delivered but unacknowledged messages of a consumer, in a form small enough for an offset (pure).

A delivery is a message's stream sequence and consumer sequence; the two determine the subject of
its acknowledgement. An offset stores deliveries as comma-separated runs in which both sequences
ascend by one, `seq:consumer_seq:count`: a batch that was delivered in order is one run.
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
"""Stream sequence, consumer sequence."""


class OffsetError(ValueError):
    """An offset in a checkpoint that does not belong to this consumer, or has another format."""


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The messages of one micro-batch.

    Attributes:
        stream, consumer: Their names.
        incarnation: Creation time of the stream, in nanoseconds since the epoch.
        number: Number of the batch, from 1; 0 stands before the first batch.
        prefix: Subject of the acknowledgements up to and including the consumer's name.
        runs: Tuples of first stream sequence, first consumer sequence and count.
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
        """Return the stream sequences, ascending, each once."""
        return sorted({seq + step for seq, _, count in self.runs for step in range(count)})

    def ack_subjects(self) -> Iterator[str]:
        """Yield the subject that acknowledges each message."""
        for seq, consumer_seq, count in self.runs:
            for step in range(count):
                # The server evaluates only the two sequences, not the delivery count, the time and
                # the number of pending messages. So these three are constants.
                yield f"{self.prefix}.1.{seq + step}.{consumer_seq + step}.0.0"

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it."""
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
    """Return the deliveries as runs, in the order of the consumer sequences."""
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
    """Parse an offset.

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
