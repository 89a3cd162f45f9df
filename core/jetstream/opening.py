"""Bringing a stream's machine back from storage: nothing but rows and the head row is needed.

Message bodies are not read: subjects come from the log's index, sizes from row lengths, message
ids from the headers inside the deduplication window.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from core.errors import Unavailable
from core.runtime.tasks import spawn
from core.stream.headers import MSG_ID, find
from core.stream.index import HistoryIndex, LastIndex, LogIndex, make_index

if TYPE_CHECKING:
    from core.jetstream.stream_runner import StreamRunner
    from core.storage.interface import Head
    from core.stream.expiry import Expiry, Row

log = logging.getLogger("jetgate.streams")

_PAGE = 100_000
# Messages from which on a log is read behind instead of before it is served.
_LONG = 200_000
_RETRY = 0.2
# Subjects taken in before the event loop gets its turn back.
_SLICE = 20_000
_SAME_AGE_NS = 1_000_000


async def restore(runner: StreamRunner, head: Head) -> None:
    """Rebuild state, subject index, deduplication window and last message id.

    A long log without limits that evict is served at once: its subjects and ids are read behind
    (`runner.loading`), and only what needs them waits.
    """
    machine = runner.machine
    machine.first_seq, machine.last_seq = head.first_seq, head.last_seq
    machine.last_ts, machine.msgs, machine.bytes = head.last_ts, head.msgs, head.bytes
    machine.oldest.upto = max(head.first_seq - 1, 0)
    runner.tail.clear(head.last_seq + 1)
    await runner.copier.restore(runner.config)
    removes = machine.limit or machine.evicts or machine.max_age or machine.expiry is not None
    if head.msgs > _LONG and not removes and machine.schedules is None:
        runner.loading = spawn(_load_behind(runner, head), name=f"load {runner.name}")
        return
    expiry = machine.expiry
    index, superseded = await build_index(runner, machine.limit, expiry=expiry)
    machine.index = index
    runner.dead.update(seq for seq, _, _ in superseded)
    runner.backlog.update(dict.fromkeys(seq for seq, _, _ in superseded))
    count = sum(n for _, n, _ in index.items())
    # What expired may still be stored: it counts until it is found to be due again.
    machine.msgs = count if expiry is not None else _agreed(runner, count, head)
    if machine.msgs != head.msgs:
        machine.bytes = await _counted_bytes(runner)
    await _restore_ids(runner, head)
    await runner.scheduler.restore()
    runner.shell.janitor.sweep(runner)
    runner.shell.janitor.watch_age(runner)


async def _load_behind(runner: StreamRunner, head: Head) -> None:
    """Read subjects and ids of a log that is being served and may grow meanwhile."""
    machine = runner.machine
    index = machine.index
    assert isinstance(index, LogIndex), "only a log without limits is loaded behind"
    rows: list[tuple[bytes, int, int]] = []
    while not runner.closed:
        try:
            await _restore_ids(runner, head)
            rows = await runner.shell.reader.subjects(
                runner.stream, runner.shelf, head.first_seq, head.last_seq
            )
            break
        except Unavailable as error:
            log.warning("loading stream %s waits for storage: %s", runner.name, error)
            await asyncio.sleep(_RETRY)
    count = 0
    for start in range(0, len(rows), _SLICE):
        page = rows[start : start + _SLICE]
        index.load(page)
        count += sum(n for _, n, _ in page)
        await asyncio.sleep(0)
    machine.msgs += _agreed(runner, count, head) - head.msgs
    runner.loading = None
    runner.shell.janitor.sweep(runner)
    if runner.has_work():
        runner.shell.lane.enqueue(runner)


async def _counted_bytes(runner: StreamRunner) -> int:
    """Count the bytes of a stream anew, from the row lengths of what is there."""
    machine = runner.machine
    await runner.shell.janitor.finish(runner)
    count, content, blocks = await runner.shell.reader.totals(
        runner.stream, runner.shelf, machine.first_seq, machine.last_seq
    )
    return machine.record_size.total(count, content, blocks)


def _agreed(runner: StreamRunner, count: int, head: Head) -> int:
    if count != head.msgs:
        log.error(
            "stream %s: head counts %d messages, storage has %d; storage is right",
            runner.name,
            head.msgs,
            count,
        )
    return count


async def build_index(
    runner: StreamRunner, limit: int, first: int = 0, *, expiry: Expiry | None = None
) -> tuple[LogIndex | LastIndex | HistoryIndex, list[Row]]:
    """Read a stream's rows, from sequence `first` on, into an index of the form `limit` needs.

    Args:
        runner: The stream.
        limit: Messages that a subject may have.
        first: Where to begin.
        expiry: Empty queues to read the rows into as well.

    Returns:
        The index, and the (sequence, subject, size) of rows that the limit supersedes.
    """
    machine, reader = runner.machine, runner.shell.reader
    index = make_index(limit)
    first, last = max(first, machine.first_seq), machine.last_seq
    if isinstance(index, LogIndex) and expiry is None:
        if machine.msgs:
            index.load(await reader.subjects(runner.stream, runner.shelf, first, last))
        return index, []
    kept: dict[bytes, deque[tuple[int, int]]] = {}
    superseded: list[Row] = []
    async for rows in _pages(runner, first, last, expiry):
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
    runner: StreamRunner, first: int, last: int, expiry: Expiry | None
) -> AsyncIterator[list[Row]]:
    """Yield the stream's rows in order; what may expire goes into `expiry` on the way."""
    machine, reader = runner.machine, runner.shell.reader
    size = machine.record_size.of_row
    for start in range(first, last + 1, _PAGE):
        below = min(start + _PAGE, last + 1)
        if expiry is None:
            lengths = await reader.sizes(runner.stream, runner.shelf, None, start, below)
            rows = [(seq, subject, size(subject, data, hdr)) for seq, subject, data, hdr in lengths]
        else:
            lives = await reader.lifetimes(runner.stream, runner.shelf, start, below)
            rows = [
                (seq, subject, size(subject, data, hdr)) for seq, subject, data, hdr, _, _ in lives
            ]
            if rows:
                seqs, subjects, _, _, times, blocks = zip(*lives, strict=True)
                expiry.load(seqs, times, subjects, [row[2] for row in rows], blocks)
        if rows:
            yield rows


async def _restore_ids(runner: StreamRunner, head: Head) -> None:
    """Read the message ids inside the window, a page of sequences at a time."""
    machine, reader = runner.machine, runner.shell.reader
    if not head.msgs:
        return
    newest = await reader.range(runner.stream, runner.shelf, head.last_seq, 1)
    if newest is not None and newest.headers is not None:
        machine.last_msg_id = find(newest.headers[0] or b"", MSG_ID) or b""
    window = machine.config.duplicate_window
    if window <= 0:
        return
    since = runner.shell.clock.now() - window
    first = await reader.first_at(runner.stream, runner.shelf, since, head.first_seq, head.last_seq)
    while first <= head.last_seq:
        last = min(first + _PAGE - 1, head.last_seq)
        rows = await reader.message_ids(runner.stream, runner.shelf, since, first, last)
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
