"""The interface of transports, which read messages of a stream as Arrow batches.

The driver and each task open a transport of their own and close it; a transport is never pickled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

RAW_SCHEMA = pa.schema(
    [
        ("seq", pa.int64()),
        ("subject", pa.string()),
        ("ts", pa.int64()),  # nanoseconds since the epoch
        ("headers", pa.binary()),  # "NATS/1.0\r\n...\r\n\r\n" as stored; null without headers
        ("data", pa.binary()),  # null if not wanted
        ("size", pa.int64()),  # bytes of the payload
    ]
)
"""The columns of the batches that a transport returns."""


@dataclass(frozen=True, slots=True)
class Head:
    """The state of a stream at one moment, as in `STREAM.INFO`.

    Attributes:
        stream: Name of the stream.
        incarnation: Creation time in nanoseconds since the epoch; if it differs, the stream was
            deleted and another one created with the same name.
        first_seq: The first stored sequence; one more than `last_seq` if the stream is empty.
        last_seq: The last assigned sequence.
        messages: Number of stored messages.
        bytes: Size of the messages in bytes as the server counts it, with subjects and headers.
        last_ts: Time of the last message, in nanoseconds since the epoch; 0 if there is none.
    """

    stream: str
    incarnation: int
    first_seq: int
    last_seq: int
    messages: int
    bytes: int
    last_ts: int

    @property
    def is_dense(self) -> bool:
        """True if every sequence from the first to the last one is stored."""
        return self.messages == self.last_seq - self.first_seq + 1


@dataclass(frozen=True, slots=True)
class Consumer:
    """The state of a consumer of a stream, with the field names of `CONSUMER.INFO`.

    Attributes:
        name: Name of the consumer.
        last_seq: The last sequence of the stream.
        delivered_stream_seq: The last delivered stream sequence.
        ack_floor_stream_seq: All stream sequences up to this one are acknowledged.
        num_ack_pending: Number of delivered messages without an acknowledgement.
        num_redelivered: Number of unacknowledged messages that were delivered more than once.
        num_pending: Number of matching messages not yet delivered; None by SQL, which does not
            count them.
    """

    name: str
    last_seq: int
    delivered_stream_seq: int
    ack_floor_stream_seq: int
    num_ack_pending: int
    num_redelivered: int
    num_pending: int | None

    @property
    def lag(self) -> int:
        """Number of stream sequences after the last delivered one, regardless of filters."""
        return max(0, self.last_seq - self.delivered_stream_seq)

    @property
    def ack_lag(self) -> int:
        """Number of stream sequences after the ack floor, regardless of filters."""
        return max(0, self.last_seq - self.ack_floor_stream_seq)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns of messages that a transport has to read besides `seq`; the others are null.

    A transport may also fill other columns if they cost nothing.

    Attributes:
        headers, data, subject, ts, size: True to read the column of this name.
    """

    headers: bool = True
    data: bool = True
    subject: bool = True
    ts: bool = True
    size: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """The result of one step of a read: messages of a stream by ascending sequence.

    Attributes:
        head: State of the stream at the read of the messages.
        rows: The messages by ascending `seq`, with the columns of `RAW_SCHEMA`.
        through: The sequence up to which the read is complete. If a sequence after the previous
            page and up to this one is not in `rows`, it is not stored or does not match the
            filters.
    """

    head: Head
    rows: pa.RecordBatch
    through: int


class Transport(Protocol):
    """A connection that reads streams, by SQL or over NATS.

    Every method raises NotReachable if the server does not answer within the option `timeout`, and
    StreamNotFound if the stream does not exist.
    """

    def head(self, stream: str) -> Head:
        """Return the current state of a stream."""
        ...

    def seq_at(self, stream: str, ts: int) -> int:
        """Return the first sequence that a stream stored at or after a time.

        Returns `last_seq + 1` if there is none.

        Args:
            stream: Name of the stream.
            ts: Time in nanoseconds since the epoch.
        """
        ...

    def bound(
        self,
        stream: str,
        after: int,
        last: int,
        filters: tuple[str, ...],
        rows: int | None,
        size: int | None,
    ) -> int:
        """Return the last sequence of a batch that is limited in messages and bytes.

        The batch has at least one message if there is any, so every batch makes progress. A
        transport that cannot count messages returns a lower sequence (`bound_by_head`).

        Args:
            stream: Name of the stream.
            after: The sequence before the batch.
            last: The highest valid result.
            filters: Subjects to read; empty for all.
            rows: Largest number of messages; None: no limit.
            size: Largest number of bytes of payload; None: no limit.
        """
        ...

    def pages(
        self, stream: str, first: int, last: int, filters: tuple[str, ...], wanted: Wanted
    ) -> Iterator[Page]:
        """Yield the messages in a range of sequences that match any of the filters.

        `through` of the last page is `last`. If a lagging standby has not reached `last` yet, the
        method waits, and raises NotReachable after the option `timeout`.

        Args:
            stream: Name of the stream.
            first, last: Range of sequences, inclusive.
            filters: Subjects to read; empty for all.
            wanted: Columns to read.
        """
        ...

    def points(self, stream: str, seqs: Sequence[int], wanted: Wanted) -> Iterator[Page]:
        """Yield the messages with the given sequences; sequences that are not stored are left out.

        Args:
            stream: Name of the stream.
            seqs: Ascending sequences.
            wanted: Columns to read.
        """
        ...

    def last_by_subject(
        self, stream: str, filters: tuple[str, ...], up_to: int | None, wanted: Wanted
    ) -> Iterator[Page]:
        """Yield the last message of each subject up to a sequence, by ascending sequence.

        A subject whose stored messages are all after `up_to` is left out, even if a message was
        replaced during the read. With `up_to` None, every subject is included that has a message
        throughout the read, and each subject without wildcards is found and read in one consistent
        state of the stream.

        Args:
            stream: Name of the stream.
            filters: Subjects to read; empty for all.
            up_to: Messages with a higher sequence are ignored; None: all count.
            wanted: Columns to read.
        """
        ...

    def stored_at(self, stream: str, seq: int) -> int | None:
        """Return the time of the first message at or after a sequence; None if there is none.

        The time is in nanoseconds since the epoch.
        """
        ...

    def consumers(self, stream: str) -> list[Consumer]:
        """Return the state of the stream's consumers, sorted by name."""
        ...

    def may_lag(self) -> bool:
        """Return True if `head` may lack assigned sequences, because the database is a standby."""
        ...

    def close(self) -> None:
        """Close the transport and its connection. No method may be called afterwards."""
        ...


def bound_by_head(head: Head, after: int, last: int, rows: int | None, size: int | None) -> int:
    """Estimate the result of `Transport.bound` from the state of the stream alone.

    N sequences contain at most N messages, so the limit of messages is never exceeded. Bytes are
    estimated by the mean size of the stream's messages.

    Args:
        head: State of the stream.
        after: The sequence before the batch.
        last: The highest valid result.
        rows: Largest number of messages; None: no limit.
        size: Largest number of bytes; None: no limit.
    """
    begin = max(after, head.first_seq - 1)
    if begin >= last:
        return last
    steps = [last - begin]
    if rows is not None:
        steps.append(rows)
    if size is not None and head.messages:
        steps.append(size * head.messages // max(head.bytes, 1))
    return begin + max(1, min(steps))
