"""The interface of storage: messages, head rows, consumer states, and the stream directory.

A head row has the counts and the epoch of a stream. A leader raises the epoch when it takes over,
and every write carries the epoch of its leader. Errors of all methods:

- `Fenced`: another node has raised the epoch, so this node no longer leads the stream.
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
    """The head row of a stream: the leader's epoch, the sequences at both ends, and totals.

    Attributes:
        epoch: Epoch of the leader; a writer with a lower one is refused.
        first_seq: First sequence.
        last_seq: Last sequence; of the stream directory (stream 0): its version.
        last_ts: Time of the last message, nanoseconds since the Unix epoch.
        msgs: Number of messages.
        bytes: Total size of the messages.
    """

    epoch: Epoch
    first_seq: int
    last_seq: int
    last_ts: int
    msgs: int
    bytes: int


@dataclass(slots=True, frozen=True)
class StreamRow:
    """A stream as its leader loads it from the stream directory.

    Attributes:
        stream: Number of the stream.
        account: Account of the stream.
        name: Name of the stream.
        partition: Number of its partition of the message table.
        created: Time of creation, nanoseconds since the Unix epoch.
        config: Configuration, as JSON.
        head: Its head row.
        lease_group: Its lease group; the node that owns the group leads the stream.
        creation: Id of the request that created the stream.
        consumer_changes: How often its consumers were created, changed or deleted.
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
    """The entry of a stream that every node keeps in memory, whether it leads the stream or not.

    If `is_deleted` is True, only `stream`, the number of the deleted stream, has a meaning.
    """

    stream: int
    account: str = ""
    name: str = ""
    lease_group: LeaseGroup = LeaseGroup(0)
    creation: int = 0
    config: str = ""
    is_deleted: bool = False


@dataclass(slots=True, frozen=True)
class DirectoryNews:
    """The changes of the stream directory between two versions.

    Attributes:
        version: The version after the changes: the number of changes ever made.
        rows: The changed streams; all streams if `is_whole`.
        is_whole: True if `rows` has all streams: a stream without a row does not exist.
    """

    version: int
    rows: Sequence[DirectoryRow]
    is_whole: bool


class DirectoryView(Protocol):
    """The copy of the stream directory, with the streams of all nodes, in a process's memory."""

    @property
    def version(self) -> int:
        """The version of the newest changes of the stream directory that were applied."""
        ...

    @property
    def updates(self) -> int:
        """Number of calls of `apply` that have changed this copy of the stream directory."""
        ...

    def apply(self, news: DirectoryNews) -> None:
        """Apply changes of the stream directory to this copy. Repeated changes have no effect."""
        ...

    def group_for_new_stream(
        self,
        groups: Iterable[LeaseGroup],
        tags: frozenset[str],
        coming: Iterable[tuple[LeaseGroup, frozenset[str]]],
    ) -> LeaseGroup:
        """Choose the lease group for a new stream out of `groups`, by its placement tags.

        `coming` has the lease group and tags of each stream whose creation is not committed yet.
        """
        ...


class DirectorySource(Protocol):
    """Reads the stream directory on a node that leads no stream, so that it knows all streams."""

    async def news(self, since: int) -> DirectoryNews:
        """Return the changes since version `since`; the whole directory if `since` is below 0.

        Raises Unavailable if PostgreSQL does not answer.
        """
        ...

    async def close(self) -> None:
        """Close the session with PostgreSQL, if one is open."""
        ...


