"""The stored rows of one stream: a `LogReader` bound to the stream's number and partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from core.model.segment import Segment
    from core.rules.stream.plan import Position
    from core.storage.interface import LogReader


class StoredRows:
    """Reads of committed rows, including removed rows that are not deleted yet.

    The methods are those of `LogReader` without the stream and its partition. All reads
    raise Unavailable. Times are nanoseconds since the Unix epoch, sizes are bytes.
    """

    def __init__(self, reader: LogReader, stream: int, partition: int) -> None:
        self._reader = reader
        self._stream = stream
        self._partition = partition

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` once every read in progress now has ended (at once if there is none)."""
        self._reader.when_settled(then)

    # -- whole messages ----------------------------------------------------------------------

    def range(self, seq: int, limit: int) -> Awaitable[Segment | None]:
        """Read up to `limit` messages at or after a sequence; None: none."""
        return self._reader.range(self._stream, self._partition, seq, limit)

    def points(self, seqs: Sequence[int]) -> Awaitable[Segment | None]:
        """Read single messages; `seqs` are ascending, missing ones are left out (None: all)."""
        return self._reader.points(self._stream, self._partition, seqs)

    # -- parts of messages -------------------------------------------------------------------

    def sizes_from(self, seq: int, limit: int) -> Awaitable[list[tuple[int, bytes, int, int, int]]]:
        """Read up to `limit` (sequence, subject, payload size, header size, time) from `seq` on."""
        return self._reader.sizes_from(self._stream, self._partition, seq, limit)

    def names(self, first: int, last: int) -> Awaitable[list[tuple[int, bytes]]]:
        """Read (sequence, subject) of [first, last], ascending."""
        return self._reader.names(self._stream, self._partition, first, last)

    def sizes(
        self, subject: bytes | None, first: int, below: int
    ) -> Awaitable[list[tuple[int, bytes, int, int]]]:
        """Read (sequence, subject, payload size, header size) of [first, below), ascending.

        `subject` None: of all subjects.
        """
        return self._reader.sizes(self._stream, self._partition, subject, first, below)

    def expiry_rows(
        self, first: int, below: int
    ) -> Awaitable[list[tuple[int, bytes, int, int, int, bytes | None]]]:
        """Read the rows of [first, below) with the columns that determine expiry.

        Returns (sequence, subject, payload size, header size, time, header block); the block is
        None unless it has a TTL or marks a subject as deleted.
        """
        return self._reader.expiry_rows(self._stream, self._partition, first, below)

    def message_ids(
        self, since_ts: int, first: int, last: int
    ) -> Awaitable[list[tuple[int, int, bytes]]]:
        """Read (sequence, time, message id) of [first, last] stored after `since_ts`.

        Includes removed messages whose ids are kept.
        """
        return self._reader.message_ids(self._stream, self._partition, since_ts, first, last)

    def first_removed_id(self, since_ts: int) -> Awaitable[int | None]:
        """Read a lower bound of the removed sequences whose ids are kept, stored after a time.

        None: there are none.
        """
        return self._reader.first_removed_id(self._stream, since_ts)

    def sourced(self, name: bytes, below: int) -> Awaitable[list[bytes]]:
        """Read some `Nats-Stream-Source` values that begin with `name`, newest first.

        Each value follows its sequence and a blank. Reads only sequences lower than `below`.
        """
        return self._reader.sourced(self._stream, self._partition, name, below)

    # -- by subject --------------------------------------------------------------------------

    def subjects(self, first: int, last: int) -> Awaitable[list[tuple[bytes, int, int]]]:
        """Read (subject, count of messages, last sequence) of the subjects in [first, last]."""
        return self._reader.subjects(self._stream, self._partition, first, last)

    def recorded(self) -> Awaitable[list[int]]:
        """Read the sequences that plans recorded as replaced, whether deleted or not."""
        return self._reader.recorded(self._stream)

    def last_before(self, subject: bytes, seq: int) -> Awaitable[int]:
        """Read the last sequence of a subject below a sequence (0: none)."""
        return self._reader.last_before(self._stream, self._partition, subject, seq)

    def next_of(self, subject: bytes, seq: int) -> Awaitable[int]:
        """Read the first sequence of a subject at or after a sequence (0: none)."""
        return self._reader.next_of(self._stream, self._partition, subject, seq)

    # -- numbers -----------------------------------------------------------------------------

    def newest(self, count: int) -> Awaitable[int]:
        """Read the sequence of the `count`-th newest message (0: there are fewer)."""
        return self._reader.newest(self._stream, self._partition, count)

    def totals(self, first: int, last: int) -> Awaitable[tuple[int, int, int]]:
        """Read (messages, bytes of content, messages with headers) of [first, last]."""
        return self._reader.totals(self._stream, self._partition, first, last)

    def first_at(self, ts: int, first: int, last: int) -> Awaitable[int]:
        """Read the first sequence in [first, last] stored at or after `ts` (`last` + 1: none)."""
        return self._reader.first_at(self._stream, self._partition, ts, first, last)

    # -- schedules and sources ---------------------------------------------------------------

    def positions(self) -> Awaitable[list[Position]]:
        """Read the positions of sources and dead letters, including those of former sources."""
        return self._reader.positions(self._stream)

    def schedules(self, first: int, below: int) -> Awaitable[list[tuple[int, bytes, int, bytes]]]:
        """Read (sequence, subject, time, header block) of the schedules in [first, below)."""
        return self._reader.schedules(self._stream, self._partition, first, below)

    def replaced(self, schedules: Sequence[tuple[bytes, int]]) -> Awaitable[set[bytes]]:
        """Read those subjects that have a message after their sequence, sent by no schedule.

        `schedules` are pairs (subject, sequence).
        """
        return self._reader.replaced(self._stream, self._partition, schedules)

    def dues(self) -> Awaitable[dict[int, int]]:
        """Read the next due times of repeating schedules, by sequence; former schedules too."""
        return self._reader.dues(self._stream)
