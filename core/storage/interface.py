"""The interface of storage: message logs, head rows, consumer states, the stream directory.

Every write carries the epoch of the leader. Errors:

- `Fenced`: another node has raised the epoch.
- `Unavailable`: storage is unreachable or refused the work; nothing was written.
- `OutcomeUnknown`: the connection was lost while a commit was in flight.

In all signatures `stream` is the number of a stream, and `partition` the number of its partition of
the message table. Times are nanoseconds since the Unix epoch. `[first, last]` is a range of
sequences with both ends, `[first, below)` one without its end.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.model.segment import Segment
from core.rules.stream.plan import Position, StreamPlan
from core.rules.stream.transactions.ledger import LedgerEntry
from core.units import Epoch, LeaseGroup

Row = tuple[int, int, bytes, bytes, bytes]
"""A message: sequence, time, subject, header block (empty: none), payload."""


@dataclass(slots=True, frozen=True)
class Head:
    """The head row of a stream: the leader's epoch, first and last sequence, counts.

    `last_ts` is the time of the last message; `msgs` and `bytes` are the totals of the stream.
    """

    epoch: Epoch
    first_seq: int
    last_seq: int
    last_ts: int
    msgs: int
    bytes: int


@dataclass(slots=True, frozen=True)
class StreamRow:
    """A stream in the stream directory.

    `config` is JSON. `creation` is the id of the request that created the stream.
    `consumer_changes` is the number of changes of its consumers.
    """

    stream: int
    account: str
    name: str
    partition: int
    created: int
    config: str
    head: Head
    lease_group: LeaseGroup = LeaseGroup(0)
    creation: int = 0
    consumer_changes: int = 0


@dataclass(slots=True, frozen=True)
class DirectoryRow:
    """A stream as every node knows it. If it is deleted, only its number counts."""

    stream: int
    account: str = ""
    name: str = ""
    lease_group: LeaseGroup = LeaseGroup(0)
    creation: int = 0
    config: str = ""
    is_deleted: bool = False


@dataclass(slots=True, frozen=True)
class DirectoryNews:
    """The changes of the stream directory up to a version.

    Attributes:
        version: The version: the number of changes ever made.
        rows: The changed streams; all streams if `is_whole`.
        is_whole: True if every stream without a row is gone.
    """

    version: int
    rows: Sequence[DirectoryRow]
    is_whole: bool


class DirectoryView(Protocol):
    """The streams of all nodes, as this process knows them."""

    @property
    def version(self) -> int:
        """The newest version of the stream directory that was applied."""
        ...

    @property
    def updates(self) -> int:
        """Number of calls of `apply` that changed something."""
        ...

    def apply(self, news: DirectoryNews) -> None:
        """Apply changes of the directory. Applying the same changes again has no effect."""
        ...

    def group_for_new_stream(
        self,
        groups: Iterable[LeaseGroup],
        tags: frozenset[str],
        coming: Iterable[tuple[LeaseGroup, frozenset[str]]],
    ) -> LeaseGroup:
        """Return the lease group for a new stream with these placement tags, out of `groups`.

        `coming` has the lease group and tags of each stream that is being created.
        """
        ...


class DirectorySource(Protocol):
    """The reader of the stream directory for nodes without leases."""

    async def news(self, since: int) -> DirectoryNews:
        """Return the changes since a version; everything if it is below 0. Raises Unavailable."""
        ...

    async def close(self) -> None:
        """Close the session, if one is open."""
        ...


@dataclass(slots=True, frozen=True)
class NewStream:
    """A stream to be created.

    Attributes:
        account: Account of the stream.
        name: Its name.
        partition: Number of its partition of the message table.
        created: Time of creation.
        creation: Id of the request.
        config: Configuration, as JSON.
        first_seq: Sequence of its first message.
        lease_group: Its lease group. None: the one with the fewest streams of those this node owns,
            preferably one without streams that ask for other tags.
        tags: The placement tags that the stream asks for.
    """

    account: str
    name: str
    partition: int
    created: int
    creation: int
    config: str
    first_seq: int
    lease_group: LeaseGroup | None = None
    tags: frozenset[str] = frozenset()


@dataclass(slots=True, frozen=True)
class ConsumerRow:
    """A consumer in the stream directory.

    `config` is JSON, `state` the encoded state of the consumer machine (None: none stored yet).
    `creation` is the id of the request that created the consumer.
    """

    stream: int
    consumer: int
    name: str
    created: int
    epoch: Epoch
    config: str
    state: bytes | None
    creation: int = 0


@dataclass(slots=True, frozen=True)
class PurgeRow:
    """A committed purge by filter whose rows are not all deleted yet."""

    stream: int
    n: int
    filters: tuple[str, ...]
    up_to_seq: int


@dataclass(slots=True)
class StreamCommit:
    """The part of one stream in a write transaction.

    Attributes:
        stream: Number of the stream.
        partition: Number of its partition.
        epoch: Epoch of its leader.
        plan: The rows to write and to delete.
        ids_since: Keep the message ids of deleted messages that were stored after this time; None:
            keep none.
    """

    stream: int
    partition: int
    epoch: Epoch
    plan: StreamPlan
    ids_since: int | None = None


@dataclass(slots=True, frozen=True)
class StateWrite:
    """The state of one consumer to be written.

    The last four fields repeat values of the encoded `state`, for the SQL view of consumers.
    """

    stream: int
    consumer: int
    epoch: Epoch
    state: bytes
    delivered_stream_seq: int
    ack_floor_stream_seq: int
    ack_pending: int
    redelivered: int


class LogWriter(Protocol):
    """The writer of messages and heads; a node has one."""

    async def commit(self, commits: Sequence[StreamCommit]) -> None:
        """Write the plans of all streams in one transaction."""
        ...

    async def heads(self, streams: Sequence[int]) -> dict[int, Head]:
        """Return the head rows of streams, by stream number."""
        ...

    async def consumer_changes(self, streams: Sequence[int]) -> dict[int, int]:
        """Return the number of changes of each stream's consumers, by stream number."""
        ...

    async def close(self) -> None:
        """Close the session."""
        ...


