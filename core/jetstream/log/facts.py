"""What a stream's machine has to be told before it decides a batch: it holds no storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.log.message import messages_of
from core.stream.headers import ROLLUP, publish_headers
from core.stream.scheduling import replaced_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.resources import Resources
    from core.stream.counting import Newest
    from core.stream.judge import Rollups
    from core.stream.plan import Columns


class FactReader:
    """Reads the facts for one stream.

    Args:
        log: The log of the stream.
        resources: What the streams of the node may use together (None: no limit).
        max_payload: Returns the largest payload in bytes that clients may publish.
    """

    def __init__(
        self, log: StreamLog, resources: Resources | None, max_payload: Callable[[], int]
    ) -> None:
        self._log = log
        self._resources = resources
        self._max_payload = max_payload

    async def read(self, columns: Columns, now: int) -> Rollups | None:
        """Tell the machine of room on the node and of the oldest messages, as far as it needs them.

        Returns the messages that roll-ups of the batch replace, as `StreamMachine.decide` takes
        them. Raises Unavailable.
        """
        log, machine = self._log, self._log.machine
        rollups: Rollups | None = None
        if machine.counts:
            machine.newest = await newest_of(log, set(columns.subjects))
            machine.max_payload = self._max_payload()
        if columns.headered or machine.front_deficit(columns, now):
            while machine.front_deficit(columns, now):
                await log.load_front()
            if columns.headered and machine.ends_schedules:
                rollups = await _ended(log, columns)
            elif columns.headered:
                rollups = await _replaced(log, columns)
        if self._resources is not None:
            machine.allowance = self._resources.left(machine.config.storage)
        return rollups


async def newest_of(log: StreamLog, subjects: Iterable[bytes]) -> Newest:
    """Return the last message of each subject that has one: from memory, the rest in one query.

    Raises Unavailable.
    """
    newest: Newest = {}
    stored: list[int] = []
    last = log.machine.index.last
    for subject in subjects:
        seq = last(subject)
        found = log.in_tail(seq) if seq else None
        if found is not None:
            newest[subject] = found[3:]
        elif seq:
            stored.append(seq)
    if stored:
        rows = messages_of(await log.rows.points(sorted(stored)))
        newest.update((subject, (block, payload)) for _, _, subject, block, payload in rows)
    return newest


async def _ended(log: StreamLog, columns: Columns) -> Rollups:
    """Return the same where messages are schedules and end those of other subjects, too."""
    index = log.machine.index
    rollups: Rollups = {}
    for subject, block in zip(columns.subjects, columns.headers, strict=True):
        for name in replaced_by(subject, block) if block else ():
            if index.of_subject(name) is None and name not in rollups:
                rollups[name] = await log.rows_of(name)
    return rollups


async def _replaced(log: StreamLog, columns: Columns) -> Rollups | None:
    """Return the messages of each subject that a roll-up of the batch names, if storage knows."""
    rollups: Rollups | None = None
    for subject, block in zip(columns.subjects, columns.headers, strict=True):
        if block.find(ROLLUP) < 0 or log.machine.index.of_subject(subject) is not None:
            continue
        if publish_headers(block).get(ROLLUP, b"").lower() == b"sub":
            rollups = rollups or {}
            rollups[subject] = await log.rows_of(subject)
    return rollups
