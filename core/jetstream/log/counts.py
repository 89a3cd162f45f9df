"""Counting the messages of a stream from a sequence on, by subject filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.log.subjects import subjects_matching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.jetstream.log.message import Match
    from core.jetstream.log.stream_log import StreamLog

_COUNT_AT_ONCE = 5000
_PAGE = 200_000


async def count_from(
    log: StreamLog, seq: int, match: Match | None, filters: Sequence[bytes]
) -> int:
    """Count the messages at or after sequence `seq` whose subject matches.

    `match` and `filters` express the same subject filters; `match` None counts all messages.
    Removed messages do not count. Messages stored during the count may be included. Raises
    Unavailable if PostgreSQL does not answer.
    """
    machine = log.machine
    if seq > machine.last_seq:
        return 0
    if seq <= log.first_seq:
        if match is None:
            return machine.msgs
        last = machine.last_seq
        rows = await subjects_matching(log, filters)
        count = sum(count for subject, count, _ in rows if match(subject))
        # Messages may be stored during a long search; the count errs on the high side.
        return count + machine.last_seq - last
    if match is None and machine.msgs == machine.last_seq - log.first_seq + 1:
        return machine.last_seq - seq + 1
    if seq < log.tail.start:
        await log.deleted()
    count = 0
    while seq < log.tail.start and seq <= machine.last_seq:
        last = machine.last_seq
        count += await _count_stored(log, seq, last, match)
        seq = last + 1
    return count + _count_tail(log, seq, match)


def count_at_once(log: StreamLog, match: Match | None, filters: Sequence[bytes]) -> int | None:
    """Count all messages of a stream whose subject matches, from memory only (`match` None: all).

    Returns None while the subjects are being loaded, or if the stream has more than
    `_COUNT_AT_ONCE` subjects, so that counting would block the event loop.
    """
    index = log.machine.index
    if match is None:
        return log.machine.msgs
    if log.loading is not None or len(index) > _COUNT_AT_ONCE:
        return None
    for _ in index.prepare(filters):
        pass
    return sum(index.count(s) for part in index.search(filters) for s in filter(match, part))


async def _count_stored(log: StreamLog, first: int, last: int, match: Match | None) -> int:
    count = 0
    if not log.removed.purges:
        rows = await log.rows.subjects(first, last)
        return sum(n for subject, n, _ in rows if match is None or match(subject))
    for start in range(first, last + 1, _PAGE):  # Rows of unfinished purges are still stored.
        names = await log.rows.names(start, min(start + _PAGE - 1, last))
        live = [subject for seq, subject in names if log.is_live(seq)]
        count += sum(1 for subject in live if match is None or match(subject))
    return count


def _count_tail(log: StreamLog, seq: int, match: Match | None) -> int:
    count = 0
    for segment, start in log.tail.since(seq):
        if match is None and not log.removed.hidden:
            count += len(segment) - start
            continue
        for i in range(start, len(segment)):
            if (match is None or match(segment.subjects[i])) and log.is_live(segment.seqs[i]):
                count += 1
    return count
