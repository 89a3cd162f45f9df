"""The interface of transports: raw rows of a stream in Arrow, by ranges of sequences.

A transport is opened by its user (on the driver, in each task) and closed there; it is never
pickled.
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
"""The columns of raw rows."""


@dataclass(frozen=True, slots=True)
class Head:
    """The state of a stream at one moment, as in `STREAM.INFO`.

    Attributes:
        stream: Its name.
        incarnation: Creation time in nanoseconds since the epoch; another value means another
            stream of the same name.
        first_seq: The first stored sequence; one more than `last_seq` if the stream is empty.
        last_seq: The last assigned sequence.
        messages: Number of stored messages.
        bytes: Their size as the server counts it, with subjects and headers.
        last_ts: Time of the last message, in nanoseconds since the epoch; 0 for none.
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
    """A consumer of a stream, with the names of `CONSUMER.INFO` for every transport.

    Attributes:
        name: Its name.
        last_seq: The last sequence of the stream.
        delivered_stream_seq: The last delivered sequence.
        ack_floor_stream_seq: All sequences up to this one are acknowledged.
        num_ack_pending: Delivered messages without an acknowledgement.
        num_redelivered: Messages delivered more than once without an acknowledgement.
        num_pending: Matching messages not yet delivered; None by SQL, which does not count them.
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
        """Sequences after the last delivered one, regardless of filters."""
        return max(0, self.last_seq - self.delivered_stream_seq)

    @property
    def ack_lag(self) -> int:
        """Sequences after the ack floor, regardless of filters."""
        return max(0, self.last_seq - self.ack_floor_stream_seq)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns to read besides the sequence; others are null.

    A transport may fill others, too, if they cost nothing.
    """

    headers: bool = True
    data: bool = True
    subject: bool = True
    ts: bool = True
    size: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a range of sequences.

    Attributes:
        head: The head under which the page was read.
        rows: In ascending order of `seq`, with the columns of `RAW_SCHEMA`.
        through: The range is complete through this sequence. A sequence between the previous page
            and this one that is not in `rows` is not stored, or does not match the filters.
    """

    head: Head
    rows: pa.RecordBatch
    through: int


class Transport(Protocol):
    """A way to read streams. Every method raises NotReachable, and StreamNotFound by name."""

    def head(self, stream: str) -> Head:
        """Return the current state of the stream."""
        ...

    def seq_at(self, stream: str, ts: int) -> int:
        """Return the first sequence stored at or after a time in ns, else `last_seq + 1`."""
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
        """Return the end of a batch that begins after `after`: a sequence of at most `last`.

        The batch contains at most `rows` messages with at most `size` bytes of payload, but at
        least one message if there is any, so that every batch makes progress. None: no limit. A
        transport that cannot count returns a lower bound (`bound_by_head`).
        """
        ...

    def pages(
        self, stream: str, first: int, last: int, filters: tuple[str, ...], wanted: Wanted
    ) -> Iterator[Page]:
        """Yield the messages from `first` to `last`, inclusive, that match any of the filters.

        The last page is through `last`. If the server has not reached `last` yet (a lagging
        standby), this method waits, and raises NotReachable after the timeout. No filters match all
        messages.
        """
        ...

    def points(self, stream: str, seqs: Sequence[int], wanted: Wanted) -> Iterator[Page]:
        """Yield single messages by ascending sequence; missing ones are left out."""
        ...

    def last_by_subject(
        self, stream: str, filters: tuple[str, ...], up_to: int | None, wanted: Wanted
    ) -> Iterator[Page]:
        """Yield the last message of each subject up to a sequence, by ascending sequence.

        Only stored messages count: a subject whose messages are all after `up_to` is left out, even
        if they arrive during the read. With `up_to` None, every subject is included that has a
        message throughout the read, and each subject without wildcards is found and read in one
        state of the stream.
        """
        ...

    def stored_at(self, stream: str, seq: int) -> int | None:
        """Return the time of the first message at or after a sequence, in ns; None without one."""
        ...

    def consumers(self, stream: str) -> list[Consumer]:
        """Return the stream's consumers, by name."""
        ...

    def may_lag(self) -> bool:
        """Return True if a head may lag behind assigned sequences (a standby)."""
        ...

    def close(self) -> None:
        """Release the connections. Further calls are errors."""
        ...


def bound_by_head(head: Head, after: int, last: int, rows: int | None, size: int | None) -> int:
    """Return a bound for `Transport.bound` from the head alone, never too high in rows.

    N sequences contain at most N messages. Bytes are estimated by the mean size.
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
