"""Messages that a consumer has delivered and that are not acknowledged yet, small enough for an
offset (pure).

A claim is a message's sequence in the stream and in the consumer; both make the subject of its
acknowledgement. In an offset claims are runs in which both ascend by one, `seq:consumer_seq:count`
with commas between them: a batch that was delivered in order is one run.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

VERSION = 1
MOST = 10_000
"""Messages of a batch where nothing else is asked for."""

_RUN = re.compile(r"(\d+):(\d+):(\d+)")

Claim = tuple[int, int]
"""Sequence in the stream, sequence in the consumer."""


class OffsetError(ValueError):
    """An offset in a checkpoint that is none of this consumer."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What one micro-batch is made of.

    Args:
        stream, consumer: Their names.
        incarnation: When the stream was created, in nanoseconds since the epoch.
        number: Of the batch, from 1 on; 0 is before the first one.
        prefix: What subjects of acknowledgements begin with, up to the consumer's name.
        runs: First sequence in the stream, first sequence in the consumer, how many.
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
        """Sequences in the stream, ascending."""
        return sorted({seq + step for seq, _, count in self.runs for step in range(count)})

    def ack_subjects(self) -> Iterator[str]:
        """Where each message is acknowledged."""
        for seq, consumer_seq, count in self.runs:
            for step in range(count):
                # The server looks at the two sequences only: not at how often it has delivered
                # the message, the time and what was pending.
                yield f"{self.prefix}.1.{seq + step}.{consumer_seq + step}.0.0"

    def to_json(self) -> dict[str, Any]:
        """The offset."""
        return {
            "v": VERSION,
            "stream": self.stream,
            "consumer": self.consumer,
            "incarnation": self.incarnation,
            "batch": self.number,
            "acks": self.prefix,
            "runs": ",".join(f"{seq}:{at}:{count}" for seq, at, count in self.runs),
        }


def runs_of(claims: Iterable[Claim]) -> tuple[tuple[int, int, int], ...]:
    """Runs of claims, which are taken in order of the consumer."""
    runs: list[tuple[int, int, int]] = []
    for seq, consumer_seq in sorted(claims, key=lambda claim: claim[1]):
        if runs:
            first, at, count = runs[-1]
            if (seq, consumer_seq) == (first + count, at + count):
                runs[-1] = (first, at, count + 1)
                continue
        runs.append((seq, consumer_seq, 1))
    return tuple(runs)


def from_json(offset: dict[str, Any], stream: str, consumer: str) -> Claims:
    """Claims of an offset.

    Raises:
        OffsetError: It is of another consumer, or not of this format.
    """
    try:
        found = Claims(
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
