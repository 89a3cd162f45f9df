"""Planning of reads, on the driver.

It resolves positions to sequences, and divides ranges of sequences into partitions.
"""

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
    """Planner of the reads of a query: computes ranges of sequences and their partitions.

    Args:
        options: Options of the query.
        transport: Connection that reads the state of streams and resolves times to sequences.
    """

    def __init__(self, options: ReadOptions, transport: Transport) -> None:
        self._options = options
        self._transport = transport
        self._policy = LossPolicy(options.fail_on_loss)

    def heads(self, known: Collection[str] = ()) -> dict[str, Head]:
        """Return the state of every stream of the query by name.

        Raises StreamNotFound if a stream does not exist.

        Args:
            known: Streams that the query has read before. If `failOnDataLoss` is false and one of
                them is deleted, the method waits up to the option `timeout` for it to be created
                again.
        """
        return {
            stream: self._head(stream, is_known=stream in known) for stream in self._options.streams
        }

    def heads_there(self) -> dict[str, Head]:
        """Return the state of each stream of the query that exists now, by name."""
        found = {}
        for stream in self._options.streams:
            with suppress(StreamNotFound):
                found[stream] = self._transport.head(stream)
        return found

    def _head(self, stream: str, *, is_known: bool) -> Head:
        wait_s = self._options.connection.timeout if is_known and self._policy.goes_on else 0.0
        return head_when_there(self._transport, stream, wait_s)

    def head_at(self, stream: str, seq: int, what: str) -> Head:
        """Return the state of a stream as soon as it contains a sequence.

        A standby of PostgreSQL may lag behind, so the method waits up to the option `timeout`.
        Raises DataLoss after that time, unless `failOnDataLoss` is false.

        Args:
            stream: Name of the stream.
            seq: The sequence.
            `what`: Name of the sequence in the error message.
        """
        head = self._awaited(stream, seq)
        self._policy.beyond(head, seq, what)
        return head

    def _awaited(self, stream: str, seq: int) -> Head:
        """Return the state of a stream as soon as it contains a sequence, or after the option
        `timeout`.
        """
        until = time.monotonic() + self._options.connection.timeout
        while True:
            head = self._head(stream, is_known=True)
            if head.last_seq >= seq or time.monotonic() >= until:
                return head
            time.sleep(_POLL)

    def _reached(self, head: Head, seq: int, option: str, named: int | None = None) -> Head:
        """Return the state of a stream that contains the sequence that an option needs.

        Only a standby of PostgreSQL gets time to catch up. Raises NotReachedYet if the stream does
        not contain the sequence, unless `failOnDataLoss` is false.

        Args:
            head: State of the stream as known before.
            seq: The sequence.
            option: Name of the option.
            named: The sequence in the option's text, if it differs from `seq`.
        """
        if head.last_seq < seq and self._transport.may_lag():
            head = self._awaited(head.stream, seq)
        if head.last_seq < seq:
            self._policy.unreached(head, seq if named is None else named, option)
        return head

    def start(self, head: Head) -> Position:
        """Return the start position of one stream for a query without a checkpoint.

        The option `startingPosition` names it. Raises NotReachedYet if its sequence is after the
        end, and DataLoss if it is before the first stored message, unless `failOnDataLoss` is
        false.
        """
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
        """Return the last sequence of a batch read or of the option `asOf`.

        Raises NotReachedYet if the sequence is after the end, unless `failOnDataLoss` is false.

        Args:
            head: State of the stream.
            place: The end as the option names it.
            inclusive: True for `asOf`, which includes messages stored exactly at its time; False
                for `endingPosition`, which excludes them.
        """
        if place.kind == "latest":
            return head.last_seq
        if place.kind == "time":
            return self._transport.seq_at(head.stream, place.value + inclusive) - 1
        option = "asOf" if inclusive else "endingPosition"
        return min(place.value, self._reached(head, place.value, option).last_seq)

    def ranges(self, head: Head, after: int, last: int, filters: tuple[str, ...]) -> list[Split]:
        """Divide the messages with sequences from `after + 1` through `last` into partitions.

        Args:
            head: State of the stream.
            after: The sequence before the first one.
            last: The last sequence.
            filters: Subjects to read; empty for all.
        """
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
        """Divide the last message of each subject, as of a sequence, into partitions.

        Args:
            head: State of the stream.
            up_to: Messages with a higher sequence are ignored.
            filters: Subjects to read; empty for all.
            kind: Treatment of messages that are removed before a task reads them: `current`,
                `exact` or `found` (see `reading.LatestSplit`).
            span: Range of sequences to which the result is limited; None for no limit.
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
        """Return the last sequence of a micro-batch of a read from `lastPerSubject`.

        The batch has at least one message, and otherwise stays within both limits.

        Args:
            stream: Name of the stream.
            position: Position before the batch.
            rows: Limit in messages; None for none.
            size: Limit in bytes; None for none.
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

        Raises StreamRecreated or DataLoss if its messages are not stored, unless `failOnDataLoss`
        is false.

        Args:
            start: The end of the previous batch; None if the previous batch did not have the
                stream.
            end: The end of this batch.
            head: Current state of the stream.
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

        The number is an upper bound: it includes removed messages and messages that the filters
        exclude. The age is 0 if there are none, and depends on the clock of this machine.
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
        """Return the position from which a query resumes after its checkpoint.

        It is `position`, or if `failOnDataLoss` is false: the start of a recreated stream, or the
        end of a stream that was restored from an older state. In these two cases the result has
        an `origin`, because its batch does not begin at the end of the previous one.
        """
        if self._policy.recreated(head, position.incarnation):
            return Position(head.incarnation, 0, 0, 0)
        if position.seq > head.last_seq:
            head = self.head_at(head.stream, position.seq, "the checkpoint")
            if position.seq > head.last_seq:
                return Position(head.incarnation, head.last_seq, 0, head.last_seq)
        return position
