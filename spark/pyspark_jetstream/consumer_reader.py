"""Streaming reads of `mode=consumer`: a durable consumer delivers, the query acknowledges.

The driver pulls messages. Spark's offset of a batch contains the sequences of its messages and the
data of their ack subjects. Tasks read the messages by sequence, so a replayed batch has the same
rows. While a batch runs, the driver acknowledges progress, so the server does not redeliver its
messages. The driver acknowledges a batch when Spark commits it.

Spark does not call `commit` for the last batch of a run with `AvailableNow`. So `latestOffset` of
the next run acknowledges the batch in its `start`, which Spark's log of commits contains. Every
message is read at least once, also after a failure at any point.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_jetstream import deliveries
from pyspark_jetstream import schema as columns
from pyspark_jetstream.deliveries import Deliveries
from pyspark_jetstream.leases import Lease
from pyspark_jetstream.losses import LossPolicy
from pyspark_jetstream.options import ReadOptions
from pyspark_jetstream.rows import RowShaper
from pyspark_jetstream.splits import even
from pyspark_jetstream.transport import open_transport
from pyspark_jetstream.values import InvalidOption

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before PySpark 4.2
    MODERN = False
else:
    MODERN = True

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PER_PARTITION = 10_000


def consumer_reader(options: ReadOptions, schema: "StructType") -> DataSourceStreamReader:
    """Return the streaming reader of `mode=consumer`.

    Raises InvalidOption if PySpark is older than 4.2, because it lacks the required interfaces.
    """
    if not MODERN:
        raise InvalidOption("mode", "consumer", "log: mode=consumer needs PySpark 4.2 or newer")
    return ConsumerReader(options, schema)


if MODERN:

    class ConsumerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
        """Spark's streaming reader of the messages that one consumer of one stream delivers.

        Args:
            options: Checked options of the query, with one stream, a consumer and NATS servers.
            schema: Columns of the result, as Spark determined them.
        """

        def __init__(self, options: ReadOptions, schema: "StructType") -> None:
            columns.check(schema, columns.columns_of(options.payload), options.payload)
            self._options = options
            self._schema = columns.to_arrow(schema)
            self._stream, self._name = options.streams[0], options.consumer
            self._lease: Lease | None = None
            self._left: int | None = None

        def __getstate__(self) -> dict[str, Any]:
            """Return the state for tasks, without the lease: each task opens its own connection."""
            return {**self.__dict__, "_lease": None}

        def _leased(self) -> Lease:
            """Return the `leases.Lease` of the driver; the first call opens it and creates a
            missing consumer.
            """
            if self._lease is None:
                assert self._options.connection.nats is not None, "checked with the options"
                self._lease = Lease(
                    self._options.connection.nats, self._stream, self._name, self._options.filters
                )
            return self._lease

        def initialOffset(self) -> dict[str, Any]:
            """Return the offset before the first batch: batch number 0 without messages.

            The consumer itself stores its position, on the server.
            """
            incarnation = self._leased().incarnation()
            return Deliveries(self._stream, self._name, incarnation, 0, "", ()).to_json()

        def getDefaultReadLimit(self) -> ReadLimit:
            """Return the limit of one batch in messages: `maxMessagesPerTrigger`, by default
            10,000.
            """
            return ReadMaxRows(self._options.max_messages or deliveries.MOST)

        def prepareForTriggerAvailableNow(self) -> None:
            """Limit this run to the number of messages that are unacknowledged or undelivered
            now.
            """
            self._left = self._leased().waiting()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            """Acknowledge the batch of `start`, which Spark has committed, and pull the next batch.

            Returns the offset of the new batch, or `start` if the consumer has no message to
            deliver.
            """
            before = deliveries.from_json(start, self._stream, self._name)
            lease = self._leased()
            lease.done(before)
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else deliveries.MOST
            if isinstance(limit, ReadAllAvailable):
                most = self._options.max_messages or deliveries.MOST
            if self._left is not None:
                most = min(most, self._left)
            found = lease.pull(most, before) if most else None
            if found is None:
                return start
            if self._left is not None:
                self._left -= len(found)
            return found.to_json()

        def reportLatestOffset(self) -> dict[str, Any]:
            """Return the consumer's progress for Spark's reports, with the fields of
            `CONSUMER.INFO`.
            """
            info = self._leased().info()
            return {
                "v": deliveries.VERSION,
                "stream": self._stream,
                "consumer": self._name,
                "delivered_stream_seq": int(info["delivered"]["stream_seq"]),
                "ack_floor_stream_seq": int(info["ack_floor"]["stream_seq"]),
                "num_ack_pending": int(info["num_ack_pending"]),
                "num_redelivered": int(info["num_redelivered"]),
                "num_pending": int(info["num_pending"]),
            }

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
            """Return the partitions of the batch that ends at `end`, from the offset alone.

            The messages of the batch are protected from redelivery until `commit`.
            """
            batch = deliveries.from_json(end, self._stream, self._name)
            # After a restart, Spark reads the batch of the checkpoint again, without a call of
            # `latestOffset`. So its messages are protected from redelivery here.
            self._leased().hold(batch)
            sequences = batch.sequences()
            most = self._options.split.max_messages or _PER_PARTITION
            parts = max(self._options.split.min_partitions, -(-len(sequences) // most))
            return [
                InputPartition((batch.incarnation, sequences[begin:stop]))
                for begin, stop in even(len(sequences), parts)
            ]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            """Yield the rows of one partition as Arrow batches. Spark calls it in a task."""
            # Spark plans a partition of None if there is nothing to read
            if partition.value is None:
                return
            incarnation, sequences = partition.value
            transport = open_transport(self._options.connection)
            shaper = RowShaper(
                self._stream, self._schema, self._options.payload, self._options.json
            )
            policy = LossPolicy(self._options.fail_on_loss)
            missing = len(sequences)
            try:
                if policy.recreated(transport.head(self._stream), incarnation):
                    return
                for page in transport.points(self._stream, sequences, shaper.wanted):
                    missing -= page.rows.num_rows
                    if page.rows.num_rows:
                        yield shaper.shape(page.rows)
            finally:
                transport.close()
            policy.removed(self._stream, sequences[0], sequences[-1], missing)

        def commit(self, end: dict[str, Any]) -> None:
            """Acknowledge the messages of a batch, after Spark has written it."""
            self._leased().done(deliveries.from_json(end, self._stream, self._name))

        def stop(self) -> None:
            """Close the connection to NATS. The next run reads the messages of an uncommitted batch
            again.
            """
            lease, self._lease = self._lease, None
            if lease is not None:
                lease.close()
