"""Streaming reads of `mode=log`: micro-batches between two positions of a checkpoint.

A replayed batch has the same rows as far as its messages are still stored. The checkpoint contains
the end of each batch; the end of the first batch contains also the start of the query.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_jetstream import positions
from pyspark_jetstream import schema as columns
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.planning import Planner
from pyspark_jetstream.positions import Offset, Position
from pyspark_jetstream.reading import read_split
from pyspark_jetstream.splits import shares
from pyspark_jetstream.transport import open_transport
from pyspark_jetstream.transport.base import Head, Transport
from pyspark_jetstream.values import InvalidOption

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before PySpark 4.2: see OldStreamReader
    MODERN = False
else:
    MODERN = True

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StreamReader(DataSourceStreamReader):
    """Spark's streaming reader with the methods that every PySpark version needs.

    Args:
        options: Options of the query.
        schema: Columns of the result, as Spark determined them.
    """

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        columns.check(schema, columns.columns_of(options.payload), options.payload)
        self._options = options
        self._schema = columns.to_arrow(schema)
        self._transport: Transport | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks, without the transport: each task opens its own connection."""
        return {**self.__dict__, "_transport": None}

    @property
    def _planner(self) -> Planner:
        if self._transport is None:
            self._transport = open_transport(self._options.connection)
        return Planner(self._options, self._transport)

    def initialOffset(self) -> dict[str, Any]:
        """Return the start position of each stream, for a query without a checkpoint."""
        planner = self._planner
        return positions.to_json(
            {stream: planner.start(head) for stream, head in planner.heads().items()}
        )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the partitions of the micro-batch between two offsets."""
        planner = self._planner
        before, after = positions.from_json(start), positions.from_json(end)
        heads = planner.heads(known=after)
        return [
            InputPartition(split)
            for stream, position in after.items()
            if stream in heads
            for split in planner.batch(before.get(stream), position, heads[stream])
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition as Arrow batches. Spark calls it in a task."""
        return read_split(self._options, self._schema, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the positions of the query are only in Spark's checkpoint."""

    def stop(self) -> None:
        """Close the connection of the driver, at the end of the query."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close()


class OldStreamReader(StreamReader):
    """Streaming reader for PySpark 4.0 and 4.1, which have neither rate limits nor lag.

    With these versions, `Trigger.AvailableNow` reads all messages in one batch.
    """

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        for name, value in (
            ("maxMessagesPerTrigger", options.max_messages),
            ("maxBytesPerTrigger", options.max_bytes),
        ):
            if value is not None:
                raise InvalidOption(name, value, "no limit before PySpark 4.2, which has none")
        if any(place.kind == "lastPerSubject" for place in options.start.values()):
            raise InvalidOption("startingPosition", "lastPerSubject", "PySpark 4.2 or newer for it")
        super().__init__(options, schema)
        self._initial: Offset = {}

    def initialOffset(self) -> dict[str, Any]:
        """Return the start position of each stream, for a query without a checkpoint."""
        value = super().initialOffset()
        self._initial = positions.from_json(value)
        return value

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the current end of each stream as the end of the next batch."""
        initial, self._initial = self._initial, {}
        return positions.to_json(
            {
                stream: Position(
                    head.incarnation,
                    head.last_seq,
                    origin=initial[stream].seq if stream in initial else None,
                )
                for stream, head in self._planner.heads().items()
            }
        )


def _same(one: Offset, other: Offset) -> bool:
    """Return True if two offsets have equal positions, apart from their origins."""

    def bare(offset: Offset) -> Offset:
        return {stream: replace(position, origin=None) for stream, position in offset.items()}

    return bare(one) == bare(other)


def stream_reader(options: ReadOptions, schema: "StructType") -> StreamReader:
    """Return the streaming reader of `mode=log` for the installed PySpark version."""
    if not MODERN:
        return OldStreamReader(options, schema)
    return LimitedStreamReader(options, schema)


if MODERN:

    class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
        """Streaming reader for PySpark 4.2 and newer, with rate limits, `Trigger.AvailableNow` and
        lag.
        """

        _initial: dict[str, Any] | None = None
        _target: dict[str, Head] | None = None
        _reached: Offset | None = None

        def initialOffset(self) -> dict[str, Any]:
            """Return the start position of each stream, for a query without a checkpoint."""
            self._initial = super().initialOffset()
            return self._initial

        def getDefaultReadLimit(self) -> "ReadLimit":
            """Return the limit of a batch in messages, else the limit in bytes, else no limit.

            If the options set both limits, `latestOffset` applies the limit in bytes too.
            """
            if self._options.max_messages is not None:
                return ReadMaxRows(self._options.max_messages)
            if self._options.max_bytes is not None:
                return ReadMaxBytes(self._options.max_bytes)
            return ReadAllAvailable()

        def prepareForTriggerAvailableNow(self) -> None:
            """Limit this run to the messages that are stored now."""
            self._target = self._planner.heads_there()

        def latestOffset(self, start: dict[str, Any], limit: "ReadLimit") -> dict[str, Any]:
            """Return the end of the next batch within the limits; `start` if there is no new
            message.
            """
            planner = self._planner
            rows, size = self._limits(limit)
            before, first = positions.from_json(start), start == self._initial
            heads = planner.heads(known=before)
            begins = self._begins(planner, before, heads, first)
            last = {stream: self._last(heads[stream]) for stream in begins}
            waiting = [max(0, last[stream] - one.seq) for stream, one in begins.items()]
            row_shares = [rows] * len(waiting) if rows is None else shares(rows, waiting)
            size_shares = [None] * len(waiting) if size is None else shares(size, waiting)
            ends: Offset = {}
            for place, (stream, begin) in enumerate(begins.items()):
                ends[stream] = self._end(
                    planner,
                    heads[stream],
                    begin,
                    last[stream],
                    row_shares[place],
                    size_shares[place],
                )
            self._reached = ends
            if not first and _same(ends, before):
                return start  # unchanged, because any other text would be a new batch to Spark
            return positions.to_json(ends)

        def reportLatestOffset(self) -> dict[str, Any]:
            """Return state and lag of each stream, for the progress reports of Spark.

            `lag` is the number of unread messages, `lag_seconds` the age of the first one in
            seconds.
            """
            planner, reached = self._planner, self._reached or {}
            streams = {}
            for stream, head in planner.heads_there().items():
                position = reached.get(stream)
                left, seconds = planner.lag(head, position) if position else (0, 0.0)
                streams[stream] = {
                    "incarnation": head.incarnation,
                    "first_seq": head.first_seq,
                    "last_seq": head.last_seq,
                    "messages": head.messages,
                    "num_deleted": max(0, head.last_seq - head.first_seq + 1 - head.messages),
                    "lag": left,
                    "lag_seconds": seconds,
                }
            return {"v": positions.VERSION, "streams": streams}

        def _limits(self, limit: "ReadLimit") -> tuple[int | None, int | None]:
            """Return the limits of the next batch in messages and bytes; both None for
            `Trigger.Once`.
            """
            default = self.getDefaultReadLimit()
            if isinstance(limit, ReadAllAvailable) and not isinstance(default, ReadAllAvailable):
                return None, None
            rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_messages
            size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
            return rows, size

        def _begins(
            self, planner: Planner, start: Offset, heads: dict[str, Head], first: bool
        ) -> Offset:
            """Return the position after which the next batch reads each stream.

            `origin` of a position is set if the checkpoint does not contain it: in the first batch,
            for a stream added to the query, and for a recreated or restored stream. Spark runs the
            first batch of a query even if the batch is empty. So after it, the checkpoint contains
            the start of the query.

            Args:
                planner: Planner of the query.
                start: The end of the previous batch, from the checkpoint.
                heads: State of each stream.
                first: True for the first batch of the query.
            """
            begins: Offset = {}
            for stream, head in heads.items():
                if stream not in start:  # added to the query since the checkpoint
                    begin = planner.start(head)
                    begins[stream] = replace(begin, origin=begin.seq)
                else:
                    position = planner.resumed(replace(start[stream], origin=None), head)
                    if first:
                        position = replace(position, origin=position.seq)
                    begins[stream] = position
            return begins

        def _last(self, head: Head) -> int:
            target = (self._target or {}).get(head.stream)
            if target is None or target.incarnation != head.incarnation:
                return head.last_seq
            return min(target.last_seq, head.last_seq)

        def _end(
            self,
            planner: Planner,
            head: Head,
            begin: Position,
            last: int,
            rows: int | None,
            size: int | None,
        ) -> Position:
            if begin.seq >= last or rows == 0 or size == 0:
                return begin
            limited = rows is not None or size is not None
            if begin.seq < begin.snapshot:
                end = begin.snapshot
                if limited:
                    end = planner.latest_bound(head.stream, begin, rows, size)
                return replace(begin, seq=end)
            assert self._transport is not None
            filters = self._options.filters
            if rows is not None and size is None and not filters and head.is_dense:
                last = min(last, max(begin.seq, head.first_seq - 1) + rows)
            elif limited:
                last = self._transport.bound(head.stream, begin.seq, last, filters, rows, size)
            return replace(begin, seq=last, snapshot=0)
