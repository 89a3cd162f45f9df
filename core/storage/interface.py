"""The interface of storage: logs, heads, consumer states and the stream directory.

Every write carries the epoch of the leader. Errors: `Fenced` when another node has bumped the
epoch, `Unavailable` when storage cannot be reached or refused the work (nothing was written),
`OutcomeUnknown` when the connection was lost while a commit was in flight.

`stream` is the number of a stream, `shelf` the partition of the message table that it is in. Times
are nanoseconds since the Unix epoch.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.model.segment import Segment
from core.stream.ledger import Entry
from core.stream.plan import Position, StreamPlan

Row = tuple[int, int, bytes, bytes, bytes]
"""A message: sequence, time, subject, header block (empty: none), payload."""


@dataclass(slots=True, frozen=True)
class Head:
    """The head row of a stream: its first and last sequence, its counts, the leader's epoch."""

    epoch: int
    first_seq: int
    last_seq: int
    last_ts: int
    msgs: int
    bytes: int


@dataclass(slots=True, frozen=True)
class StreamRow:
    """A stream in the stream directory; `config` is JSON.

    `creation` is the id of the request that created it, `consumer_changes` how many changes its
    consumers had.
    """

    stream: int
    account: str
    name: str
    shelf: int
    created: int
    config: str
    head: Head
    lease_group: int = 0
    creation: int = 0
    consumer_changes: int = 0


@dataclass(slots=True, frozen=True)
class DirectoryRow:
    """A stream as every node knows it; of one that is deleted only its number counts."""

    stream: int
    account: str = ""
    name: str = ""
    lease_group: int = 0
    creation: int = 0
    config: str = ""
    is_deleted: bool = False


@dataclass(slots=True, frozen=True)
class DirectoryNews:
    """What the stream directory has at a version.

    Attributes:
        version: how many changes there had been.
        rows: the streams that have changed; all there are, if `is_whole`.
        is_whole: whether streams without a row are gone.
    """

    version: int
    rows: Sequence[DirectoryRow]
    is_whole: bool


class DirectoryView(Protocol):
    """What a process knows of the streams of all nodes."""

    @property
    def version(self) -> int:
        """How many changes there had been, as far as is known."""
        ...

    @property
    def updates(self) -> int:
        """How often something new was taken."""
        ...

    def apply(self, news: DirectoryNews) -> None:
        """Take what has changed; what is known already changes nothing."""
        ...

    def group_for_new_stream(
        self,
        groups: Iterable[int],
        tags: frozenset[str],
        coming: Iterable[tuple[int, frozenset[str]]],
    ) -> int:
        """Return which of some lease groups a new stream is to be in that asks for tags.

        `coming`: the groups and tags of streams that are being created.
        """
        ...


class DirectorySource(Protocol):
    """Reads the stream directory for nodes that need not lead."""

    async def news(self, since: int) -> DirectoryNews:
        """Return what has changed since a version (below 0: everything). Raises Unavailable."""
        ...

    async def close(self) -> None:
        """End the session, if there is one."""
        ...


@dataclass(slots=True, frozen=True)
class NewStream:
    """A stream to be created; `creation` is the id of the request, `config` is JSON.

    `lease_group`: what it is to be led with; None: whichever this node leads with fewest streams,
    and with none that ask for other `tags` than it does, if there is one.
    """

    account: str
    name: str
    shelf: int
    created: int
    creation: int
    config: str
    first_seq: int
    lease_group: int | None = None
    tags: frozenset[str] = frozenset()


@dataclass(slots=True, frozen=True)
class ConsumerRow:
    """A consumer in the stream directory; `config` is JSON, `state` as encoded by the machine.

    `creation` is the id of the request that created it.
    """

    stream: int
    consumer: int
    name: str
    created: int
    epoch: int
    config: str
    state: bytes | None
    creation: int = 0


@dataclass(slots=True, frozen=True)
class PurgeRow:
    """A purge by filter that was committed and whose rows are not all deleted yet."""

    stream: int
    n: int
    filters: tuple[str, ...]
    up_to_seq: int


@dataclass(slots=True)
class StreamCommit:
    """One stream's part of a transaction of the write path.

    Attributes:
        stream, shelf, epoch: of the stream.
        plan: what is written.
        ids_since: the ids of messages that it deletes are kept if these were stored after this
            time, nanoseconds since the Unix epoch; None: none are.
    """

    stream: int
    shelf: int
    epoch: int
    plan: StreamPlan
    ids_since: int | None = None


