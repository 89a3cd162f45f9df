"""Reading what a stream's decision about a batch depends on beside its state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from core.jetstream.queries import message_at
from core.stream.facts import NO_FACTS, Facts
from core.stream.headers import ROLLUP, publish_headers
from core.stream.schedule_headers import replaced_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from core.jetstream.stream_runner import StreamRunner
    from core.stream.facts import LastMessages, StoredRows
    from core.stream.plan import Columns


async def facts_for(runner: StreamRunner, columns: Columns, now: int) -> Facts:
    """Return the facts of a batch, and have the machine know enough of the oldest messages.

    Raises Unavailable.
    """
    machine = runner.machine
    facts = NO_FACTS
    if machine.counts:
        newest = await last_messages_of(runner, set(columns.subjects))
        facts = Facts(newest, max_payload=runner.shell.max_payload())
    if columns.headered or machine.lacks_oldest(columns, now, facts):
        while machine.lacks_oldest(columns, now, facts):
            await runner.load_oldest()
        replaced: StoredRows = {}
        if columns.headered:
            find = _replaced_or_ended if machine.ends_schedules else _replaced
            replaced = await find(runner, columns)
        if replaced:
            facts = replace(facts, replaced=replaced)
    if runner.shell.resources is not None:
        left = runner.shell.resources.left(runner.config.storage)
        facts = facts if left is None else replace(facts, storage_left=left)
    unwanted = without_interest(runner, columns.subjects)
    return replace(facts, no_interest=unwanted) if unwanted else facts


def without_interest(runner: StreamRunner, subjects: Iterable[bytes]) -> frozenset[bytes]:
    """Return the subjects that are not stored, because retention is by interest and none has it."""
    return frozenset() if runner.retention is None else runner.retention.without_interest(subjects)


async def last_messages_of(runner: StreamRunner, subjects: Iterable[bytes]) -> LastMessages:
    """Return the last message of each subject that has one: from memory, the rest in one query.

    Raises Unavailable.
    """
    newest: dict[bytes, tuple[bytes, bytes]] = {}
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


async def _replaced_or_ended(runner: StreamRunner, columns: Columns) -> StoredRows:
    """Return the same where messages are schedules and end those of other subjects, too."""
    index = runner.machine.index
    rows: dict[bytes, list[tuple[int, int]]] = {}
    for subject, block in zip(columns.subjects, columns.headers, strict=True):
        for name in replaced_by(subject, block) if block else ():
            if index.of_subject(name) is None and name not in rows:
                rows[name] = await runner.rows_of(name)
    return rows


async def _replaced(runner: StreamRunner, columns: Columns) -> StoredRows:
    """Return the messages of each subject that a roll-up of the batch names, if storage knows."""
    rows: dict[bytes, list[tuple[int, int]]] = {}
    for subject, block in zip(columns.subjects, columns.headers, strict=True):
        if block.find(ROLLUP) < 0 or runner.machine.index.of_subject(subject) is not None:
            continue
        if publish_headers(block).get(ROLLUP, b"").lower() == b"sub":
            rows[subject] = await runner.rows_of(subject)
    return rows