@dataclass(slots=True, frozen=True)
class NewStream:
    """The values of a stream that is to be created.

    Attributes:
        account: Account of the stream.
        name: Its name.
        partition: Number of its partition of the message table.
        created: Time of creation, nanoseconds since the Unix epoch.
        creation: Id of the request.
        config: Configuration, as JSON.
        first_seq: Sequence of its first message.
        lease_group: Its lease group. None: the group with the fewest streams of the groups this
            node owns, preferably without streams that ask for other tags.
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

    Attributes:
        stream: Number of its stream.
        consumer: Number of the consumer within the stream.
        name: Its name.
        created: Time of creation, nanoseconds since the Unix epoch.
        epoch: Epoch of the stream's leader.
        config: Configuration, as JSON.
        state: Its encoded deliveries and acknowledgements; None if none are stored yet.
        creation: Id of the request that created the consumer.
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
    """A committed purge by subject whose messages' rows are not all deleted yet.

    `filters` has the subject filters; messages up to sequence `up_to_seq` that match one are
    purged. `n` numbers the purges of a stream.
    """

    stream: int
    n: int
    filters: tuple[str, ...]
    up_to_seq: int


@dataclass(slots=True)
class StreamCommit:
    """The writes to one stream within a transaction that writes several streams.

    Attributes:
        stream: Number of the stream.
        partition: Number of its partition.
        epoch: Epoch of its leader.
        plan: The rows to write and to delete.
        ids_since: Keep the `Nats-Msg-Id` of deleted messages that were stored after this time
            (nanoseconds since the Unix epoch), to detect duplicates; None: keep none.
    """

    stream: int
    partition: int
    epoch: Epoch
    plan: StreamPlan
    ids_since: int | None = None


@dataclass(slots=True, frozen=True)
class StateWrite:
    """The encoded state of one consumer, to be stored under the epoch of its stream.

    The last four fields repeat values of `state`, for the SQL view of consumers.
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
    """The writer of messages and of head rows (each has a stream's epoch, sequences and totals).

    A node has one writer, with one session.
    """

    async def commit(self, commits: Sequence[StreamCommit]) -> None:
        """Write messages, removals and head rows of several streams in one transaction."""
        ...

    async def heads(self, streams: Sequence[int]) -> dict[int, Head]:
        """Return the head rows (epoch, sequences at both ends, totals) of streams, by stream
        number.
        """
        ...

    async def consumer_changes(self, streams: Sequence[int]) -> dict[int, int]:
        """Return the number of changes of the consumers of each stream, by stream number."""
        ...

    async def close(self) -> None:
        """Close the session with PostgreSQL."""
        ...


class StoredMessages(Protocol):
    """The reader of single messages on a node that does not lead their streams.

    Attributes:
        has_standby: True if messages are read from a standby of PostgreSQL.
    """

    has_standby: bool

    def read(
        self, account: str, wanted: Sequence[tuple[str, int]]
    ) -> AsyncGenerator[list[tuple[int, Row | None]]]:
        """Yield the messages that `wanted` lists as (stream name, sequence), in batches.

        Each result is (index in `wanted`, row). The row is None if the message does not exist or
        was removed. An index is left out if the answer is not known: the stream does not exist,
        does not allow Direct Get, or storage alone cannot decide which of its messages are removed.

        Raises:
            Unavailable: PostgreSQL does not answer.
        """
        ...

    def close(self) -> None:
        """Close all sessions with PostgreSQL without waiting for running reads."""
        ...


