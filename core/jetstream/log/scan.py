"""Iteration over the messages of a stream in order of sequence, without removed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.log.subjects import subjects_matching
from core.subjects.subject import compile_filters, compile_reading

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from core.jetstream.log.message import Match
    from core.jetstream.log.stream_log import StreamLog
    from core.model.segment import Segment

SLICE = 256
"""Largest number of messages that `scan` yields at once."""
_FIRST_ROWS = 32
_MOST_ROWS = 2000
_PAGE_BYTES = 1 << 20
_WINDOW = 10_000
_WINDOW_MAX = 200_000

Found = tuple["Segment", "Sequence[int]"]


async def scan(
    log: StreamLog, seq: int, filters: Sequence[bytes], limit: int
) -> AsyncIterator[Found]:
    """Yield the messages at or after `seq` whose subjects match, in order of sequence.

    Each item is (segment, indices): a segment and the indices of matching messages in it, possibly
    none. Continues to the end of the stream; `limit` only bounds the messages that one query reads.
    Raises Unavailable if PostgreSQL does not answer.
    """
    match = compile_reading(filters) if log.machine.on_file else compile_filters(filters)
    seq, known = max(seq, log.machine.first_seq), -1
    # A message that replaces another one meanwhile is stored after the first end: repeat.
    while known != (last := log.machine.last_seq):
        known, end = last, await _end(log, filters, match)
        if seq > end:
            return
        while seq <= end:
            if seq >= log.tail.start:
                place = log.tail.at(seq)
                if place is None:
                    return
                segment, start = place
                stop = min(start + SLICE, len(segment))
                seq = segment.seqs[stop - 1] + 1
                yield segment, _live(log, segment, range(start, stop), match)
                continue
            walk = _cold(log, seq, limit) if match is None else _cold_matching(log, seq, match)
            async for segment in walk:
                seq = segment.last + 1
                for start in range(0, len(segment), SLICE):
                    places = range(start, min(start + SLICE, len(segment)))
                    yield segment, _live(log, segment, places, None)
            seq = max(seq, log.tail.start)


async def _end(log: StreamLog, filters: Sequence[bytes], match: Match | None) -> int:
    """Return the last sequence whose subject matches (0: none; no filters: the last)."""
    if match is None:
        return log.machine.last_seq
    return max((last for _, _, last in await subjects_matching(log, filters)), default=0)


def _live(log: StreamLog, segment: Segment, places: range, match: Match | None) -> Sequence[int]:
    seqs, subjects = segment.seqs, segment.subjects
    return [i for i in places if (match is None or match(subjects[i])) and log.is_live(seqs[i])]


def _rows(segment: Segment) -> int:
    """Return the number of messages per query, so that a page has about `_PAGE_BYTES`.

    It is computed from the average payload size of the previous page.
    """
    size = sum(map(len, segment.payloads)) // len(segment) + 1
    return min(max(_PAGE_BYTES // size, 1), _MOST_ROWS)


async def _cold(log: StreamLog, seq: int, limit: int) -> AsyncIterator[Segment]:
    """Yield pages of live messages from storage, up to the first message in memory."""
    rows = min(_FIRST_ROWS, limit)
    while seq < log.tail.start:
        page = await log.read(seq, rows)
        if page is None:
            return
        yield page
        seq = page.last + 1
        rows = min(_rows(page), limit)


async def _cold_matching(log: StreamLog, seq: int, match: Match) -> AsyncIterator[Segment]:
    """Yield pages of matching messages from storage, up to the first message in memory.

    First the sequences are read from the index of the rows, then only the matching rows.
    """
    width, rows = _WINDOW, _FIRST_ROWS
    while seq < log.tail.start:
        stop = min(seq + width, log.tail.start) - 1
        names = await log.rows.names(seq, stop)
        wanted = [place for place, subject in names if match(subject) and log.is_live(place)]
        while wanted:
            some, wanted = wanted[:rows], wanted[rows:]
            page = await log.rows.points(some)
            if page is not None:
                yield page
                rows = _rows(page)
        seq = stop + 1
        width = min(width * 2, _WINDOW_MAX)
