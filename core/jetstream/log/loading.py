"""Loading the in-memory state of a stream from its message rows and its head row.

The head row has first and last sequence and the counts. Payloads are not read: subjects come from
the index of the rows, sizes from row lengths, and message ids from the rows inside the duplicate
window.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from core import retry
from core.errors import Unavailable
from core.rules.stream.headers import MSG_ID, find
from core.rules.stream.state.subject_index import HistoryIndex, LastIndex, LogIndex, make_index
from core.storage.health import waits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from core.jetstream.log.stream_log import StreamLog
    from core.rules.stream.state.expiry import Expiry, Row
    from core.storage.interface import Head

log = logging.getLogger(__name__)

_PAGE = 100_000
# A log with more messages may be read while it is already served.
_LONG = 200_000
# Subjects loaded before control returns to the event loop.
_SLICE = 20_000
_SAME_AGE_NS = 1_000_000


def take_head(log: StreamLog, head: Head) -> bool:
    """Restore first and last sequence and counts of a stream from its head row.

    Returns True if the stream may be served before its subjects are read (`load_behind`): it has
    more than 200,000 messages, and no schedules, TTLs or limits that remove messages.
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
    """Read subjects and message ids of a stream, and hide messages beyond the limit per subject.

    Call it after `take_head`, before the stream is served. Raises Unavailable if PostgreSQL does
    not answer.

    Args:
        log: The stream's log.
        head: The head row.
        now: Wall-clock time in nanoseconds since the Unix epoch.
    """
    machine = log.machine
    expiry = machine.expiry
    index, superseded = await build_index(log, machine.limit, expiry=expiry)
    replaced = [seq for seq, _, _ in superseded]
    log.removed.hide(replaced, machine.unchanged().build().record)
    count = sum(n for _, n, _ in index.items())
    # Expired rows may still be stored: they count until their expiry is detected again.
    msgs = count if expiry is not None else _agreed(log.name, count, head)
    machine.restore_index(index, msgs)
    if replaced and not set(replaced).issubset(await log.rows.recorded()):
        # The node crashed between storing a smaller limit and enforcing it: SQL readers would
        # see these rows.
        await log.deleted()
    if machine.msgs != head.msgs:
        machine.recount(nbytes=await _counted_bytes(log))
    await _restore_ids(log, head, now)


async def load_behind(log: StreamLog, head: Head, now: Callable[[], int]) -> None:
    """Read subjects and message ids of a long stream while it is served and may grow.

    `now` returns the time in nanoseconds since the Unix epoch. Retries while PostgreSQL does not
    answer; returns early if the log is closed.
    """
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
            await asyncio.sleep(retry.BACKGROUND_S)
    count = 0
    for start in range(0, len(rows), _SLICE):
        page = rows[start : start + _SLICE]
        index.load(page)
        count += sum(n for _, n, _ in page)
        await asyncio.sleep(0)
    machine.recount(msgs=machine.msgs + _agreed(log.name, count, head) - head.msgs)


async def _counted_bytes(log: StreamLog) -> int:
    """Return the bytes of a stream, computed from its stored row lengths.

    Raises Unavailable if PostgreSQL does not answer.
    """
    machine = log.machine
    await log.deleted()
    count, content, blocks = await log.rows.totals(machine.first_seq, machine.last_seq)
    return machine.record_size.total(count, content, blocks)


def _agreed(name: str, count: int, head: Head) -> int:
    if count != head.msgs:
        log.error(
            "stream %s: head counts %d messages, storage has %d; storage is right",
            name,
            head.msgs,
            count,
        )
    return count


async def build_index(
    log: StreamLog, limit: int, first: int = 0, *, expiry: Expiry | None = None
) -> tuple[LogIndex | LastIndex | HistoryIndex, list[Row]]:
    """Read the rows of a stream into a new subject index.

    Args:
        log: The stream's log.
        limit: Largest number of messages per subject (0: no limit); it selects the kind of index.
        first: The lowest sequence to read.
        expiry: Empty expiry queues that also receive the rows (None: the stream has no TTLs).

    Returns:
        The index, and (sequence, subject, size in bytes) of the rows above the limit per subject.
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
    """Yield pages of (sequence, subject, size) rows, ascending; also load them into `expiry`."""
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
    """Read the message ids inside the duplicate window into memory, in pages of sequences.

    Includes ids of removed messages: a repeated publish of such a message is a duplicate too.
    `now` is in nanoseconds since the Unix epoch.
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
    """Group (sequence, time, message id) rows whose times differ by at most one millisecond.

    Yields (time of the first row, [(message id, sequence), ...]). Times are nanoseconds since the
    Unix epoch.
    """
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
