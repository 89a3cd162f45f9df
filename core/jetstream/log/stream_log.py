"""Read access to the messages of one stream: from memory if possible, else from storage.

A log combines the newest messages in memory (`tail`), the rows in storage (`rows`), the state of
the stream (`machine`: bounds, counts, subjects) and the removed messages whose rows are not deleted
yet (`removed`). Storage returns such rows too; every read of this module leaves them out.

Direct Get, consumers, mirrors and the deletion of rows depend only on a log, not on the stream's
leader or the group committer. So a node that does not lead a stream could read it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from core.jetstream.log.message import Message, message_at, messages_of, select
from core.jetstream.log.removed import Removed
from core.jetstream.log.rows import StoredRows
from core.jetstream.log.tail import Tail, TailBudget
from core.model.gotime import unix_nanos

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.model.segment import Segment
    from core.rules.stream.machine import StreamMachine
    from core.storage.interface import LogReader

_PAGE = 2000
_PAGE_BYTES = 4 << 20  # A page is decoded in one step: 32 MiB blocked the event loop for 100 ms.
_OLDEST_PAGE = 5000


class Commits(Protocol):
    """The interface of the group committer (`core.jetstream.group_committer`) for readers."""

    async def await_commit(self) -> None:
        """Wait until the commit in progress is applied in memory or has failed."""
        ...


class Deletions(Protocol):
    """The interface of the row deletion (`core.jetstream.janitor.Janitor`) for readers."""

    async def finish(self, log: StreamLog) -> None:
        """Delete the rows of all messages of a stream that are removed at the time of the call.

        Raises Unavailable if PostgreSQL does not answer.
        """
        ...


class StreamLog:
    """The messages of one stream, for reading.

    Args:
        stream: The number of the stream in storage.
        partition: The partition of the message table that holds its rows.
        name: The stream's name.
        machine: The state of the stream: bounds, counts, subjects.
        reader: Reads from storage.
        tails: The memory for the newest messages of all streams.
        commits: The group committer, for waiting until memory includes a commit that storage
            already shows.
        deletions: Deletes the rows of removed messages.
    """

    def __init__(
        self,
        stream: int,
        partition: int,
        name: str,
        machine: StreamMachine,
        reader: LogReader,
        tails: TailBudget,
        commits: Commits,
        deletions: Deletions,
    ) -> None:
        self.stream = stream
        self.partition = partition
        self.name = name
        self.machine = machine
        self.rows = StoredRows(reader, stream, partition)
        self.removed = Removed()
        self.tail = Tail(tails, machine.last_seq + 1, self.removed.tail_dropped)
        self.loading: asyncio.Task[None] | None = None
        """The task that reads the subjects of a long stream while it is served; None: all are
        loaded.
        """
        self.closed = False
        """True once the stream was deleted, or this node no longer leads it."""
        self._commits = commits
        self._deletions = deletions
        self._first = 0

    async def loaded(self) -> None:
        """Wait until all subjects of the stream are in memory."""
        while self.loading is not None:
            await asyncio.wait([self.loading])

    async def await_commit(self) -> None:
        """Wait until the commit in progress is applied in memory or has failed."""
        await self._commits.await_commit()

    async def deleted(self) -> None:
        """Delete the rows of all messages that are removed at the time of the call.

        Raises Unavailable if PostgreSQL does not answer.
        """
        await self._deletions.finish(self)

    # -- live messages -----------------------------------------------------------------------

    @property
    def first_seq(self) -> int:
        """A lower bound of the stream's first sequence; `first_message` makes it exact."""
        return max(self._first, self.machine.first_seq)

    def is_live(self, seq: int) -> bool:
        """Return whether the stored message with sequence `seq` is not removed."""
        return seq >= self.machine.first_seq and seq not in self.removed.hidden

    def live(self, segment: Segment) -> Segment | None:
        """Return the messages of a segment (messages as columns) that are not removed.

        None: no message is left.
        """
        first, last, hidden = self.machine.first_seq, self.machine.last_seq, self.removed.hidden
        if not hidden and segment.first >= first and segment.last <= last:
            return segment
        return select(
            segment,
            [i for i, s in enumerate(segment.seqs) if first <= s <= last and s not in hidden],
        )

    # -- by sequence -------------------------------------------------------------------------

    async def read(self, seq: int, limit: int) -> Segment | None:
        """Return up to `limit` messages at or after `seq` from storage; None: there are none.

        Removed messages are left out. Reads fewer if messages of average size would exceed
        `_PAGE_BYTES`. Raises Unavailable if PostgreSQL does not answer.
        """
        seq = max(seq, self.machine.first_seq)
        limit = min(limit, max(self._page_rows(), 1))
        while seq <= self.machine.last_seq:
            page = await self.rows.range(seq, limit)
            if page is None:
                return None
            found = self.live(page)
            if found is not None:
                return found
            seq = page.last + 1
        return None

    def _page_rows(self) -> int:
        """Return the number of average-sized messages that fit into `_PAGE_BYTES`."""
        return _PAGE_BYTES * self.machine.msgs // max(self.machine.bytes, 1)

    async def get(self, seq: int) -> Message | None:
        """Return the message with sequence `seq`; None: it does not exist or is removed.

        Raises Unavailable if PostgreSQL does not answer.
        """
        if not self.machine.first_seq <= seq <= self.machine.last_seq or seq in self.removed.hidden:
            return None
        found = self.in_tail(seq)
        if found is not None or seq >= self.tail.start:
            return found
        page = await self.rows.points([seq])
        if page is None or not self.is_live(seq):
            return None
        return message_at(page, 0)

    async def get_all(self, seqs: Sequence[int]) -> dict[int, Message]:
        """Return {sequence: message}, including removed messages whose rows still exist.

        Messages that are not in memory are read with one query; missing ones are left out. Raises
        Unavailable if PostgreSQL does not answer.
        """
        found: dict[int, Message] = {}
        for seq in seqs:
            place = self.tail.at(seq)
            if place is not None and place[0].seqs[place[1]] == seq:
                found[seq] = message_at(*place)
        missing = sorted(seq for seq in seqs if seq not in found)
        if missing:
            rows = messages_of(await self.rows.points(missing))
            found.update((message[0], message) for message in rows)
        return found

    def in_tail(self, seq: int) -> Message | None:
        """Return the message with sequence `seq` if it is in memory and not removed, else None."""
        if seq in self.removed.hidden or seq < self.machine.first_seq:
            return None
        place = self.tail.at(seq)
        if place is None or place[0].seqs[place[1]] != seq:
            return None
        return message_at(*place)

    # -- the first ---------------------------------------------------------------------------

    async def first_message(self) -> Message | None:
        """Return the oldest message of the stream (None: the stream is empty).

        Afterwards `first_seq` is exact. Raises Unavailable if PostgreSQL does not answer.
        """
        machine = self.machine
        if not machine.msgs:
            return None
        found = self._first_in_tail()
        if found is not None:
            return message_at(*found)
        seq, limit = self.first_seq, 1
        while seq <= machine.last_seq:
            page = await self.rows.range(seq, limit)
            if page is None:
                return None
            live = self.live(page)
            if live is not None:
                self._first = max(self._first, live.first)
                return message_at(live, 0)
            # Many of the oldest messages may have been removed during the read.
            seq = max(page.last + 1, machine.first_seq)
            limit = _PAGE
        return None

    def first_in_memory(self) -> int:
        """Return the stream's first sequence as far as memory knows it, without reading storage.

        It may be too low if the oldest messages are not in memory. For an empty stream it is the
        last sequence + 1.
        """
        machine = self.machine
        if not machine.msgs:
            return machine.last_seq + 1
        self._first_in_tail()
        return self.first_seq

    def _first_in_tail(self) -> tuple[Segment, int] | None:
        """Return (segment, index) of the oldest message, and store its sequence.

        None if the oldest messages are not in memory.
        """
        seq = self.first_seq
        if seq < self.tail.start:
            return None
        for segment, start in self.tail.since(seq):
            for place in range(start, len(segment)):
                if self.is_live(segment.seqs[place]):
                    self._first = segment.seqs[place]  # The next search skips the removed ones.
                    return segment, place
        return None

    # -- by time -----------------------------------------------------------------------------

    async def first_at_time(self, ns: int) -> int:
        """Return the first sequence stored at or after `ns`, in nanoseconds since the Unix epoch.

        The last sequence + 1 if there is none. Raises Unavailable if PostgreSQL does not answer.
        """
        machine, ns = self.machine, unix_nanos(ns)
        if not machine.msgs or ns > machine.last_ts:
            return machine.last_seq + 1
        since = max(ns, 0)
        seq = await self.rows.first_at(since, machine.first_seq, machine.last_seq)
        while seq <= machine.last_seq:
            last = machine.last_seq
            # The sequence that the search found may have no message (any more).
            page = await self.read(seq, 1)
            if page is not None:
                return page.first
            seq = last + 1  # Messages stored during the read have later times.
        return seq

    async def get_at_time(self, ns: int) -> Message | None:
        """Return the first message stored at or after `ns`, in nanoseconds since the Unix epoch.

        None if there is none. Raises Unavailable if PostgreSQL does not answer.
        """
        machine, ns = self.machine, unix_nanos(ns)
        while True:
            version, seq = machine.version, await self.first_at_time(ns)
            found = await self.get(seq)
            if found is not None or not machine.msgs or ns > machine.last_ts:
                return found
            # It was removed during the read, or by a commit that memory does not show yet.
            await self.await_commit()
            if machine.version == version:
                return None

    # -- for the machine ---------------------------------------------------------------------

    async def load_oldest(self) -> None:
        """Load the next page of the oldest messages (sequence, subject, size, time) into `machine`.

        `machine` (the stream's state) needs them to decide which messages a limit evicts. Raises
        Unavailable if PostgreSQL does not answer.
        """
        machine = self.machine
        oldest = machine.oldest
        start = max(oldest.through + 1, machine.first_seq)
        rows = await self.rows.sizes_from(start, _OLDEST_PAGE)
        upto = rows[-1][0] if len(rows) == _OLDEST_PAGE else machine.last_seq
        size, hidden = machine.record_size.of_row, self.removed.hidden
        oldest.load(
            (
                (seq, subject, size(subject, data, hdr), ts)
                for seq, subject, data, hdr, ts in rows
                if seq <= machine.last_seq and seq not in hidden
            ),
            min(upto, machine.last_seq),
        )

    async def rows_of(self, subject: bytes) -> list[tuple[int, int]]:
        """Return (sequence, size in bytes) of the messages of one subject, from storage.

        Removed messages are left out. Raises Unavailable if PostgreSQL does not answer.
        """
        machine = self.machine
        rows = await self.rows.sizes(subject, machine.first_seq, machine.last_seq + 1)
        size = machine.record_size.of_row
        return [(seq, size(subject, data, hdr)) for seq, _, data, hdr in rows if self.is_live(seq)]

    async def rows_of_all(self, subjects: frozenset[bytes]) -> dict[bytes, list[tuple[int, int]]]:
        """Return {subject: [(sequence, size in bytes), ...]} for several subjects, from storage.

        Removed messages are left out. Raises Unavailable if PostgreSQL does not answer.
        """
        machine = self.machine
        found: dict[bytes, list[tuple[int, int]]] = {subject: [] for subject in subjects}
        rows = await self.rows.sizes(None, machine.first_seq, machine.last_seq + 1)
        size = machine.record_size.of_row
        for seq, subject, data, hdr in rows:
            if subject in found and self.is_live(seq):
                found[subject].append((seq, size(subject, data, hdr)))
        return found