class StoredMessages(Protocol):
    """The reader of single messages for a node that does not lead their streams.

    Attributes:
        has_standby: True if reads go to a standby.
    """

    has_standby: bool

    def read(
        self, account: str, wanted: Sequence[tuple[str, int]]
    ) -> AsyncGenerator[list[tuple[int, Row | None]]]:
        """Yield the messages that `wanted` lists as (stream name, sequence), in batches.

        Each comes as (index in `wanted`, row). The row is None if the message does not exist or is
        gone. An index is left out if the answer is not known: the stream does not exist, does not
        allow Direct Get, or storage alone cannot decide which of its messages are gone.

        Raises:
            Unavailable: Storage is unreachable.
        """
        ...

    def close(self) -> None:
        """Close every session at once."""
        ...


class LogReader(Protocol):
    """The reader of committed rows, including removed messages that are not deleted yet."""

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` once all running reads are finished; at once if there are none."""
        ...

    async def range(self, stream: int, partition: int, seq: int, limit: int) -> Segment | None:
        """Return up to `limit` messages at or after `seq`; None if there are none."""
        ...

    async def points(self, stream: int, partition: int, seqs: Sequence[int]) -> Segment | None:
        """Return the messages with these sequences (ascending); None if none of them exist."""
        ...

    async def sizes_from(
        self, stream: int, partition: int, seq: int, limit: int
    ) -> list[tuple[int, bytes, int, int, int]]:
        """Return (sequence, subject, payload bytes, header bytes, time) from `seq` on, ascending.

        At most `limit` rows.
        """
        ...

    async def subjects(
        self, stream: int, partition: int, first: int, last: int
    ) -> list[tuple[bytes, int, int]]:
        """Return (subject, count, last sequence) of the subjects in [first, last]."""
        ...

    async def sizes(
        self, stream: int, partition: int, subject: bytes | None, first: int, below: int
    ) -> list[tuple[int, bytes, int, int]]:
        """Return (sequence, subject, payload bytes, header bytes) of [first, below), ascending.

        With a `subject`, only its messages.
        """
        ...

    async def expiry_rows(
        self, stream: int, partition: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, int, int, bytes | None]]:
        """Return the rows of [first, below) that decide when messages expire, ascending.

        Each is (sequence, subject, payload bytes, header bytes, time, header block). The block is
        None unless it has a TTL or is a delete marker of a subject.
        """
        ...

    async def recorded(self, stream: int) -> list[int]:
        """Return the sequences recorded as replaced by plans, whether deleted or not."""
        ...

    async def last_before(self, stream: int, partition: int, subject: bytes, seq: int) -> int:
        """Return the last sequence of a subject below `seq`; 0 if there is none."""
        ...

    async def newest(self, stream: int, partition: int, count: int) -> int:
        """Return the sequence of the `count`-th newest message; 0 if there are fewer."""
        ...

    async def totals(
        self, stream: int, partition: int, first: int, last: int
    ) -> tuple[int, int, int]:
        """Return (messages, their bytes, messages with headers) of [first, last]."""
        ...

    async def next_of(self, stream: int, partition: int, subject: bytes, seq: int) -> int:
        """Return the first sequence of a subject at or after `seq`; 0 if there is none."""
        ...

    async def names(
        self, stream: int, partition: int, first: int, last: int
    ) -> list[tuple[int, bytes]]:
        """Return (sequence, subject) of [first, last], ascending."""
        ...

    async def message_ids(
        self, stream: int, partition: int, since_ts: int, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        """Return (sequence, time, message id) of [first, last] stored after `since_ts`.

        Includes removed messages whose ids are kept.
        """
        ...

    async def first_removed_id(self, stream: int, since_ts: int) -> int | None:
        """Return a lower bound of the kept ids of removed messages stored after a time.

        No removed message with a smaller sequence has a kept id. None if no id is kept.
        """
        ...

    async def first_at(self, stream: int, partition: int, ts: int, first: int, last: int) -> int:
        """Return the first sequence in [first, last] stored at or after `ts`; else last + 1."""
        ...

    async def positions(self, stream: int) -> list[Position]:
        """Return the copied position of each source of a stream, former sources included."""
        ...

    async def schedules(
        self, stream: int, partition: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, bytes]]:
        """Return (sequence, subject, time, header block) of the schedules in [first, below)."""
        ...

    async def replaced(
        self, stream: int, partition: int, schedules: Sequence[tuple[bytes, int]]
    ) -> set[bytes]:
        """Return the subjects with a later message that no schedule has published.

        `schedules` has (subject, sequence); only messages behind that sequence count.
        """
        ...

    async def dues(self, stream: int) -> dict[int, int]:
        """Return the next due time of repeating schedules, by sequence; former schedules too."""
        ...

    async def sourced(self, stream: int, partition: int, name: bytes, below: int) -> list[bytes]:
        """Return some `Nats-Stream-Source` values that begin with `name`, newest first.

        Each is preceded by its sequence and a blank. Only sequences below `below` count.
        """
        ...


class Sweeper(Protocol):
    """The deletion of the rows of removed messages.

    The message ids of rows stored after `ids_since` are kept, in the same transaction; None: keep
    none.
    """

    async def delete_below(
        self, stream: int, partition: int, seq: int, limit: int, ids_since: int | None
    ) -> int:
        """Delete up to `limit` of the oldest rows below `seq`; return the number deleted."""
        ...

    async def delete_rows(
        self, stream: int, partition: int, seqs: Sequence[int], record: int, ids_since: int | None
    ) -> None:
        """Delete rows by sequence, and the records of replaced rows numbered below `record`."""
        ...

    async def delete_purged(self, stream: int, partition: int, ids_since: int | None) -> None:
        """Delete the rows of the recorded purges of a stream, then the records."""
        ...

    async def forget_ids(self, stream: int, ts: int) -> None:
        """Delete the kept ids of messages stored at or before a time."""
        ...

    async def forget_dues(self, stream: int, seqs: Sequence[int]) -> None:
        """Delete the due times of schedules that have ended."""
        ...


class StateStore(Protocol):
    """The writer of consumers' states."""

    async def write_states(self, states: Sequence[StateWrite]) -> set[tuple[int, int]]:
        """Write states; return the (stream, consumer) pairs whose epoch was current."""
        ...


class DirectoryStore(Protocol):
    """The stream directory: all streams and consumers, with their configurations.

    An `epoch` is a callable, since the epoch may change while the call waits or is retried.
    """

    async def load(
        self, groups: Collection[LeaseGroup]
    ) -> tuple[list[StreamRow], list[ConsumerRow], list[PurgeRow]]:
        """Return the streams of lease groups, their consumers, and their unfinished purges."""
        ...

    async def head(self) -> Head:
        """Return the head row of the stream directory; its version is `last_seq`."""
        ...

    async def ledgers(self, groups: Collection[LeaseGroup]) -> list[tuple[int, LedgerEntry]]:
        """Return the ledger entries of the streams of lease groups, each with its stream number."""
        ...

    async def add_stream(self, new: NewStream, check: Callable[[], None]) -> StreamRow:
        """Add a stream with its head row; return it.

        `check` is called within the transaction if the directory has changed since this call. It
        raises if the stream is not allowed any more.

        Raises:
            Fenced: This node does not own the lease group.
        """
        ...

    async def set_stream(
        self, stream: int, config: str, epoch: Callable[[], Epoch], check: Callable[[], None]
    ) -> None:
        """Change the configuration of a stream, under its current epoch."""
        ...

    async def raise_heads(self, heads: Mapping[int, tuple[Epoch, int]]) -> None:
        """Raise the last sequence of streams, so that they continue behind it.

        `heads` has (epoch, sequence) by stream number.
        """
        ...

    async def drop_stream(self, stream: int, epoch: Callable[[], Epoch]) -> None:
        """Delete a stream with its consumers; its messages are deleted later."""
        ...

    async def dropped_streams(self, groups: Collection[LeaseGroup]) -> list[tuple[int, int]]:
        """Return (stream, partition) of deleted streams that may still have messages."""
        ...

    async def forget_stream(self, stream: int) -> None:
        """Delete the row of a deleted stream; its messages are deleted already."""
        ...

    async def add_consumer(self, row: ConsumerRow, epoch: Callable[[], Epoch]) -> tuple[int, int]:
        """Add a consumer, under the current epoch of its stream.

        Returns:
            (number of the consumer, number of changes of the stream's consumers).
        """
        ...

    async def set_consumer(
        self, stream: int, consumer: int, config: str, epoch: Callable[[], Epoch]
    ) -> int:
        """Change the configuration of a consumer; return the count as `add_consumer`."""
        ...

    async def drop_consumer(self, stream: int, consumer: int, epoch: Callable[[], Epoch]) -> int:
        """Delete a consumer; return the count as `add_consumer`."""
        ...
