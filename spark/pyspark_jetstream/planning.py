"""What a query reads: positions into ranges, ranges into partitions. Runs on the driver."""

import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

import pyarrow.compute as pc

from pyspark_jetstream.losses import LossPolicy
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.positions import Place, Position, place_of
from pyspark_jetstream.reading import LatestSplit, RangeSplit, Split
from pyspark_jetstream.snapshots import divide, find_latest
from pyspark_jetstream.splits import Span, cut, estimate
from pyspark_jetstream.transport.base import Head, Transport
from pyspark_jetstream.transport.errors import StreamNotFound
from pyspark_jetstream.transport.waiting import head_when_there

_POLL = 0.05


class Planner:
    """Plans reads of the streams of a query.

    Args:
        options: What is read.
        transport: Reads heads and positions.
    """

    def __init__(self, options: ReadOptions, transport: Transport) -> None:
        self._options = options
        self._transport = transport
        self._policy = LossPolicy(options.fail_on_loss)

    def heads(self, known: Collection[str] = ()) -> dict[str, Head]:
        """The head of every stream. Raises StreamNotFound.

        Args:
            known: Streams that the query has read: one of them that was deleted is waited for
                where losses are no reason to end, for it may be created again.
        """
        return {
            stream: self._head(stream, is_known=stream in known) for stream in self._options.streams
        }

    def heads_there(self) -> dict[str, Head]:
        """The head of every stream that is there now."""
        found = {}
        for stream in self._options.streams:
            with suppress(StreamNotFound):
                found[stream] = self._transport.head(stream)
        return found

    def _head(self, stream: str, *, is_known: bool) -> Head:
        patience = self._options.connection.timeout if is_known and self._policy.goes_on else 0.0
        return head_when_there(self._transport, stream, patience)

    def head_at(self, stream: str, seq: int, what: str) -> Head:
        """The head, once the stream has come to a sequence. Raises DataLoss when it does not.

        A standby may lag behind the server where the position was taken, so this waits.
        """
        head = self._awaited(stream, seq)
        self._policy.beyond(head, seq, what)
        return head

    def _awaited(self, stream: str, seq: int) -> Head:
        """The head, once the stream has come to a sequence, or after the time allowed."""
        until = time.monotonic() + self._options.connection.timeout
        while True:
            head = self._head(stream, is_known=True)
            if head.last_seq >= seq or time.monotonic() >= until:
                return head
            time.sleep(_POLL)

    def _reached(self, head: Head, seq: int, option: str, named: int | None = None) -> Head:
        """The head, with a sequence that an option needs. Raises NotReachedYet, or goes on.

        Nobody says that the stream was ever there, so only a standby is waited for.

        Args:
            head: The head before.
            seq: The sequence.
            option: The option.
            named: The sequence that the option names, where that is another one.
        """
        if head.last_seq < seq and self._transport.may_lag():
            head = self._awaited(head.stream, seq)
        if head.last_seq < seq:
            self._policy.unreached(head, seq if named is None else named, option)
        return head

    def start(self, head: Head) -> Position:
        """Where a query without a checkpoint begins in one stream."""
        place = place_of(self._options.start, head.stream, "earliest")
        if place.kind == "lastPerSubject":
            return Position(head.incarnation, 0, head.last_seq)
        if place.kind == "latest":
            return Position(head.incarnation, head.last_seq)
        if place.kind == "earliest":
            return Position(head.incarnation, max(0, head.first_seq - 1))
        if place.kind == "time":
            return Position(head.incarnation, self._transport.seq_at(head.stream, place.value) - 1)
        if place.value > head.last_seq + 1:
            head = self._reached(head, place.value - 1, "startingPosition", place.value)
        seq = max(0, place.value - 1)
        self._policy.trimmed(head, seq, head.last_seq)
        return Position(head.incarnation, min(seq, head.last_seq))

    def end(self, head: Head, place: Place, *, inclusive: bool = False) -> int:
        """The last sequence of a batch read, or of `asOf`, where a time counts as a whole."""
        if place.kind == "latest":
            return head.last_seq
        if place.kind == "time":
            return self._transport.seq_at(head.stream, place.value + inclusive) - 1
        option = "asOf" if inclusive else "endingPosition"
        return min(place.value, self._reached(head, place.value, option).last_seq)

    def ranges(self, head: Head, after: int, last: int, filters: tuple[str, ...]) -> list[Split]:
        """The partitions of the messages behind `after`, up to `last`."""
        # What is known to be gone needs no partition, but has been told by then.
        span = Span(max(after + 1, head.first_seq), last)
        return [
            RangeSplit(head.stream, head.incarnation, one.first, one.last, filters)
            for one in cut(span, *estimate(head, span), self._options.split)
        ]

    def latest(
        self,
        head: Head,
        up_to: int,
        filters: tuple[str, ...],
        kind: str,
        *,
        span: Span | None = None,
    ) -> list[Split]:
        """The partitions of the last messages of subjects as of `up_to`; those in a span only.

        Args:
            head: The stream.
            up_to: A sequence.
            filters: Subjects; empty for all.
            kind: As in `LatestSplit`.
            span: Sequences; None for all.
        """
        current = kind == "current"
        found = find_latest(self._transport, head.stream, filters, up_to, current=current)
        if span is not None:
            found = found.filter(
                pc.and_(
                    pc.greater_equal(found["seq"], span.first),
                    pc.less_equal(found["seq"], span.last),
                )
            )
        size = pc.sum(found["size"], min_count=0).as_py()
        parts = cut(Span(1, found.num_rows), found.num_rows, size, self._options.split)
        return [
            LatestSplit(head.stream, head.incarnation, one, kind, up_to)
            for one in divide(found, len(parts))
        ]

    def latest_bound(
        self, stream: str, position: Position, rows: int | None, size: int | None
    ) -> int:
        """Where a batch of last messages ends that holds so many rows and bytes, at least one."""
        found = find_latest(
            self._transport, stream, self._options.filters, position.snapshot, current=False
        )
        found = found.filter(pc.greater(found["seq"], position.seq))
        fits = found.num_rows if rows is None else min(rows, found.num_rows)
        if size is not None:
            total = pc.cumulative_sum(found["size"])
            fits = min(fits, max(1, pc.sum(pc.less_equal(total, size), min_count=0).as_py()))
        if fits >= found.num_rows:
            return position.snapshot
        return int(found["seq"][fits - 1].as_py())

    def batch(self, start: Position | None, end: Position, head: Head) -> list[Split]:
        """The partitions of a micro-batch in one stream, wherever it begins.

        Args:
            start: The end of the batch before; None when that did not have the stream.
            end: The end of this one.
            head: The stream now.
        """
        if self._policy.recreated(head, end.incarnation):
            return []
        after = end.origin
        if after is None:
            known = start is not None and start.incarnation == end.incarnation
            after = start.seq if start is not None and known else 0
        filters = self._options.filters
        if end.snapshot and after < end.snapshot:
            span = Span(after + 1, end.seq)
            return self.latest(head, end.snapshot, filters, "found", span=span)
        if end.seq > head.last_seq:
            head = self.head_at(head.stream, end.seq, "the end of the batch")
            end = replace(end, seq=min(end.seq, head.last_seq))
        self._policy.trimmed(head, after, end.seq)
        return self.ranges(head, after, end.seq, filters)

    def lag(self, head: Head, position: Position) -> tuple[int, float]:
        """How many messages are stored behind a position, and how long the first of them is there.

        The messages are at most so many: what was removed in between, or does not match the
        filters, is not told apart. The seconds are by the clock of this machine.
        """
        if position.incarnation != head.incarnation or position.seq < position.snapshot:
            position = replace(position, seq=0)
        first = max(position.seq + 1, head.first_seq)
        left = min(head.messages, max(0, head.last_seq - first + 1))
        stored = self._transport.stored_at(head.stream, first) if left else None
        if stored is None:
            return left, 0.0
        return left, round(max(0, time.time_ns() - stored) / 1e9, 3)

    def resumed(self, position: Position, head: Head) -> Position:
        """Where to go on from a position of a checkpoint; it names its origin where it moved."""
        if self._policy.recreated(head, position.incarnation):
            return Position(head.incarnation, 0, 0, 0)
        if position.seq > head.last_seq:
            head = self.head_at(head.stream, position.seq, "the checkpoint")
            if position.seq > head.last_seq:
                return Position(head.incarnation, head.last_seq, 0, head.last_seq)
        return position