@dataclass(slots=True, frozen=True)
class StateWrite:
    """One consumer's state to be written.

    The last four fields repeat what the encoded `state` holds, for the SQL view of consumers.
    """

    stream: int
    consumer: int
    epoch: int
    state: bytes
    delivered_stream_seq: int
    ack_floor_stream_seq: int
    ack_pending: int
    redelivered: int


class LogWriter(Protocol):
    """Writes messages and heads; a node has one."""

    async def commit(self, commits: Sequence[StreamCommit]) -> None:
        """Write the plans of all streams in one transaction."""
        ...

    async def heads(self, streams: Sequence[int]) -> dict[int, Head]:
        """Return the head rows of streams."""
        ...

    async def consumer_changes(self, streams: Sequence[int]) -> dict[int, int]:
        """Return how many changes the consumers of streams had."""
        ...

    async def close(self) -> None:
        """Close the session."""
        ...


class StoredMessages(Protocol):
    """Reads single messages for a node that does not lead their streams.

    Attributes:
        has_standby: whether it has a standby to read from.
    """

    has_standby: bool

    def read(
        self, account: str, wanted: Sequence[tuple[str, int]]
    ) -> AsyncGenerator[list[tuple[int, Row | None]]]:
        """Yield what there is of the messages `wanted`, as (stream, sequence), some at a time.

        Each comes with its place in `wanted`; None: there is no such message, or no longer. Left
        out is what is not known: of a stream that there is not, that does not allow Direct Get, or
        of which storage alone cannot tell what is gone. Raises Unavailable.
        """
        ...

    def close(self) -> None:
        """End every session at once."""
        ...


