"""The stored rows of one stream: a `LogReader` (`core.storage`) bound to stream and partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from core.model.segment import Segment
    from core.rules.stream.plan import Position
    from core.storage.interface import LogReader


class StoredRows:
    """Reads of the committed rows of one stream, including removed messages not deleted yet.

    The methods are those of `LogReader` without the arguments for stream and partition. Each raises
    Unavailable if PostgreSQL does not answer. Times are nanoseconds since the Unix epoch, sizes
    bytes.
    """

    def __init__(self, reader: LogReader, stream: int, partition: int) -> None:
        self._reader = reader
        self._stream = stream
        self._partition = partition

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` once all reads in progress now have ended (at once if there are none)."""
        self._reader.when_settled(then)

    # -- whole messages ----------------------------------------------------------------------

    def range(self, seq: int, limit: int) -> Awaitable[Segment | None]:
        """Read up to `limit` messages, from the first at or after `seq` on; None: no message."""
        return self._reader.range(self._stream, self._partition, seq, limit)

    def points(self, seqs: Sequence[int]) -> Awaitable[Segment | None]:
        """Read messages by sequence.

        `seqs` are ascending. Missing messages are left out; None: all are missing.
        """
        return self._reader.points(self._stream, self._partition, seqs)

    # -- parts of messages -------------------------------------------------------------------

    def sizes_from(self, seq: int, limit: int) -> Awaitable[list[tuple[int, bytes, int, int, int]]]:
        """Read up to `limit` (sequence, subject, payload size, header size, time) from `seq` on.

        Sizes are in bytes, times in nanoseconds since the Unix epoch.
        """
        return self._reader.sizes_from(self._stream, self._partition, seq, limit)

    def names(self, first: int, last: int) -> Awaitable[list[tuple[int, bytes]]]:
        """Read (sequence, subject) of the messages with sequences in [first, last], ascending."""
        return self._reader.names(self._stream, self._partition, first, last)

    def sizes(
        self, subject: bytes | None, first: int, below: int
    ) -> Awaitable[list[tuple[int, bytes, int, int]]]:
        """Read (sequence, subject, payload size, header size) of sequences in [first, below).

        Ascending; sizes are in bytes. `subject` None: messages of all subjects.
        """
        return self._reader.sizes(self._stream, self._partition, subject, first, below)

    def expiry_rows(
        self, first: int, below: int
    ) -> Awaitable[list[tuple[int, bytes, int, int, int, bytes | None]]]:
        """Read the columns that determine when messages expire, for sequences in [first, below).

        Returns (sequence, subject, payload size, header size, time, header block). Sizes are in
        bytes; the time is that of storing, in nanoseconds since the Unix epoch. The header block is
        None if it has no TTL and is not that of a delete marker.
        """
        return self._reader.expiry_rows(self._stream, self._partition, first, below)

    def message_ids(
        self, since_ts: int, first: int, last: int
    ) -> Awaitable[list[tuple[int, int, bytes]]]:
        """Read (sequence, time, `Nats-Msg-Id`) of messages with sequences in [first, last].

        Only messages stored after `since_ts`; times are nanoseconds since the Unix epoch. Includes
        ids of removed messages, which are kept for the duplicate window.
        """
        return self._reader.message_ids(self._stream, self._partition, since_ts, first, last)

    def first_removed_id(self, since_ts: int) -> Awaitable[int | None]:
        """Read a lower bound of the sequences of removed messages whose `Nats-Msg-Id` is kept.

        Ids are kept for the duplicate window. Considers messages stored after `since_ts`, in
        nanoseconds since the Unix epoch. None: there is no such message.
        """
        return self._reader.first_removed_id(self._stream, since_ts)

    def sourced(self, name: bytes, below: int) -> Awaitable[list[bytes]]:
        """Read one page of `Nats-Stream-Source` values that begin with `name`, newest first.

        Each entry is "<sequence> <value>". Only sequences lower than `below` are read.
        """
        return self._reader.sourced(self._stream, self._partition, name, below)

    # -- by subject --------------------------------------------------------------------------

    def subjects(self, first: int, last: int) -> Awaitable[list[tuple[bytes, int, int]]]:
        """Read (subject, count, last sequence) of the messages with sequences in [first, last]."""
        return self._reader.subjects(self._stream, self._partition, first, last)

    def recorded(self) -> Awaitable[list[int]]:
        """Read the sequences of messages that storage records as replaced by newer ones.

        Their rows may be deleted already.
        """
        return self._reader.recorded(self._stream)

    def last_before(self, subject: bytes, seq: int) -> Awaitable[int]:
        """Read the last sequence of a subject that is lower than `seq` (0: none)."""
        return self._reader.last_before(self._stream, self._partition, subject, seq)

    def next_of(self, subject: bytes, seq: int) -> Awaitable[int]:
        """Read the first sequence of a subject at or after `seq` (0: none)."""
        return self._reader.next_of(self._stream, self._partition, subject, seq)

    # -- numbers -----------------------------------------------------------------------------

    def newest(self, count: int) -> Awaitable[int]:
        """Read the sequence of the `count`-th newest message (0: there are fewer)."""
        return self._reader.newest(self._stream, self._partition, count)

    def totals(self, first: int, last: int) -> Awaitable[tuple[int, int, int]]:
        """Read the totals of the messages with sequences in [first, last].

        Returns (messages, bytes of content, messages with headers).
        """
        return self._reader.totals(self._stream, self._partition, first, last)

    def first_at(self, ts: int, first: int, last: int) -> Awaitable[int]:
        """Read the first sequence in [first, last] stored at or after `ts` (`last` + 1: none).

        `ts` is in nanoseconds since the Unix epoch.
        """
        return self._reader.first_at(self._stream, self._partition, ts, first, last)

    # -- schedules and sources ---------------------------------------------------------------

    def positions(self) -> Awaitable[list[Position]]:
        """Read the positions of the stream: per source, and per consumer that sent dead letters.

        A position is the last message that was stored from it. Includes sources that the
        configuration no longer has.
        """
        return self._reader.positions(self._stream)

    def schedules(self, first: int, below: int) -> Awaitable[list[tuple[int, bytes, int, bytes]]]:
        """Read (sequence, subject, time, header block) of messages that define schedules (ADR-51).

        Only sequences in [first, below). The time is that of storing, in nanoseconds since the Unix
        epoch.
        """
        return self._reader.schedules(self._stream, self._partition, first, below)

    def replaced(self, schedules: Sequence[tuple[bytes, int]]) -> Awaitable[set[bytes]]:
        """Read the subjects of schedules on which a message was published after the schedule.

        `schedules` are pairs (subject, sequence of the schedule). Messages that a schedule sent do
        not count.
        """
        return self._reader.replaced(self._stream, self._partition, schedules)

    def dues(self) -> Awaitable[dict[int, int]]:
        """Read {sequence: next due time} of repeating schedules, including ended schedules.

        Times are nanoseconds since the Unix epoch.
        """
        return self._reader.dues(self._stream)
