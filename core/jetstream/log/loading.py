"""Bringing the state of a stream back from storage: nothing but rows and the head row is needed.

Message bodies are not read: subjects come from the log's index, sizes from row lengths, message
ids from the headers inside the deduplication window.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from core.errors import Unavailable
from core.storage.health import waits
from core.stream.headers import MSG_ID, find
from core.stream.index import HistoryIndex, LastIndex, LogIndex, make_index

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from core.jetstream.log.stream_log import StreamLog
    from core.storage.interface import Head
    from core.stream.expiry import Expiry, Row

logger = logging.getLogger("jetgate.streams")

_PAGE = 100_000
# Messages from which on a log is read while it is served, instead of before.
_LONG = 200_000
_RETRY = 0.2
# Subjects taken in before the event loop gets its turn back.
_SLICE = 20_000
_SAME_AGE_NS = 1_000_000


def take_head(log: StreamLog, head: Head) -> bool:
    """Set bounds and counts as the head row has them; whether the rest may be read later.

    A long log without limits that evict may be served at once: see `load_behind`.
    """
    machine = log.machine
    machine.restore_head(
        first_seq=head.first_seq,
        last_seq=head.last_seq,
        last_ts=head.last_ts,
        msgs=head.msgs,
        nbytes=head.bytes,
    )
    log.tail.clear(head.last_seq + 1)
    removes = machine.limit or machine.evicts or machine.max_age or machine.expiry is not None
    return head.msgs > _LONG and not removes and machine.schedules is None


async def load(log: StreamLog, head: Head, now: int) -> None:
    """Read subjects, what limits supersede, and message ids. Raises Unavailable.

    Args:
        log: The log, with the bounds that `take_head` set.
        head: The head row.
        now: Wall-clock time in nanoseconds.
    """
    machine = log.machine
    expiry = machine.expiry
    index, superseded = await build_index(log, machine.limit, expiry=expiry)
    replaced = [seq for seq, _, _ in superseded]
    log.removed.hide(replaced, machine.unchanged().build().record)
    count = sum(n for _, n, _ in index.items())
    # What expired may still be stored: it counts until it is found to be due again.
    msgs = count if expiry is not None else _agreed(log, count, head)
    machine.restore_index(index, msgs)
    if replaced and not set(replaced).issubset(await log.rows.recorded()):
        # The node went down between saving a smaller limit and enforcing it: readers of storage
        # would see these rows.
        await log.deleted()
    if machine.msgs != head.msgs:
        machine.recount(nbytes=await _counted_bytes(log))
    await _restore_ids(log, head, now)


async def load_behind(log: StreamLog, head: Head, now: Callable[[], int]) -> None:
    """Read subjects and ids of a log that is being served and may grow meanwhile."""
    machine = log.machine
    index = machine.index
    assert isinstance(index, LogIndex), "only a log without limits is loaded behind"
    rows: list[tuple[bytes, int, int]] = []
    while not log.closed:
        try:
            await _restore_ids(log, head, now())
            rows = await log.rows.subjects(head.first_seq, head.last_seq)
            break
        except Unavailable as error:
            waits.warning("loading stream %s waits for storage: %s", log.name, error)
            await asyncio.sleep(_RETRY)
    count = 0
    for start in range(0, len(rows), _SLICE):
        page = rows[start : start + _SLICE]
        index.load(page)
        count += sum(n for _, n, _ in page)
        await asyncio.sleep(0)
    machine.recount(msgs=machine.msgs + _agreed(log, count, head) - head.msgs)


async def _counted_bytes(log: StreamLog) -> int:
    """Count the bytes of a stream anew, from the row lengths of what is there."""
    machine = log.machine
    await log.deleted()
    count, content, blocks = await log.rows.totals(machine.first_seq, machine.last_seq)
    return machine.record_size.total(count, content, blocks)


def _agreed(log: StreamLog, count: int, head: Head) -> int:
    if count != head.msgs:
        logger.error(
            "stream %s: head counts %d messages, storage has %d; storage is right",
            log.name,
            head.msgs,
            count,
        )
    return count


async def build_index(
    log: StreamLog, limit: int, first: int = 0, *, expiry: Expiry | None = None
) -> tuple[LogIndex | LastIndex | HistoryIndex, list[Row]]:
    """Read a stream's rows, from sequence `first` on, into an index of the form `limit` needs.

    Args:
        log: The log of the stream.
        limit: Messages that a subject may have.
        first: Where to begin.
        expiry: Empty queues to read the rows into as well.

    Returns:
        The index, and the (sequence, subject, size) of rows that the limit supersedes.
    """
    machine = log.machine
    index = make_index(limit)
    first, last = max(first, machine.first_seq), machine.last_seq
    if isinstance(index, LogIndex) and expiry is None:
        if machine.msgs:
            index.load(await log.rows.subjects(first, last))
        return index, []
    kept: dict[bytes, deque[tuple[int, int]]] = {}
    superseded: list[Row] = []
    async for rows in _pages(log, first, last, expiry):
        if isinstance(index, LogIndex):
            index.add([row[0] for row in rows], [row[1] for row in rows], ())
            continue
        for seq, subject, size in rows:
            entry = kept.setdefault(subject, deque())
            entry.append((seq, size))
            if len(entry) > limit:
                old, old_size = entry.popleft()
                superseded.append((old, subject, old_size))
    for subject, entry in kept.items():
        seqs, sizes = zip(*entry, strict=True)
        index.add(seqs, [subject] * len(seqs), sizes)
    if expiry is not None:
        expiry.forget(superseded)
    return index, superseded


async def _pages(
    log: StreamLog, first: int, last: int, expiry: Expiry | None
) -> AsyncIterator[list[Row]]:
    """Yield the stream's rows in order; what may expire goes into `expiry` on the way."""
    machine = log.machine
    size = machine.record_size.of_row
    for start in range(first, last + 1, _PAGE):
        below = min(start + _PAGE, last + 1)
        if expiry is None:
            lengths = await log.rows.sizes(None, start, below)
            rows = [(seq, subject, size(subject, data, hdr)) for seq, subject, data, hdr in lengths]
        else:
            expiring = await log.rows.expiry_rows(start, below)
            rows = [
                (seq, subject, size(subject, data, hdr))
                for seq, subject, data, hdr, _, _ in expiring
            ]
            if rows:
                seqs, subjects, _, _, times, blocks = zip(*expiring, strict=True)
                expiry.load(seqs, times, subjects, [row[2] for row in rows], blocks)
        if rows:
            yield rows