class LogReader(Protocol):
    """The reader of stored messages.

    It also returns removed messages whose rows are not deleted yet.
    """

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` once all reads that run now have ended; at once if none runs."""
        ...

    async def range(self, stream: int, partition: int, seq: int, limit: int) -> Segment | None:
        """Return up to `limit` messages with sequences from `seq` on; None if there are none."""
        ...

    async def points(self, stream: int, partition: int, seqs: Sequence[int]) -> Segment | None:
        """Return the messages with the given sequences (ascending); None if none of them exist."""
        ...

    async def sizes_from(
        self, stream: int, partition: int, seq: int, limit: int
    ) -> list[tuple[int, bytes, int, int, int]]:
        """Return the sizes of at most `limit` messages with sequences from `seq` on, ascending.

        Each is (sequence, subject, payload bytes, header bytes, time of storage in nanoseconds
        since the Unix epoch).
        """
        ...

    async def subjects(
        self, stream: int, partition: int, first: int, last: int
    ) -> list[tuple[bytes, int, int]]:
        """Return each subject of the messages with sequences in [first, last].

        Each is (subject, number of messages, last sequence within the range).
        """
        ...

    async def sizes(
        self, stream: int, partition: int, subject: bytes | None, first: int, below: int
    ) -> list[tuple[int, bytes, int, int]]:
        """Return the sizes of the messages with sequences in [first, below), ascending.

        Each is (sequence, subject, payload bytes, header bytes). With a `subject`, only messages on
        this subject.
        """
        ...

    async def expiry_rows(
        self, stream: int, partition: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, int, int, bytes | None]]:
        """Return the values that decide when messages with sequences in [first, below) expire.

        Ascending. Each is (sequence, subject, payload bytes, header bytes, time of storage in
        nanoseconds since the Unix epoch, header block). The header block is None unless it has a
        TTL (`Nats-TTL`) or marks the deletion of a subject.
        """
        ...

    async def recorded(self, stream: int) -> list[int]:
        """Return the sequences of messages that later messages have replaced, as commits recorded.

        The rows of these messages may be deleted already.
        """
        ...

    async def last_before(self, stream: int, partition: int, subject: bytes, seq: int) -> int:
        """Return the highest sequence below `seq` of a message on `subject`; 0 if there is none."""
        ...

    async def newest(self, stream: int, partition: int, count: int) -> int:
        """Return the sequence of the `count`-th newest message of a stream; 0 if there are
        fewer.
        """
        ...

    async def totals(
        self, stream: int, partition: int, first: int, last: int
    ) -> tuple[int, int, int]:
        """Count the messages with sequences in [first, last].

        Returns (number of messages, their size in bytes, number of messages with headers).
        """
        ...

    async def next_of(self, stream: int, partition: int, subject: bytes, seq: int) -> int:
        """Return the lowest sequence of a message on `subject` that is not below `seq`; 0: none."""
        ...

    async def names(
        self, stream: int, partition: int, first: int, last: int
    ) -> list[tuple[int, bytes]]:
        """Return (sequence, subject) of the messages with sequences in [first, last], ascending."""
        ...

    async def message_ids(
        self, stream: int, partition: int, since_ts: int, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        """Return the `Nats-Msg-Id` of the messages with sequences in [first, last].

        Each is (sequence, time, id); only messages stored after `since_ts` count. Both times are
        nanoseconds since the Unix epoch. Includes deleted messages whose ids are kept to detect
        duplicates.
        """
        ...

    async def first_removed_id(self, stream: int, since_ts: int) -> int | None:
        """Return a lower bound of the sequences of deleted messages whose `Nats-Msg-Id` is kept.

        Only messages stored after `since_ts` (nanoseconds since the Unix epoch) count. None if no
        id is kept.
        """
        ...

    async def first_at(self, stream: int, partition: int, ts: int, first: int, last: int) -> int:
        """Return the first sequence in [first, last] whose message was stored at `ts` or later.

        `ts` is in nanoseconds since the Unix epoch. Returns last + 1 if there is none.
        """
        ...

    async def positions(self, stream: int) -> list[Position]:
        """Return the last sourced sequence of each source of a stream, former sources included."""
        ...

    async def schedules(
        self, stream: int, partition: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, bytes]]:
        """Return the schedules with sequences in [first, below).

        A schedule is a message with the header `Nats-Schedule`, which has the time at which the
        server publishes another message. Each is (sequence, subject, time of storage in
        nanoseconds since the Unix epoch, header block).
        """
        ...

    async def replaced(
        self, stream: int, partition: int, schedules: Sequence[tuple[bytes, int]]
    ) -> set[bytes]:
        """Return the subjects of the given schedules to which clients have published since.

        A schedule is a message with the header `Nats-Schedule`; `schedules` has (subject, sequence)
        of each. A message with a higher sequence on the subject counts, unless a schedule has
        published it.
        """
        ...

    async def dues(self, stream: int) -> dict[int, int]:
        """Return the next publication time of repeating schedules, by their sequence.

        In nanoseconds since the Unix epoch; schedules that were removed may be included.
        """
        ...

    async def sourced(self, stream: int, partition: int, name: bytes, below: int) -> list[bytes]:
        """Return some values of the header `Nats-Stream-Source` of a stream, newest first.

        Only values that begin with the stream name `name`, of messages with sequences below
        `below`. Each value is preceded by the sequence of its message and a blank.
        """
        ...


class Sweeper(Protocol):
    """Deletes the rows of messages that are removed already: purged, deleted, expired or replaced.

    `ids_since`: the `Nats-Msg-Id` of rows stored after this time (nanoseconds since the Unix epoch)
    is kept in the same transaction, to detect duplicates; None: keep none.
    """

    async def delete_below(
        self, stream: int, partition: int, seq: int, limit: int, ids_since: int | None
    ) -> int:
        """Delete up to `limit` of a stream's oldest rows below sequence `seq`.

        Returns the number of deleted rows. `ids_since` as in `core.storage.interface.Sweeper`.
        """
        ...

    async def delete_rows(
        self, stream: int, partition: int, seqs: Sequence[int], record: int, ids_since: int | None
    ) -> None:
        """Delete the message rows with the sequences `seqs`, and old records of replaced messages.

        A commit records in one numbered row the sequences of the messages that it has replaced.
        The records with numbers below `record` are deleted.
        """
        ...

    async def delete_purged(self, stream: int, partition: int, ids_since: int | None) -> None:
        """Delete the message rows that recorded purges of a stream cover, and the purge records.

        A purge record (`PurgeRow`) has subject filters and a highest sequence.
        """
        ...

    async def forget_ids(self, stream: int, ts: int) -> None:
        """Delete the kept ids of messages stored at or before `ts`, in nanoseconds since the Unix
        epoch.
        """
        ...

    async def forget_dues(self, stream: int, seqs: Sequence[int]) -> None:
        """Delete the stored next publication times of schedules that have ended.

        `seqs` has the sequences of the messages that contain the schedules.
        """
        ...


class StateStore(Protocol):
    """Writes the states of consumers: their deliveries and acknowledgements."""

    async def write_states(self, states: Sequence[StateWrite]) -> set[tuple[int, int]]:
        """Write the states of consumers; return the (stream, consumer) pairs that were written.

        A state with an outdated epoch is not written: another node leads the stream.
        """
        ...


class DirectoryStore(Protocol):
    """The stream directory in storage: all streams and consumers, with their configurations.

    `epoch` is a function that returns the stream's current epoch: the epoch may change while the
    call waits or is retried.
    """

    async def load(
        self, groups: Collection[LeaseGroup]
    ) -> tuple[list[StreamRow], list[ConsumerRow], list[PurgeRow]]:
        """Return the streams of lease groups, their consumers, and unfinished purges.

        An unfinished purge is committed, but some rows of its messages are not deleted yet.
        """
        ...

    async def head(self) -> Head:
        """Return the head row of the stream directory, whose `last_seq` is the directory's
        version.
        """
        ...

    async def ledgers(self, groups: Collection[LeaseGroup]) -> list[tuple[int, LedgerEntry]]:
        """Return (stream number, ledger entry) of the streams of lease groups.

        An entry records the last batch of messages that one application has committed: if the
        application commits that batch again, nothing is written.
        """
        ...

    async def add_stream(self, new: NewStream, check: Callable[[], None]) -> StreamRow:
        """Create a stream and its head row; return the stream.

        `check` is called within the transaction if the directory has changed since this call; it
        raises an error if the stream is no longer allowed, which is passed on.

        Raises:
            Fenced: This node does not own the lease group.
        """
        ...

    async def set_stream(
        self, stream: int, config: str, epoch: Callable[[], Epoch], check: Callable[[], None]
    ) -> None:
        """Change the configuration of a stream; `check` as in `add_stream`.

        Raises:
            Fenced: Another node has raised the stream's epoch.
        """
        ...

    async def raise_heads(self, heads: Mapping[int, tuple[Epoch, int]]) -> None:
        """Raise the last sequence of streams, so that no lost sequence is assigned again.

        `heads` has (epoch, new last sequence) by stream number.
        """
        ...

    async def drop_stream(self, stream: int, epoch: Callable[[], Epoch]) -> None:
        """Delete a stream and its consumers. `core.jetstream.janitor` deletes its messages later.

        Raises Fenced if another node has raised the stream's epoch.
        """
        ...

    async def dropped_streams(self, groups: Collection[LeaseGroup]) -> list[tuple[int, int]]:
        """Return (stream, partition) of deleted streams that may still have messages."""
        ...

    async def forget_stream(self, stream: int) -> None:
        """Delete the last row of a deleted stream, after its messages are deleted."""
        ...

    async def add_consumer(self, row: ConsumerRow, epoch: Callable[[], Epoch]) -> tuple[int, int]:
        """Create a consumer under the current epoch of its stream.

        Returns:
            (number of the consumer, number of changes of the stream's consumers).

        Raises:
            Fenced: Another node has raised the stream's epoch.
        """
        ...

    async def set_consumer(
        self, stream: int, consumer: int, config: str, epoch: Callable[[], Epoch]
    ) -> int:
        """Change a consumer's configuration; return the number of changes of the stream's
        consumers.

        Raises Fenced if another node has raised the stream's epoch.
        """
        ...

    async def drop_consumer(self, stream: int, consumer: int, epoch: Callable[[], Epoch]) -> int:
        """Delete a consumer; return the number of changes of the stream's consumers.

        Raises Fenced if another node has raised the stream's epoch.
        """
        ...
