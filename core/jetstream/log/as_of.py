"""The last messages of subjects at a past sequence, for Direct Get with `multi_last` (ADR-31)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.log.search import search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.jetstream.log.stream_log import StreamLog

_TRIES = 3
_WINDOW = 10_000
_WINDOW_MAX = 500_000


async def last_as_of(
    log: StreamLog, filters: Sequence[bytes], up_to: int, most: int
) -> tuple[list[int], int]:
    """Return the last sequence of every matching subject, as the stream was at a sequence.

    Args:
        log: The stream's log.
        filters: Subject filters; a subject matches any of them.
        up_to: The sequence; later messages are ignored. 0: the stream's present last sequence.
        most: The largest number of results that the caller uses. If there are more, only the fact
            that the list is longer than `most` is reliable; its entries may be 0.

    Returns:
        (the sequences, ascending; the sequence `up_to` that was used).

    Raises Unavailable if PostgreSQL does not answer.
    """
    machine = log.machine
    names: list[bytes] = []
    for _ in range(_TRIES):
        names, before = [], -1
        async for part in search(machine.index, filters):
            before = machine.last_seq if before < 0 else before
            names += part
            if not up_to and len(names) > most:
                return [0] * len(names), machine.last_seq
        # A search in several parts shows one instant only if nothing is stored meanwhile.
        if up_to or before in (-1, machine.last_seq):
            break
    up_to = up_to or machine.last_seq
    seqs: list[int] = []
    later: set[bytes] = set()
    for name in names:
        last = machine.index.last(name)
        if not last or last <= up_to:
            seqs.append(last)
            continue
        rows = machine.index.of_subject(name)
        if rows is None:
            later.add(name)
        else:
            seqs.append(max((seq for seq, _ in rows if seq <= up_to), default=0))
    found = [seq for seq in seqs if seq]
    if later and len(found) <= most:
        found += await _stored_before(log, later, up_to, most + 1 - len(found))
    return sorted(found), up_to


async def _stored_before(log: StreamLog, names: set[bytes], up_to: int, most: int) -> list[int]:
    """Return the last live sequences of `names` at or below `up_to`, at most about `most`.

    Reads ranges of sequences from storage, newest first. Raises Unavailable if PostgreSQL does not
    answer.
    """
    await log.deleted()
    found: list[int] = []
    width = _WINDOW
    while names and len(found) < most and up_to >= log.machine.first_seq:
        low = max(up_to - width + 1, log.machine.first_seq)
        for name, _, last in await log.rows.subjects(low, up_to):
            if name not in names:
                continue
            seq = last
            while seq >= low and not log.is_live(seq):
                seq = await log.rows.last_before(name, seq)
            if seq >= low:
                names.discard(name)
                found.append(seq)
        up_to = low - 1
        width = min(width * 2, _WINDOW_MAX)
    return found