async def _restore_ids(log: StreamLog, head: Head, now: int) -> None:
    """Read the message ids inside the window, a page of sequences at a time.

    Those of removed messages too: whoever repeats one of them must not have it stored again.
    """
    machine = log.machine
    newest = await log.rows.range(head.last_seq, 1) if head.msgs else None
    if newest is not None and newest.headers is not None:
        machine.restore_last_msg_id(find(newest.headers[0] or b"", MSG_ID) or b"")
    window = machine.config.duplicate_window
    if window <= 0:
        return
    since = now - window
    first = await log.rows.first_at(since, 1, head.last_seq)
    removed = await log.rows.first_removed_id(since)
    first = first if removed is None else min(first, removed)
    while first <= head.last_seq:
        last = min(first + _PAGE - 1, head.last_seq)
        rows = await log.rows.message_ids(since, first, last)
        for ts, ids in _by_age(rows):
            machine.dedup.add(ids, ts)
        first = last + 1


def _by_age(
    rows: list[tuple[int, int, bytes]],
) -> Iterator[tuple[int, list[tuple[bytes, int]]]]:
    """Group (sequence, time, id) rows whose times are as good as equal."""
    ids: list[tuple[bytes, int]] = []
    begun = 0
    for seq, ts, msg_id in rows:
        if ids and ts - begun > _SAME_AGE_NS:
            yield begun, ids
            ids = []
        if not ids:
            begun = ts
        ids.append((msg_id, seq))
    if ids:
        yield begun, ids
