"""Reading the data that the decision on a batch of publishes needs beside the stream's state.

Examples are the current values of counters and the messages that a roll-up replaces. They are read
before the decision, since the decision itself does no I/O (`core.rules.stream`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from core.jetstream.log.message import messages_of
from core.jetstream.log.search import search
from core.rules.stream.headers import ROLLUP, publish_headers
from core.rules.stream.preconditions import NO_PRECONDITIONS, Preconditions
from core.rules.stream.schedules.schedule_headers import replaced_by
from core.rules.stream.state.wildcard_purges import PurgedFilters, covered
from core.subjects.subject import has_wildcard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from core.jetstream.changes import WithoutInterest
    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.resources import Resources
    from core.protocol.messages import MessageColumns
    from core.rules.stream.preconditions import LastMessages, StoredRows

_FEW = 64
"""Number of subjects up to which each subject is queried; above it one query reads all messages."""


class PreconditionReader:
    """Reads the preconditions (`Preconditions`) of batches of publishes, for one stream.

    These are data that the decision on a batch needs beside the stream's state.

    Args:
        log: The log of the stream.
        resources: The node's limits on stored bytes (None: no limit).
        max_payload: Returns the largest payload in bytes that clients may publish.
        without_interest: Returns those of the given subjects whose messages are not stored, since
            no consumer matches them.
    """

    def __init__(
        self,
        log: StreamLog,
        resources: Resources | None,
        max_payload: Callable[[], int],
        without_interest: WithoutInterest,
    ) -> None:
        self._log = log
        self._resources = resources
        self._max_payload = max_payload
        self._without_interest = without_interest

    async def read(self, columns: MessageColumns, now: int) -> Preconditions:
        """Return the preconditions of a batch of publishes.

        Also loads the stream's oldest messages into memory if the batch may evict them. `now` is in
        nanoseconds since the Unix epoch. Raises Unavailable if PostgreSQL does not answer.
        """
        log, machine = self._log, self._log.machine
        preconditions = NO_PRECONDITIONS
        if machine.counts:
            newest = await last_messages_of(log, set(columns.subjects))
            preconditions = Preconditions(newest, max_payload=self._max_payload())
        if columns.has_headers or machine.lacks_oldest(columns, now, preconditions):
            while machine.lacks_oldest(columns, now, preconditions):
                await log.load_oldest()
            replaced: StoredRows = {}
            if columns.has_headers and machine.config.allow_rollup_hdrs:
                replaced = await _replaced(log, columns)
            if replaced:
                preconditions = replace(preconditions, replaced=replaced)
        if self._resources is not None:
            left = self._resources.left(machine.config.storage)
            preconditions = (
                preconditions if left is None else replace(preconditions, storage_left=left)
            )
        unwanted = self._without_interest(columns.subjects)
        return replace(preconditions, no_interest=unwanted) if unwanted else preconditions


async def last_messages_of(log: StreamLog, subjects: Iterable[bytes]) -> LastMessages:
    """Return {subject: (header block, payload)} of the last message of each subject.

    Subjects without messages are left out. Messages that are not in memory are read with one query.
    Raises Unavailable if PostgreSQL does not answer.
    """
    newest: dict[bytes, tuple[bytes, bytes]] = {}
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


async def _replaced(log: StreamLog, columns: MessageColumns) -> StoredRows:
    """Return {subject: its stored messages} for subjects whose messages the batch removes.

    These are subjects that are rolled up, or whose schedule ends. Subjects whose messages the index
    in memory knows are left out. Raises Unavailable if PostgreSQL does not answer.
    """
    index = log.machine.index
    rows: dict[bytes, list[tuple[int, int]]] = {}
    purged = PurgedFilters()
    named = replaced_by if log.machine.ends_schedules else _rolled_up
    for subject, block in zip(columns.subjects, columns.headers, strict=True):
        for name in named(subject, block) if block else ():
            if has_wildcard(name):
                if purged.add(name):
                    await _add_covered(log, name, rows)
            elif index.of_subject(name) is None and name not in rows:
                rows[name] = await log.rows_of(name)
    return rows


def _rolled_up(subject: bytes, block: bytes) -> tuple[bytes, ...]:
    """Return (subject,) if the header block asks for a roll-up of the subject, else ()."""
    if block.find(ROLLUP) < 0 or publish_headers(block).get(ROLLUP, b"").lower() != b"sub":
        return ()
    return (subject,)


async def _add_covered(
    log: StreamLog, pattern: bytes, rows: dict[bytes, list[tuple[int, int]]]
) -> None:
    """Add to `rows` the stored messages of each subject that `pattern` matches.

    Subjects whose messages the index in memory knows are left out. Raises Unavailable if PostgreSQL
    does not answer.
    """
    index = log.machine.index
    wanted: list[bytes] = []
    async for part in search(index, (pattern,)):
        unknown = (one for one in covered(part, pattern) if index.of_subject(one) is None)
        wanted += [one for one in unknown if one not in rows]
    if len(wanted) > _FEW:
        rows.update(await log.rows_of_all(frozenset(wanted)))
        return
    for subject in wanted:
        rows[subject] = await log.rows_of(subject)
