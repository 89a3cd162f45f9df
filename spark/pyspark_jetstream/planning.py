"""Plans of a query, on the driver: positions into ranges, ranges into partitions."""

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
from pyspark_jetstream.splits import Span, estimate, split_span
from pyspark_jetstream.transport.base import Head, Transport
from pyspark_jetstream.transport.errors import StreamNotFound
from pyspark_jetstream.transport.waiting import head_when_there
from pyspark_jetstream.units import NANOS_PER_SECOND

_POLL = 0.05


class Planner:
    """Planner of reads of a query's streams.

    Args:
        options: Options of the query.
        transport: Reads heads and positions.
    """

    def __init__(self, options: ReadOptions, transport: Transport) -> None:
        self._options = options
        self._transport = transport
        self._policy = LossPolicy(options.fail_on_loss)

    def heads(self, known: Collection[str] = ()) -> dict[str, Head]:
        """Return the head of every stream. Raises StreamNotFound.

        Args:
            known: Streams that the query has read. If losses are allowed, a deleted one of them
                gets time to be created again.
        """
        return {
            stream: self._head(stream, is_known=stream in known) for stream in self._options.streams
        }

    def heads_there(self) -> dict[str, Head]:
        """Return the heads of the streams that exist now."""
        found = {}
        for stream in self._options.streams:
            with suppress(StreamNotFound):
                found[stream] = self._transport.head(stream)
        return found

    def _head(self, stream: str, *, is_known: bool) -> Head:
        wait_s = self._options.connection.timeout if is_known and self._policy.goes_on else 0.0
        return head_when_there(self._transport, stream, wait_s)

    def head_at(self, stream: str, seq: int, what: str) -> Head:
        """Return the head once the stream has reached a sequence. Raises DataLoss on timeout.

        A standby may lag behind the server of the position, so this method waits.
        """
        head = self._awaited(stream, seq)
        self._policy.beyond(head, seq, what)
        return head

    def _awaited(self, stream: str, seq: int) -> Head:
        """Return the head once the stream has reached a sequence, or after the timeout."""
        until = time.monotonic() + self._options.connection.timeout
        while True:
            head = self._head(stream, is_known=True)
            if head.last_seq >= seq or time.monotonic() >= until:
                return head
            time.sleep(_POLL)

    def _reached(self, head: Head, seq: int, option: str, named: int | None = None) -> Head:
        """Return a head with a sequence that an option needs.

        Raises NotReachedYet unless losses are allowed. Nothing proves that the sequence ever
        existed, so only a standby gets time to catch up.

        Args:
            head: The head so far.
            seq: The sequence.
            option: The option.
            named: The sequence in the option, if it differs from `seq`.
        """
        if head.last_seq < seq and self._transport.may_lag():
            head = self._awaited(head.stream, seq)
        if head.last_seq < seq:
            self._policy.unreached(head, seq if named is None else named, option)
        return head

    def start(self, head: Head) -> Position:
        """Return the start of one stream for a query without a checkpoint."""
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
        """Return the last sequence of a batch read, or of `asOf` (which includes its time)."""
        if place.kind == "latest":
            return head.last_seq
        if place.kind == "time":
            return self._transport.seq_at(head.stream, place.value + inclusive) - 1
        option = "asOf" if inclusive else "endingPosition"
        return min(place.value, self._reached(head, place.value, option).last_seq)

    def ranges(self, head: Head, after: int, last: int, filters: tuple[str, ...]) -> list[Split]:
        """Return the partitions of the messages after `after` through `last`."""
        # Removed sequences at the start need no partition; they have been reported before.
        span = Span(max(after + 1, head.first_seq), last)
        return [
            RangeSplit(head.stream, head.incarnation, one.first, one.last, filters)
            for one in split_span(span, *estimate(head, span), self._options.split)
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
        """Return the partitions of the last messages of subjects as of `up_to`.

        Args:
            head: The stream.
            up_to: A sequence.
            filters: Subjects; empty for all.
            kind: As in `LatestSplit`.
            span: Only messages with these sequences; None for all.
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
        parts = split_span(Span(1, found.num_rows), found.num_rows, size, self._options.split)
        return [
            LatestSplit(head.stream, head.incarnation, one, kind, up_to)
            for one in divide(found, len(parts))
        ]

    def latest_bound(
        self, stream: str, position: Position, rows: int | None, size: int | None
    ) -> int:
        """Return the end of a batch of last messages, within limits but with at least one message.

        Args:
            stream: Its name.
            position: Position before the batch.
            rows: Limit of messages; None for none.
            size: Limit of bytes; None for none.
        """
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
        """Return the partitions of a micro-batch in one stream.

        Args:
            start: The end of the previous batch; None if that lacked the stream.
            end: The end of this batch.
            head: The current head of the stream.
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
        """Return the number of messages after a position, and the age of the first one in seconds.

        The number is an upper bound: it includes removed messages and those that do not match the
        filters. The age depends on this machine's clock.
        """
        if position.incarnation != head.incarnation or position.seq < position.snapshot:
            position = replace(position, seq=0)
        first = max(position.seq + 1, head.first_seq)
        left = min(head.messages, max(0, head.last_seq - first + 1))
        stored = self._transport.stored_at(head.stream, first) if left else None
        if stored is None:
            return left, 0.0
        return left, round(max(0, time.time_ns() - stored) / NANOS_PER_SECOND, 3)

    def resumed(self, position: Position, head: Head) -> Position:
        """Return the position to resume from, with an origin if it differs from `position`."""
        if self._policy.recreated(head, position.incarnation):
            return Position(head.incarnation, 0, 0, 0)
        if position.seq > head.last_seq:
            head = self.head_at(head.stream, position.seq, "the checkpoint")
            if position.seq > head.last_seq:
                return Position(head.incarnation, head.last_seq, 0, head.last_seq)
        return position