class LogReader(Protocol):
    """Reads committed rows, including those that were removed and are not deleted yet."""

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` when all reads that have begun are finished (at once if there are none)."""
        ...

    async def range(self, stream: int, shelf: int, seq: int, limit: int) -> Segment | None:
        """Return up to `limit` messages at or after `seq`; None if there are none."""
        ...

    async def points(self, stream: int, shelf: int, seqs: Sequence[int]) -> Segment | None:
        """Return the messages with these sequences (ascending); None if none of them exist."""
        ...

    async def sizes_from(
        self, stream: int, shelf: int, seq: int, limit: int
    ) -> list[tuple[int, bytes, int, int, int]]:
        """Return (sequence, subject, payload bytes, header bytes, time) at or after `seq`."""
        ...

    async def subjects(
        self, stream: int, shelf: int, first: int, last: int
    ) -> list[tuple[bytes, int, int]]:
        """Return (subject, count, last sequence) of the subjects in [first, last]."""
        ...

    async def sizes(
        self, stream: int, shelf: int, subject: bytes | None, first: int, below: int
    ) -> list[tuple[int, bytes, int, int]]:
        """Return (sequence, subject, payload bytes, header bytes) of [first, below), ascending.

        With a `subject`, only its messages.
        """
        ...

    async def expiry_rows(
        self, stream: int, shelf: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, int, int, bytes | None]]:
        """Return what decides when the messages of [first, below) expire, ascending.

        That is (sequence, subject, payload bytes, header bytes, time, header block); the block is
        None unless it has a TTL or marks a subject as deleted.
        """
        ...

    async def recorded(self, stream: int) -> list[int]:
        """Return the sequences that plans have recorded as replaced, deleted or not."""
        ...

    async def last_before(self, stream: int, shelf: int, subject: bytes, seq: int) -> int:
        """Return the last sequence of a subject below `seq` (0: none)."""
        ...

    async def newest(self, stream: int, shelf: int, count: int) -> int:
        """Return the sequence of the `count`-th newest message (0: there are fewer)."""
        ...

    async def totals(self, stream: int, shelf: int, first: int, last: int) -> tuple[int, int, int]:
        """Return of [first, last]: messages, their bytes, messages with headers."""
        ...

    async def next_of(self, stream: int, shelf: int, subject: bytes, seq: int) -> int:
        """Return the first sequence of a subject at or after `seq` (0: none)."""
        ...

    async def names(
        self, stream: int, shelf: int, first: int, last: int
    ) -> list[tuple[int, bytes]]:
        """Return (sequence, subject) of [first, last], ascending."""
        ...

    async def message_ids(
        self, stream: int, shelf: int, since_ts: int, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        """Return (sequence, time, message id) of [first, last] stored after `since_ts`.

        Of messages that were removed too, as far as their ids are known.
        """
        ...

    async def first_removed_id(self, stream: int, since_ts: int) -> int | None:
        """Return a sequence before which no removed message, stored after a time, left its id."""
        ...

    async def first_at(self, stream: int, shelf: int, ts: int, first: int, last: int) -> int:
        """Return the first sequence in [first, last] stored at or after `ts` (else last + 1)."""
        ...

    async def positions(self, stream: int) -> list[Position]:
        """Return how far the sources of a stream were copied, including former sources."""
        ...

    async def schedules(
        self, stream: int, shelf: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, bytes]]:
        """Return (sequence, subject, time, header block) of the schedules in [first, below)."""
        ...

    async def replaced(
        self, stream: int, shelf: int, schedules: Sequence[tuple[bytes, int]]
    ) -> set[bytes]:
        """Return the subjects that have, after the given sequence, a message no schedule sent."""
        ...

    async def dues(self, stream: int) -> dict[int, int]:
        """Return when repeating schedules come due next, by sequence, former schedules too."""
        ...

    async def sourced(self, stream: int, shelf: int, name: bytes, below: int) -> list[bytes]:
        """Return some `Nats-Stream-Source` values that begin with a name, newest first.

        Each is preceded by its sequence and a blank. `below`: only of earlier sequences.
        """
        ...


class Sweeper(Protocol):
    """Deletes the rows of messages that were removed before.

    The ids of those that were stored after `ids_since`, nanoseconds since the Unix epoch, are kept
    in the same transaction; None: none are.
    """

    async def delete_below(
        self, stream: int, shelf: int, seq: int, limit: int, ids_since: int | None
    ) -> int:
        """Delete up to `limit` of the oldest rows below `seq`; return how many were deleted."""
        ...

    async def delete_rows(
        self, stream: int, shelf: int, seqs: Sequence[int], record: int, ids_since: int | None
    ) -> None:
        """Delete rows by sequence, and the records of replaced rows numbered below `record`."""
        ...

    async def delete_purged(self, stream: int, shelf: int, ids_since: int | None) -> None:
        """Delete the rows of the recorded purges of a stream, and then the records."""
        ...

    async def forget_ids(self, stream: int, ts: int) -> None:
        """Delete kept ids of messages that were stored at a time or before."""
        ...

    async def forget_dues(self, stream: int, seqs: Sequence[int]) -> None:
        """Delete the due times of schedules that have ended."""
        ...


class StateStore(Protocol):
    """Writes the states of consumers."""

    async def write_states(self, states: Sequence[StateWrite]) -> set[tuple[int, int]]:
        """Write states; return the (stream, consumer) whose epoch allowed it."""
        ...


class DirectoryStore(Protocol):
    """The stream directory: which streams and consumers exist, with their configurations."""

    async def load(
        self, groups: Collection[int]
    ) -> tuple[list[StreamRow], list[ConsumerRow], list[PurgeRow]]:
        """Return the streams of lease groups, their consumers and unfinished purges."""
        ...

    async def head(self) -> Head:
        """Return the head of the stream directory: its version is its last sequence."""
        ...

    async def ledgers(self, groups: Collection[int]) -> list[tuple[int, Entry]]:
        """Return what the ledgers of the streams of lease groups have, each with its stream."""
        ...

    async def add_stream(self, new: NewStream, check: Callable[[], None]) -> StreamRow:
        """Add a stream with its head row; return it.

        `check` is called, within the transaction, when something is known that was not when this
        was called: it raises what is wrong with the stream now. Raises Fenced: this node does not
        lead the lease group.
        """
        ...

    async def set_stream(
        self, stream: int, config: str, epoch: Callable[[], int], check: Callable[[], None]
    ) -> None:
        """Change the configuration of a stream, under its epoch at the time."""
        ...

    async def raise_heads(self, heads: Mapping[int, tuple[int, int]]) -> None:
        """Let streams, by number, go on behind a sequence that they do not have.

        `heads`: the epoch of each, and that sequence.
        """
        ...

    async def drop_stream(self, stream: int, epoch: Callable[[], int]) -> None:
        """Delete a stream with its consumers; its messages are deleted later."""
        ...

    async def dropped_streams(self, groups: Collection[int]) -> list[tuple[int, int]]:
        """Return (stream, shelf) of deleted streams that may still have messages."""
        ...

    async def forget_stream(self, stream: int) -> None:
        """Delete the row of a deleted stream, after its messages."""
        ...

    async def add_consumer(self, row: ConsumerRow, epoch: Callable[[], int]) -> tuple[int, int]:
        """Add a consumer, under the epoch of its stream at the time.

        Returns its number, and how many changes the consumers of the stream had.
        """
        ...

    async def set_consumer(
        self, stream: int, consumer: int, config: str, epoch: Callable[[], int]
    ) -> int:
        """Change the configuration of a consumer; return how many changes there were."""
        ...

    async def drop_consumer(self, stream: int, consumer: int, epoch: Callable[[], int]) -> int:
        """Delete a consumer; return how many changes there were."""
        ...
