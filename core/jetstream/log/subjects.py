"""Lookups by subject filter: matching subjects, the last matching message, the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.log.message import message_at
from core.jetstream.log.search import search
from core.subjects.subject import compile_filters, compile_reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.jetstream.log.message import Match, Message
    from core.jetstream.log.stream_log import StreamLog
    from core.model.message import MsgGetRequest

_WINDOW = 10_000
_WINDOW_MAX = 200_000


async def subjects_matching(
    log: StreamLog, filters: Sequence[bytes]
) -> list[tuple[bytes, int, int]]:
    """Return (subject, count of messages, last sequence) of every subject that matches a filter."""
    await log.loaded()
    index = log.machine.index
    kept: list[tuple[bytes, int, int]] = []
    async for part in search(index, filters):
        kept += [(subject, index.count(subject), index.last(subject)) for subject in part]
    return kept


async def last_by_subject(log: StreamLog, pattern: bytes) -> Message | None:
    """Return the newest message whose subject matches a filter; None: there is none.

    Raises Unavailable if PostgreSQL does not answer.
    """
    tried = 0
    while True:
        rows = await subjects_matching(log, [pattern])
        seq = max((last for _, _, last in rows), default=0)
        if seq == tried:
            return None
        found = await log.get(seq)
        if found is not None:
            return found
        if log.is_live(seq):
            await log.await_commit()  # A commit that memory does not show yet deleted the row.
        tried = seq  # A publish may have superseded it during the read: search again.


async def next_by_subject(log: StreamLog, pattern: bytes, seq: int) -> Message | None:
    """Return the first message at or after `seq` whose subject matches a filter; None: none.

    Raises Unavailable if PostgreSQL does not answer.
    """
    machine = log.machine
    match = compile_reading([pattern]) if machine.on_file else compile_filters([pattern])
    while True:
        version, start = machine.version, max(seq, machine.first_seq)
        rows = await subjects_matching(log, [pattern])
        names = {s: last for s, _, last in rows if last >= start and (match is None or match(s))}
        found = await _next_of(log, match, names, start) if names else None
        if found is not None or not names:
            return found
        # It was removed during the read, or by a commit that memory does not show yet.
        await log.await_commit()
        if machine.version == version:
            return None


async def get_message(log: StreamLog, request: MsgGetRequest) -> Message | None:
    """Return the message that a STREAM.MSG.GET request selects; None: there is none.

    Raises Unavailable if PostgreSQL does not answer.
    """
    if request.last_by_subj:
        return await last_by_subject(log, request.last_by_subj.encode())
    seq = request.seq
    if request.start_time is not None:
        if not request.next_by_subj:
            return await log.get_at_time(request.start_time)
        seq = await log.first_at_time(request.start_time)
    if request.next_by_subj:
        return await next_by_subject(log, request.next_by_subj.encode(), seq)
    return await log.get(seq)


async def _next_of(
    log: StreamLog, match: Match | None, names: dict[bytes, int], seq: int
) -> Message | None:
    """Return the first matching message at or after `seq`; None: it was removed meanwhile.

    `names` maps each matching subject to its last sequence. Raises Unavailable if PostgreSQL does
    not answer.
    """
    machine = log.machine
    if len(names) == 1:
        ((only, last),) = names.items()
        if last == seq or machine.index.count(only) == 1:
            return await log.get(last)
    while seq <= machine.last_seq:
        if seq >= log.tail.start:
            return _next_in_tail(log, match, seq)
        if len(names) == 1:
            seq = await log.rows.next_of(only, seq)
            found = await log.get(seq) if seq else None
            if found is not None or not seq:
                return found
            seq += 1
            continue
        seq, found = await _next_in_storage(log, match, seq)
        if found is not None:
            return found
    return None


def _next_in_tail(log: StreamLog, match: Match | None, seq: int) -> Message | None:
    for segment, start in log.tail.since(seq):
        for i in range(start, len(segment)):
            if (match is None or match(segment.subjects[i])) and log.is_live(segment.seqs[i]):
                return message_at(segment, i)
    return None


async def _next_in_storage(
    log: StreamLog, match: Match | None, seq: int
) -> tuple[int, Message | None]:
    """Search storage from `seq` up to the first message that memory holds.

    Returns (sequence at which the search ended, message or None). Raises Unavailable if PostgreSQL
    does not answer.
    """
    width = _WINDOW
    end = min(log.tail.start - 1, log.machine.last_seq)
    while seq <= end:
        stop = min(seq + width - 1, end)
        for place, subject in await log.rows.names(seq, stop):
            if (match is None or match(subject)) and log.is_live(place):
                found = await log.get(place)
                if found is not None:
                    return place, found
        seq = stop + 1
        width = min(width * 2, _WINDOW_MAX)
    return seq, None
