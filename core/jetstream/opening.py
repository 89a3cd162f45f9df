"""Bringing a stream's machine back from storage: nothing but rows and the head row is needed.

Message bodies are not read: subjects come from the log's index, sizes from row lengths, message
ids from the headers inside the deduplication window.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from core.stream.headers import MSG_ID, find
from core.stream.index import HistoryIndex, LastIndex, LogIndex, make_index

if TYPE_CHECKING:
    from core.jetstream.stream_runner import StreamRunner
    from core.storage.interface import Head

log = logging.getLogger("jetgate.streams")

_PAGE = 100_000


async def restore(runner: StreamRunner, head: Head) -> None:
    """Rebuild state, subject index, deduplication window and last message id."""
    machine = runner.machine
    machine.first_seq, machine.last_seq = head.first_seq, head.last_seq
    machine.last_ts, machine.msgs, machine.bytes = head.last_ts, head.msgs, head.bytes
    machine.front.upto = head.first_seq - 1
    runner.tail.clear(head.last_seq + 1)
    index, superseded = await build_index(runner, machine.limit)
    machine.index = index
    runner.dead.update(seq for seq, _, _ in superseded)
    runner.backlog.update(runner.dead)
    count = sum(n for _, n, _ in index.items())
    if count != machine.msgs:
        log.error(
            "stream %s: head counts %d messages, storage has %d; storage is right",
            runner.name,
            machine.msgs,
            count,
        )
        machine.msgs = count
    await _restore_ids(runner)
    runner.shell.janitor.sweep(runner)
    runner.shell.janitor.watch_age(runner)


async def build_index(
    runner: StreamRunner, limit: int, first: int = 0
) -> tuple[LogIndex | LastIndex | HistoryIndex, list[tuple[int, bytes, int]]]:
    """Read a stream's rows, from sequence `first` on, into an index of the form `limit` needs.

    Returns the index and the (sequence, subject, size) of rows that the limit supersedes.
    """
    machine, reader = runner.machine, runner.shell.reader
    index = make_index(limit)
    first, last = max(first, machine.first_seq), machine.last_seq
    if isinstance(index, LogIndex):
        if machine.msgs:
            index.load(await reader.subjects(runner.stream, runner.shelf, first, last))
        return index, []
    more = 4 if machine.on_file else 0
    kept: dict[bytes, deque[tuple[int, int]]] = {}
    superseded: list[tuple[int, bytes, int]] = []
    while first <= last:
        rows = await reader.sizes(
            runner.stream, runner.shelf, None, first, min(first + _PAGE, last + 1)
        )
        for seq, subject, data, hdr in rows:
            size = machine.overhead + len(subject) + data + (hdr + more if hdr else 0)
            entry = kept.setdefault(subject, deque())
            entry.append((seq, size))
            if len(entry) > limit:
                old, old_size = entry.popleft()
                superseded.append((old, subject, old_size))
        first += _PAGE
    for subject, entry in kept.items():
        seqs, sizes = zip(*entry, strict=True)
        index.add(seqs, [subject] * len(seqs), sizes)
    return index, superseded


async def _restore_ids(runner: StreamRunner) -> None:
    machine, reader = runner.machine, runner.shell.reader
    if not machine.msgs:
        return
    window = machine.config.duplicate_window
    if window > 0:
        since = runner.shell.clock.now() - window
        first = await reader.first_at(
            runner.stream, runner.shelf, since, machine.first_seq, machine.last_seq
        )
        for seq, ts, msg_id in await reader.message_ids(runner.stream, runner.shelf, since, first):
            if seq <= machine.last_seq:
                machine.dedup.add([(msg_id, seq)], ts)
    newest = await reader.range(runner.stream, runner.shelf, machine.last_seq, 1)
    if newest is not None and newest.headers is not None:
        machine.last_msg_id = find(newest.headers[0] or b"", MSG_ID) or b""
