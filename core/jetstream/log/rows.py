"""The stored rows of one stream: a `LogReader` bound to the stream's number and shelf."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from core.model.segment import Segment
    from core.storage.interface import LogReader
    from core.stream.plan import Position


class StoredRows:
    """Reads of committed rows; rows that are only logically removed are among them.

    The methods are those of `LogReader` without the stream and its shelf. All raise Unavailable.
    """

    def __init__(self, reader: LogReader, stream: int, shelf: int) -> None:
        self._reader = reader
        self._stream = stream
        self._shelf = shelf

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` when every read that is under way now has ended."""
        self._reader.when_settled(then)

    # -- whole messages ----------------------------------------------------------------------

    def range(self, seq: int, limit: int) -> Awaitable[Segment | None]:
        """Read up to `limit` messages at or after a sequence."""
        return self._reader.range(self._stream, self._shelf, seq, limit)

    def points(self, seqs: Sequence[int]) -> Awaitable[Segment | None]:
        """Read single messages; `seqs` ascend, those that are not there are left out."""
        return self._reader.points(self._stream, self._shelf, seqs)

    # -- parts of messages -------------------------------------------------------------------

    def sizes_from(self, seq: int, limit: int) -> Awaitable[list[tuple[int, bytes, int, int, int]]]:
        """Read (sequence, subject, payload and header sizes, time) from a sequence on."""
        return self._reader.sizes_from(self._stream, self._shelf, seq, limit)

    def names(self, first: int, last: int) -> Awaitable[list[tuple[int, bytes]]]:
        """Read (sequence, subject) between two sequences."""
        return self._reader.names(self._stream, self._shelf, first, last)

    def sizes(
        self, subject: bytes | None, first: int, below: int
    ) -> Awaitable[list[tuple[int, bytes, int, int]]]:
        """Read (sequence, subject, payload and header sizes), of one subject or of all."""
        return self._reader.sizes(self._stream, self._shelf, subject, first, below)

    def expiry_rows(
        self, first: int, below: int
    ) -> Awaitable[list[tuple[int, bytes, int, int, int, bytes | None]]]:
        """Read the same with the time, and the header block where it says something of TTLs."""
        return self._reader.expiry_rows(self._stream, self._shelf, first, below)

    def message_ids(
        self, since_ts: int, first: int, last: int
    ) -> Awaitable[list[tuple[int, int, bytes]]]:
        """Read (sequence, time, message id) of messages stored after a time that have one."""
        return self._reader.message_ids(self._stream, self._shelf, since_ts, first, last)

    def first_removed_id(self, since_ts: int) -> Awaitable[int | None]:
        """Read a sequence before which no removed message, stored after a time, left its id."""
        return self._reader.first_removed_id(self._stream, since_ts)

    def sourced(self, name: bytes, below: int) -> Awaitable[list[bytes]]:
        """Read what the headers of messages copied from a source say of it, newest first."""
        return self._reader.sourced(self._stream, self._shelf, name, below)

    # -- by subject --------------------------------------------------------------------------

    def subjects(self, first: int, last: int) -> Awaitable[list[tuple[bytes, int, int]]]:
        """Read (subject, count, last sequence) of the subjects between two sequences."""
        return self._reader.subjects(self._stream, self._shelf, first, last)

    def recorded(self) -> Awaitable[list[int]]:
        """Return the sequences that plans have recorded as replaced, deleted or not."""
        return self._reader.recorded(self._stream)

    def last_before(self, subject: bytes, seq: int) -> Awaitable[int]:
        """Return the last sequence of a subject below a sequence (0: none)."""
        return self._reader.last_before(self._stream, self._shelf, subject, seq)

    def next_of(self, subject: bytes, seq: int) -> Awaitable[int]:
        """Return the first sequence of a subject at or after a sequence (0: none)."""
        return self._reader.next_of(self._stream, self._shelf, subject, seq)

    # -- numbers -----------------------------------------------------------------------------

    def newest(self, count: int) -> Awaitable[int]:
        """Return the sequence with which the newest `count` messages begin (0: fewer)."""
        return self._reader.newest(self._stream, self._shelf, count)

    def totals(self, first: int, last: int) -> Awaitable[tuple[int, int, int]]:
        """Return how many messages, bytes of content and header blocks lie between two."""
        return self._reader.totals(self._stream, self._shelf, first, last)

    def first_at(self, ts: int, first: int, last: int) -> Awaitable[int]:
        """Return the first sequence stored at or after a time (`last` + 1: none)."""
        return self._reader.first_at(self._stream, self._shelf, ts, first, last)

    # -- schedules and sources ---------------------------------------------------------------

    def positions(self) -> Awaitable[list[Position]]:
        """Read how far sources were copied."""
        return self._reader.positions(self._stream)

    def schedules(self, first: int, below: int) -> Awaitable[list[tuple[int, bytes, int, bytes]]]:
        """Read (sequence, subject, time, header block) of messages that are schedules."""
        return self._reader.schedules(self._stream, self._shelf, first, below)

    def replaced(self, schedules: Sequence[tuple[bytes, int]]) -> Awaitable[set[bytes]]:
        """Return the subjects of those (subject, sequence) that have a newer message."""
        return self._reader.replaced(self._stream, self._shelf, schedules)

    def dues(self) -> Awaitable[dict[int, int]]:
        """Read when schedules that repeat come due next, by their sequences."""
        return self._reader.dues(self._stream)
