"""What a stream's machine has to be told before it decides a batch: it holds no storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.queries import message_at
from core.stream.headers import ROLLUP, publish_headers
from core.stream.schedule_headers import replaced_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.jetstream.stream_runner import StreamRunner
    from core.stream.counting import Newest
    from core.stream.judge import Rollups
    from core.stream.plan import Columns


async def facts_for(runner: StreamRunner, columns: Columns, now: int) -> Rollups | None:
    """Tell the machine of room on the node and of the oldest messages, as far as it needs them.

    Returns the messages that roll-ups of the batch replace, as `StreamMachine.decide` takes them.
    """
    machine = runner.machine
    rollups: Rollups | None = None
    if machine.counts:
        machine.newest = await newest_of(runner, set(columns.subjects))
        machine.max_payload = runner.shell.max_payload()
    if columns.headered or machine.lacks_oldest(columns, now):
        while machine.lacks_oldest(columns, now):
            await runner.load_oldest()
        if columns.headered and machine.ends_schedules:
            rollups = await _ended(runner, columns)
        elif columns.headered:
            rollups = await _replaced(runner, columns)
    if runner.shell.resources is not None:
        machine.allowance = runner.shell.resources.left(runner.config.storage)
    return rollups


async def newest_of(runner: StreamRunner, subjects: Iterable[bytes]) -> Newest:
    """Return the last message of each subject that has one: from memory, the rest in one query.

    Raises Unavailable.
    """
    newest: Newest = {}
    stored: list[int] = []
    last = runner.machine.index.last
    for subject in subjects:
        seq = last(subject)
        found = runner.in_tail(seq) if seq else None
        if found is not None:
            newest[subject] = found[3:]
        elif seq:
            stored.append(seq)
    if stored:
        page = await runner.shell.reader.points(runner.stream, runner.shelf, sorted(stored))
        rows = [] if page is None else [message_at(page, place) for place in range(len(page))]
        newest.update((subject, (block, payload)) for _, _, subject, block, payload in rows)
    return newest


async def _ended(runner: StreamRunner, columns: Columns) -> Rollups:
    """Return the same where messages are schedules and end those of other subjects, too."""
    index = runner.machine.index
    rollups: Rollups = {}
    for subject, block in zip(columns.subjects, columns.headers, strict=True):
        for name in replaced_by(subject, block) if block else ():
            if index.of_subject(name) is None and name not in rollups:
                rollups[name] = await runner.rows_of(name)
    return rollups


async def _replaced(runner: StreamRunner, columns: Columns) -> Rollups | None:
    """Return the messages of each subject that a roll-up of the batch names, if storage knows."""
    rollups: Rollups | None = None
    for subject, block in zip(columns.subjects, columns.headers, strict=True):
        if block.find(ROLLUP) < 0 or runner.machine.index.of_subject(subject) is not None:
            continue
        if publish_headers(block).get(ROLLUP, b"").lower() == b"sub":
            rollups = rollups or {}
            rollups[subject] = await runner.rows_of(subject)
    return rollups
