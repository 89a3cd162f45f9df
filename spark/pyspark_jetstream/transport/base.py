"""How a stream is read, whichever way: raw rows in Arrow, by ranges of sequences.

A transport is made where it is used (on the driver, in each task) and closed there; it is never
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
        ("data", pa.binary()),  # null when not asked for
        ("size", pa.int64()),  # bytes of the payload
    ]
)
"""The columns of what a transport reads."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a stream held at one moment, as `STREAM.INFO` says it.

    Args:
        stream: Its name.
        incarnation: When it was created, in nanoseconds since the epoch: another number is
            another stream of the same name.
        first_seq: The first sequence that is there; one more than `last_seq` when it is empty.
        last_seq: The last sequence that was given out.
        messages: How many messages are there.
        bytes: Their size as the server counts it, with subjects and headers.
        last_ts: When the last message was stored, in nanoseconds since the epoch; 0 for none.
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
        """Whether every sequence from the first to the last one is there."""
        return self.messages == self.last_seq - self.first_seq + 1


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer of a stream, in the words of `CONSUMER.INFO`, whichever way it was asked for.

    Args:
        name: Its name.
        last_seq: The last sequence of the stream.
        delivered_stream_seq: The last sequence that was delivered.
        ack_floor_stream_seq: Everything up to here is acknowledged.
        num_ack_pending: Messages that were delivered and are not acknowledged.
        num_redelivered: Messages that were delivered more than once and are not acknowledged.
        num_pending: Messages that match its filters and were not delivered; None by SQL, where
            they are not counted.
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
        """Sequences that were not delivered, whatever its filters."""
        return max(0, self.last_seq - self.delivered_stream_seq)

    @property
    def ack_lag(self) -> int:
        """Sequences that were not acknowledged, whatever its filters."""
        return max(0, self.last_seq - self.ack_floor_stream_seq)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which columns are read besides the sequence; those that are not are null.

    A transport may give others, too, if they cost it nothing.
    """

    headers: bool = True
    data: bool = True
    subject: bool = True
    ts: bool = True
    size: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a range of sequences.

    Args:
        head: The head under which the page was read.
        rows: In ascending order of `seq`, with the columns of `RAW_SCHEMA`.
        through: The range is complete through this sequence: what lies behind the page before,
            up to here, and is not in `rows`, is not there (or does not match the filters).
    """

    head: Head
    rows: pa.RecordBatch
    through: int


class Transport(Protocol):
    """A way to read streams. Every method raises NotReachable, and StreamNotFound by name."""

    def head(self, stream: str) -> Head:
        """What the stream holds now."""
        ...

    def seq_at(self, stream: str, ts: int) -> int:
        """First sequence stored at or after a time in ns; `last_seq + 1` if there is none."""
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
        """The end of a batch that begins behind `after`: a sequence of at most `last`.

        At most `rows` messages with at most `size` bytes of payload lie behind `after` and up to
        it, but at least one message if there is any, so that a batch always gets on. None: no
        limit. A transport that cannot count returns a bound that is too low (`bound_by_head`).
        """
        ...

    def pages(
        self, stream: str, first: int, last: int, filters: tuple[str, ...], wanted: Wanted
    ) -> Iterator[Page]:
        """The messages from `first` to `last`, both included, that match any of the filters.

        The last page is through `last`. Where the server does not know `last` yet (a standby that
        lags behind) this waits; after the time allowed it raises NotReachable. No filters: all.
        """
        ...

    def points(self, stream: str, seqs: Sequence[int], wanted: Wanted) -> Iterator[Page]:
        """Single messages by ascending sequence; those that are not there are left out."""
        ...

    def last_by_subject(
        self, stream: str, filters: tuple[str, ...], up_to: int | None, wanted: Wanted
    ) -> Iterator[Page]:
        """The last message of each subject, among those up to a sequence; ascending by sequence.

        Only what is stored counts: a subject all of whose messages are behind `up_to` is left
        out, also one that gets there while this is asked. With `up_to` None no subject is left out
        that has a message all the time, and of subjects without wildcards each is found and read
        in one state of the stream.
        """
        ...

    def stored_at(self, stream: str, seq: int) -> int | None:
        """When the first message at or behind a sequence was stored, in ns; None without one."""
        ...

    def consumers(self, stream: str) -> list[Consumer]:
        """The stream's consumers, by name."""
        ...

    def may_lag(self) -> bool:
        """Whether sequences may have been given out that a head does not show yet (a standby)."""
        ...

    def close(self) -> None:
        """Let go of connections. Further calls are errors."""
        ...


def bound_by_head(head: Head, after: int, last: int, rows: int | None, size: int | None) -> int:
    """A bound for `Transport.bound` that is never too high in rows, from the head alone.

    As many sequences hold at most as many messages. Bytes are estimated by the mean size.
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
