"""What the shell asks of storage: plans in, values out, an epoch on every write.

Errors: `Fenced` when another node has bumped the epoch, `Unavailable` when storage cannot be
reached or refused the work (nothing was written), `OutcomeUnknown` when the connection was lost
while a commit was in flight.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.stream.plan import Position, StreamPlan
from core.stream.schedules import Pending
from core.stream.segment import Segment


@dataclass(slots=True, frozen=True)
class Head:
    """The head row of a stream: the truth about its end and about who may write."""

    epoch: int
    first_seq: int
    last_seq: int
    last_ts: int
    msgs: int
    bytes: int


@dataclass(slots=True, frozen=True)
class StreamRow:
    """A stream as the catalogue has it; `config` is JSON text, `created` nanoseconds."""

    stream: int
    account: str
    name: str
    shelf: int
    created: int
    config: str
    head: Head


@dataclass(slots=True, frozen=True)
class ConsumerRow:
    """A consumer as the catalogue has it; `state` is the machine's own encoding."""

    stream: int
    consumer: int
    name: str
    created: int
    epoch: int
    config: str
    state: bytes | None


@dataclass(slots=True, frozen=True)
class PurgeRow:
    """A purge by filter that was committed and whose rows are not all gone yet."""

    stream: int
    n: int
    filters: tuple[str, ...]
    up_to_seq: int


@dataclass(slots=True)
class StreamCommit:
    """One stream's part of a group commit."""

    stream: int
    shelf: int
    epoch: int
    plan: StreamPlan


@dataclass(slots=True, frozen=True)
class StateWrite:
    """One consumer's state to be written."""

    stream: int
    consumer: int
    epoch: int
    state: bytes
    delivered_stream_seq: int
    ack_floor_stream_seq: int
    ack_pending: int
    redelivered: int


class LogWriter(Protocol):
    """The one writer of logs and heads of a node."""

    async def commit(self, commits: Sequence[StreamCommit]) -> None: ...
    async def heads(self, streams: Sequence[int]) -> dict[int, Head]: ...
    async def close(self) -> None: ...


class LogReader(Protocol):
    """Reads of committed rows; none of them knows what is only logically removed."""

    def when_settled(self, then: Callable[[], None]) -> None: ...
    async def range(self, stream: int, shelf: int, seq: int, limit: int) -> Segment | None: ...
    async def points(self, stream: int, shelf: int, seqs: Sequence[int]) -> Segment | None: ...
    async def front(
        self, stream: int, shelf: int, seq: int, limit: int
    ) -> list[tuple[int, bytes, int, int, int]]: ...
    async def subjects(
        self, stream: int, shelf: int, first: int, last: int
    ) -> list[tuple[bytes, int, int]]: ...
    async def sizes(
        self, stream: int, shelf: int, subject: str | None, first: int, below: int
    ) -> list[tuple[int, bytes, int, int]]: ...
    async def lifetimes(
        self, stream: int, shelf: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, int, int, bytes | None]]: ...
    async def last_before(self, stream: int, shelf: int, subject: str, seq: int) -> int: ...
    async def newest(self, stream: int, shelf: int, count: int) -> int: ...
    async def totals(
        self, stream: int, shelf: int, first: int, last: int
    ) -> tuple[int, int, int]: ...
    async def next_of(self, stream: int, shelf: int, subject: str, seq: int) -> int: ...
    async def names(
        self, stream: int, shelf: int, first: int, last: int
    ) -> list[tuple[int, bytes]]: ...
    async def message_ids(
        self, stream: int, shelf: int, since_ts: int, first: int, last: int
    ) -> list[tuple[int, int, bytes]]: ...
    async def first_at(self, stream: int, shelf: int, ts: int, first: int, last: int) -> int: ...
    async def positions(self, stream: int) -> list[Position]: ...
    async def schedules(
        self, stream: int, shelf: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, bytes]]: ...
    async def replaced(
        self, stream: int, shelf: int, schedules: Sequence[tuple[bytes, int]]
    ) -> set[bytes]: ...
    async def dues(self, stream: int) -> list[Pending]: ...
    async def sourced(self, stream: int, shelf: int, name: bytes, below: int) -> list[bytes]: ...


class Sweeper(Protocol):
    """Physical removal of rows that are logically gone."""

    async def delete_below(self, stream: int, shelf: int, seq: int, limit: int) -> int: ...
    async def delete_rows(self, stream: int, shelf: int, seqs: Sequence[int]) -> None: ...
    async def delete_purged(self, stream: int, shelf: int) -> None: ...
    async def forget_dues(self, stream: int, gone: Sequence[Pending]) -> None: ...


class StateStore(Protocol):
    """Consumer states."""

    async def write(self, states: Sequence[StateWrite]) -> set[tuple[int, int]]: ...


class Catalog(Protocol):
    """What exists."""

    async def load(self) -> tuple[list[StreamRow], list[ConsumerRow], list[PurgeRow]]: ...
    async def add_stream(
        self, account: str, name: str, shelf: int, created: int, config: str, head: Head
    ) -> int: ...
    async def set_stream(self, stream: int, config: str) -> None: ...
    async def drop_stream(self, stream: int) -> None: ...
    async def dropped_streams(self) -> list[tuple[int, int]]: ...
    async def forget_stream(self, stream: int) -> None: ...
    async def add_consumer(self, row: ConsumerRow) -> int: ...
    async def set_consumer(self, stream: int, consumer: int, config: str) -> None: ...
    async def drop_consumer(self, stream: int, consumer: int) -> None: ...
