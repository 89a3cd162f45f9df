"""Planning of a pipeline's next batch: the range of sequences to read from each stream."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_jetstream.nats.deadline import Deadline, pause
from pyspark_jetstream.pipelines.declaration import Source
from pyspark_jetstream.pipelines.fields import DeclarationError
from pyspark_jetstream.pipelines.journal import Range, Through
from pyspark_jetstream.positions import Place
from pyspark_jetstream.splits import shares
from pyspark_jetstream.transport.base import Head, Transport
from pyspark_jetstream.transport.errors import DataLoss, NotReachedYet, StreamRecreated
from pyspark_jetstream.transport.waiting import head_when_there

_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Round:
    """The next batch of a pipeline.

    Attributes:
        ranges: Sequences to read, by stream; streams without new messages are left out.
        lag: Number of sequences that remain in all streams after the batch.
        lost: Number of sequences that were removed before they were read, by stream.
    """

    ranges: Mapping[str, Range]
    lag: int
    lost: Mapping[str, int] = field(default_factory=dict)


def next_round(
    transport: Transport,
    source: Source,
    through: Mapping[str, Through],
    start: Place,
    filters: tuple[str, ...],
    most: int,
    wait_s: float = 0.0,
) -> Round:
    """Plan the next batch from the current state of the streams.

    Args:
        transport: Connection to the streams.
        source: Names of the streams, and the reaction to a recreated one.
        through: Progress of each stream.
        start: Start of a stream that is not in `through`.
        filters: Subjects to read; empty for all.
        most: Largest number of messages, shared among the streams.
        wait_s: Seconds to wait for a deleted stream, if the source continues with a recreated one,
            and for a lagging standby of PostgreSQL.

    Raises:
        DataLoss: The next messages of a stream were removed, and the options do not allow losses.
        StreamRecreated: A stream was recreated, and the source does not allow this.
        NotReachedYet: The source begins after the end of a stream.
    """
    firsts: dict[str, tuple[Head, int]] = {}
    lost: dict[str, int] = {}
    for stream in source.streams:
        awaited = source.recreated == "restart" and stream in through
        head = head_when_there(transport, stream, wait_s if awaited else 0.0)
        if start.kind == "seq" and stream not in through and not source.may_lose:
            head = reached(transport, head, start.value, "source.startingPosition", wait_s)
        first = _first(transport, source, head, through.get(stream), start)
        if first < head.first_seq:
            before = through.get(stream)
            if before is not None and before.incarnation == head.incarnation:
                lost[stream] = head.first_seq - first
            first = head.first_seq
        if first <= head.last_seq:
            firsts[stream] = (head, first)
    if lost and not source.may_lose:
        stream, count = next(iter(lost.items()))
        raise DataLoss(
            f"{count} sequences of stream {stream!r} behind {through[stream].seq} were removed "
            "before this pipeline read them; with the option failOnDataLoss=false it goes on"
        )
    parts = shares(most, [head.last_seq - first + 1 for head, first in firsts.values()])
    ranges: dict[str, Range] = {}
    lag = 0
    for (stream, (head, first)), part in zip(firsts.items(), parts, strict=True):
        last = first - 1
        if part:
            last = transport.bound(stream, first - 1, head.last_seq, filters, part, None)
            ranges[stream] = Range(head.incarnation, first, last)
        lag += head.last_seq - last
    return Round(ranges, lag, lost)


def _first(
    transport: Transport,
    source: Source,
    head: Head,
    before: Through | None,
    start: Place,
) -> int:
    """Return the first sequence of the next batch; its message may have been removed.

    It is the one after the last completed batch, or the start of the pipeline or of a recreated
    stream. Raises StreamRecreated if the source does not allow a recreated stream.
    """
    if before is None:
        return first_of(transport, head, start)
    if before.incarnation == head.incarnation:
        return before.seq + 1
    if source.recreated == "fail":
        raise StreamRecreated(head.stream, before.incarnation, head.incarnation)
    return head.first_seq


def first_of(transport: Transport, head: Head, start: Place) -> int:
    """Return the sequence at which a pipeline without progress starts to read a stream.

    Raises DeclarationError if the position is not earliest, latest, a sequence or a time.

    Args:
        transport: Connection that resolves a time to a sequence.
        head: State of the stream.
        start: The declared start.
    """
    if start.kind == "latest":
        return head.last_seq + 1
    if start.kind == "seq":
        return start.value
    if start.kind == "time":
        return transport.seq_at(head.stream, start.value)
    if start.kind == "earliest":
        return head.first_seq
    raise DeclarationError(
        "source.startingPosition", f"is {start.kind!r}", "earliest, latest, seq:N or time:RFC3339"
    )


def reached(transport: Transport, head: Head, first: int, field: str, wait_s: float) -> Head:
    """Wait until a stream contains the sequence before a pipeline's start; return its state.

    Only a standby of PostgreSQL gets time to catch up: at a primary, a missing sequence may never
    appear. Raises NotReachedYet if the stream ends before that sequence.

    Args:
        transport: Connection to the stream.
        head: State of the stream as known before.
        first: The start, as a sequence.
        field: Name of the field that declares the start, for the error.
        wait_s: Seconds to wait for a standby.
    """
    deadline = Deadline(wait_s)
    while first > head.last_seq + 1:
        if deadline.passed() or not transport.may_lag():
            raise NotReachedYet(head.stream, field, first, head.last_seq)
        pause(_POLL)
        head = transport.head(head.stream)
    return head


def range_options(ranges: Mapping[str, Range]) -> dict[str, str]:
    """Return the options of a batch read that reads a range of sequences of each stream."""
    return {
        "stream": json.dumps(list(ranges)),
        "startingPosition": json.dumps({s: r.first for s, r in ranges.items()}),
        "endingPosition": json.dumps({s: r.last for s, r in ranges.items()}),
    }
