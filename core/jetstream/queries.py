"""What one can ask of a stream: positions, counts, single messages, its state.

Memory first (index, tail), storage for the rest. Rows that are logically gone but still stored
are filtered here, so that no reader ever sees them.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from core.jetstream.search import search
from core.model.stream import StreamState
from core.stream.segment import Segment
from core.subjects.subject import compile_filters

if TYPE_CHECKING:
    from core.jetstream.shell import Shell
    from core.jetstream.tail import Tail
    from core.stream.machine import StreamMachine

Match = Callable[[bytes], bool]
Message = tuple[int, int, bytes, bytes, bytes]  # sequence, time, subject, headers, payload

_PAGE = 2000
_PAGE_BYTES = 32 << 20
_OLDEST_PAGE = 5000
_COUNT_AT_ONCE = 5000
_WINDOW = 10_000
_WINDOW_MAX = 200_000
_TRIES = 3


def cut(segment: Segment, places: list[int]) -> Segment | None:
    """Return the messages of a segment at `places` (None when there are none)."""
    if len(places) == len(segment):
        return segment
    if not places:
        return None
    headers = segment.headers
    payloads = [segment.payloads[i] for i in places]
    return Segment(
        [segment.seqs[i] for i in places],
        [segment.times[i] for i in places],
        [segment.subjects[i] for i in places],
        None if headers is None else [headers[i] for i in places],
        payloads,
        sum(map(len, payloads)),
    )


class StreamQueries(ABC):
    """The reading side of a StreamRunner."""

    stream: int
    shelf: int
    shell: Shell
    machine: StreamMachine
    tail: Tail
    dead: set[int]
    backlog: dict[int, None]
    leaving: set[int]
    forgotten: int
    purging: list[int]
    closed: bool
    loading: asyncio.Task[None] | None

    async def loaded(self) -> None:
        """Return when the subjects of the stream are known."""
        while self.loading is not None:
            await asyncio.wait([self.loading])

    # -- by position -------------------------------------------------------------------------

    def is_live(self, seq: int) -> bool:
        """Whether a message that storage or the tail holds is still the stream's."""
        return seq >= self.machine.first_seq and seq not in self.dead

    def live(self, segment: Segment) -> Segment | None:
        """Return what of a segment is still the stream's (None: nothing)."""
        first, last, dead = self.machine.first_seq, self.machine.last_seq, self.dead
        if not dead and segment.first >= first and segment.last <= last:
            return segment
        return cut(
            segment,
            [i for i, s in enumerate(segment.seqs) if first <= s <= last and s not in dead],
        )

    def tail_at(self, seq: int) -> tuple[Segment, int] | None:
        """Return the first message at or after `seq` as (segment, index), if in memory."""
        return self.tail.at(seq)

    async def read(self, seq: int, limit: int) -> Segment | None:
        """Return up to `limit` live messages at or after `seq` from storage (None: no more).

        Fewer where messages are large: a page of the average ones is to stay small enough to hold.
        """
        seq = max(seq, self.machine.first_seq)
        limit = min(limit, max(self._page_rows(), 1))
        while seq <= self.machine.last_seq:
            page = await self.shell.reader.range(self.stream, self.shelf, seq, limit)
            if page is None:
                return None
            found = self.live(page)
            if found is not None:
                return found
            seq = page.last + 1
        return None

    def _page_rows(self) -> int:
        """Return how many messages of average size a page may have."""
        return _PAGE_BYTES * self.machine.msgs // max(self.machine.bytes, 1)

    async def get(self, seq: int) -> Message | None:
        """Return one message by its sequence."""
        if not self.machine.first_seq <= seq <= self.machine.last_seq or seq in self.dead:
            return None
        found = self.in_tail(seq)
        if found is not None or seq >= self.tail.start:
            return found
        page = await self.shell.reader.points(self.stream, self.shelf, [seq])
        if page is None or not self.is_live(seq):
            return None
        return message_at(page, 0)

    def in_tail(self, seq: int) -> Message | None:
        """Return one live message by its sequence if memory holds it."""
        if seq in self.dead or seq < self.machine.first_seq:
            return None
        place = self.tail.at(seq)
        if place is None or place[0].seqs[place[1]] != seq:
            return None
        return message_at(*place)

    async def first_message(self) -> Message | None:
        """Return the oldest live message and make `first_seq` exact."""
        machine = self.machine
        if not machine.msgs:
            return None
        seq = machine.first_seq
        if seq >= self.tail.start:
            for segment, start in self.tail.since(seq):
                for i in range(start, len(segment)):
                    if self.is_live(segment.seqs[i]):
                        machine.first_seq = segment.seqs[i]
                        return message_at(segment, i)
        limit = 1
        while seq <= machine.last_seq:
            page = await self.shell.reader.range(self.stream, self.shelf, seq, limit)
            if page is None:
                return None
            found = self.live(page)
            if found is not None:
                if found.first > machine.first_seq:
                    machine.first_seq = found.first
                return message_at(found, 0)
            # Meanwhile many of the oldest may have left.
            seq = max(page.last + 1, machine.first_seq)
            limit = _PAGE
        return None

    def first_known(self) -> int:
        """Return the first sequence as memory knows it (`first_message` makes it exact)."""
        machine = self.machine
        if not machine.msgs:
            return machine.last_seq + 1
        if machine.first_seq >= self.tail.start:
            for segment, start in self.tail.since(machine.first_seq):
                for seq in segment.seqs[start:]:
                    if self.is_live(seq):
                        machine.first_seq = seq  # Nobody looks at what is gone twice.
                        return seq
        return machine.first_seq

    async def first_at_time(self, ns: int) -> int:
        """Return the first sequence stored at or after a time (last + 1: none)."""
        machine = self.machine
        if not machine.msgs or ns > machine.last_ts:
            return machine.last_seq + 1
        since = max(ns, 0)  # The zero time of clients, of the year 1, has more than 64 bits.
        seq = await self.shell.reader.first_at(
            self.stream, self.shelf, since, machine.first_seq, machine.last_seq
        )
        while seq <= machine.last_seq and not self.is_live(seq):
            last = machine.last_seq
            page = await self.read(seq, 1)
            seq = page.first if page is not None else last + 1  # what comes meanwhile is later
        return seq

    async def get_at_time(self, ns: int) -> Message | None:
        """Return the first message stored at or after a time."""
        machine = self.machine
        while True:
            version, seq = machine.version, await self.first_at_time(ns)
            found = await self.get(seq)
            if found is not None or not machine.msgs or ns > machine.last_ts:
                return found
            # There was one: it left while storage was read, or with a commit that is still to show.
            await self.shell.lane.settled()
            if machine.version == version:
                return None

    # -- by subject --------------------------------------------------------------------------

    async def subjects_matching(self, filters: Sequence[bytes]) -> list[tuple[bytes, int, int]]:
        """Return (subject, count, last sequence) of every subject that a filter matches."""
        await self.loaded()
        index = self.machine.index
        kept: list[tuple[bytes, int, int]] = []
        async for part in search(index, filters):
            kept += [(subject, index.count(subject), index.last(subject)) for subject in part]
        return kept

    async def last_by_subject(self, pattern: bytes) -> Message | None:
        """Return the newest message whose subject matches."""
        tried = 0
        while True:
            rows = await self.subjects_matching([pattern])
            seq = max((last for _, _, last in rows), default=0)
            if seq == tried:
                return None
            found = await self.get(seq)
            if found is not None:
                return found
            if self.is_live(seq):
                await self.shell.lane.settled()  # Its row went with a commit that is still to show.
            tried = seq  # A publish may have superseded it while storage was read: look again.

    async def next_by_subject(self, pattern: bytes, seq: int) -> Message | None:
        """Return the first message at or after `seq` whose subject matches."""
        machine = self.machine
        while True:
            version, start = machine.version, max(seq, machine.first_seq)
            rows = await self.subjects_matching([pattern])
            names = {subject: last for subject, _, last in rows if last >= start}
            found = await self._next_of(pattern, names, start) if names else None
            if found is not None or not names:
                return found
            # There was one: it left while storage was read, or with a commit that is still to show.
            await self.shell.lane.settled()
            if machine.version == version:
                return None

    async def _next_of(self, pattern: bytes, names: dict[bytes, int], seq: int) -> Message | None:
        """The same, given the last sequences of the subjects that match and have one."""
        machine = self.machine
        if len(names) == 1:
            ((only, last),) = names.items()
            if last == seq or machine.index.count(only) == 1:
                return await self.get(last)
        match = compile_filters([pattern])
        while seq <= machine.last_seq:
            if seq >= self.tail.start:
                return self._next_in_tail(match, seq)
            if len(names) == 1:
                seq = await self.shell.reader.next_of(self.stream, self.shelf, only.decode(), seq)
                found = await self.get(seq) if seq else None
                if found is not None or not seq:
                    return found
                seq += 1
                continue
            seq, found = await self._next_in_window(match, seq)
            if found is not None:
                return found
        return None

    def _next_in_tail(self, match: Match | None, seq: int) -> Message | None:
        for segment, start in self.tail.since(seq):
            for i in range(start, len(segment)):
                if (match is None or match(segment.subjects[i])) and self.is_live(segment.seqs[i]):
                    return message_at(segment, i)
        return None

    async def _next_in_window(self, match: Match | None, seq: int) -> tuple[int, Message | None]:
        width = _WINDOW
        end = min(self.tail.start - 1, self.machine.last_seq)
        while seq <= end:
            stop = min(seq + width - 1, end)
            for place, subject in await self.shell.reader.names(self.stream, self.shelf, seq, stop):
                if (match is None or match(subject)) and self.is_live(place):
                    found = await self.get(place)
                    if found is not None:
                        return place, found
            seq = stop + 1
            width = min(width * 2, _WINDOW_MAX)
        return seq, None

    async def count_from(self, seq: int, match: Match | None, filters: Sequence[bytes]) -> int:
        """Return how many live messages at or after `seq` match."""
        machine = self.machine
        if seq > machine.last_seq:
            return 0
        if seq <= machine.first_seq:
            if match is None:
                return machine.msgs
            last = machine.last_seq
            count = sum(count for _, count, _ in await self.subjects_matching(filters))
            # A long search lets others store; rather too many than too few.
            return count + machine.last_seq - last
        if match is None and machine.msgs == machine.last_seq - machine.first_seq + 1:
            return machine.last_seq - seq + 1
        if seq < self.tail.start:
            await self.shell.janitor.finish(self)
        count = 0
        while seq < self.tail.start and seq <= machine.last_seq:
            last = machine.last_seq
            count += await self._count_stored(seq, last, match)
            seq = last + 1
        return count + self._count_tail(seq, match)

    async def _count_stored(self, first: int, last: int, match: Match | None) -> int:
        reader, count = self.shell.reader, 0
        if not self.purging:
            rows = await reader.subjects(self.stream, self.shelf, first, last)
            return sum(n for subject, n, _ in rows if match is None or match(subject))
        for start in range(first, last + 1, _WINDOW_MAX):  # Rows of a purge are still there.
            stop = min(start + _WINDOW_MAX - 1, last)
            names = await reader.names(self.stream, self.shelf, start, stop)
            live = [subject for seq, subject in names if self.is_live(seq)]
            count += sum(1 for subject in live if match is None or match(subject))
        return count

    def count_at_once(self, match: Match | None, filters: Sequence[bytes]) -> int | None:
        """Return how many messages match, or None where that would hold up others."""
        index = self.machine.index
        if match is None:
            return self.machine.msgs
        if self.loading is not None or len(index) > _COUNT_AT_ONCE:
            return None
        for _ in index.prepare(filters):
            pass
        return sum(index.count(subject) for part in index.search(filters) for subject in part)

    def _count_tail(self, seq: int, match: Match | None) -> int:
        count = 0
        for segment, start in self.tail.since(seq):
            if match is None and not self.dead:
                count += len(segment) - start
                continue
            for i in range(start, len(segment)):
                if (match is None or match(segment.subjects[i])) and self.is_live(segment.seqs[i]):
                    count += 1
        return count

    # -- facts for the machine ---------------------------------------------------------------

    async def load_oldest(self) -> None:
        """Load the next page of the oldest messages into the machine's window."""
        machine = self.machine
        oldest = machine.oldest
        start = max(oldest.upto + 1, machine.first_seq)
        rows = await self.shell.reader.front(self.stream, self.shelf, start, _OLDEST_PAGE)
        upto = rows[-1][0] if len(rows) == _OLDEST_PAGE else machine.last_seq
        size = machine.record_size.of_row
        oldest.load(
            (
                (seq, subject, size(subject, data, hdr), ts)
                for seq, subject, data, hdr, ts in rows
                if seq <= machine.last_seq and seq not in self.dead
            ),
            min(upto, machine.last_seq),
        )

    async def rows_of(self, subject: bytes) -> list[tuple[int, int]]:
        """Return (sequence, size) of the live messages of a subject, from storage."""
        machine = self.machine
        rows = await self.shell.reader.sizes(
            self.stream, self.shelf, subject.decode(), machine.first_seq, machine.last_seq + 1
        )
        size = machine.record_size.of_row
        return [(seq, size(subject, data, hdr)) for seq, _, data, hdr in rows if self.is_live(seq)]

    # -- state -------------------------------------------------------------------------------

    async def state(
        self, *, deleted: bool = False, subjects: dict[str, int] | None = None
    ) -> StreamState:
        """Return the stream's state; `deleted` lists the interior gaps."""
        await self.loaded()
        machine = self.machine
        for _ in range(_TRIES):
            first = await self.first_message()
            lost = await self._gaps() if deleted and self._missing() else []
            if self._agrees(first) and len(lost) == (self._missing() if deleted else 0):
                break
            # It changed meanwhile, or storage is ahead of memory.
            await self.shell.lane.settled()
        empty = not machine.msgs
        first_seq = machine.last_seq + 1 if empty else machine.first_seq
        if empty and not machine.first_seq:
            first_seq = 0
        # A file store of the reference server that never held anything counts sequence 0 as lost.
        never = deleted and not first_seq and machine.on_file
        return StreamState(
            messages=machine.msgs,
            bytes=machine.bytes,
            first_seq=first_seq,
            first_ts=first[1] if first is not None else 0,
            last_seq=machine.last_seq,
            last_ts=machine.last_ts,
            num_subjects=len(machine.index),
            subjects=subjects or {},
            num_deleted=self._missing() + never,
            deleted=(0,) if never else tuple(lost),
            consumer_count=self.consumer_count(),
        )

    @abstractmethod
    def consumer_count(self) -> int:
        """Return how many consumers the stream has."""

    def _missing(self) -> int:
        """Return how many sequences between the first and the last have no message."""
        machine = self.machine
        return machine.last_seq - machine.first_seq + 1 - machine.msgs if machine.msgs else 0

    def _agrees(self, first: Message | None) -> bool:
        """Whether a message may be the first of the stream as memory has it now."""
        if first is None:
            return not self.machine.msgs
        exact = first[0] == self.machine.first_seq and self.is_live(first[0])
        return exact and self._missing() >= 0

    async def _gaps(self) -> list[int]:
        """Return the sequences between first and last that have no message now."""
        machine, last = self.machine, self.machine.last_seq
        rows = await self.shell.reader.names(self.stream, self.shelf, machine.first_seq, last)
        there = {seq for seq, _ in rows if self.is_live(seq)}
        for segment, start in self.tail.since(last + 1):
            there.update(seq for seq in segment.seqs[start:] if self.is_live(seq))
        first, end = min(there, default=last + 1), machine.last_seq + 1
        return [seq for seq in range(first, end) if seq not in there]


def message_at(segment: Segment, index: int) -> Message:
    """Return one message of a segment."""
    headers = segment.headers[index] if segment.headers is not None else None
    return (
        segment.seqs[index],
        segment.times[index],
        segment.subjects[index],
        headers or b"",
        segment.payloads[index],
    )
