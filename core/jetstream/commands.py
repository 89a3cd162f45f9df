"""Changes of the log other than publishing: purge, delete, expiry. Each computes a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.jetstream import lifetimes
from core.jetstream.marks import mark_deleted, plan_marked_purge
from core.jetstream.opening import build_index
from core.model.api_errors import api_error
from core.stream.index import LogIndex
from core.stream.plan import Columns, StreamPlan
from core.stream.planner import decide
from core.stream.ttl import PURGE
from core.subjects.subject import compile_filters

if TYPE_CHECKING:
    from core.jetstream.lifetimes import Foresight
    from core.jetstream.stream_runner import StreamRunner

# A removal of more rows than this is recorded and finished after the reply.
_AT_ONCE = 10_000
# Sequences are signed 64-bit numbers in storage: a purge may not leave too few of them to assign.
_HIGHEST = 2**62


async def plan_purge(
    runner: StreamRunner, pattern: bytes | None, seq: int, keep: int, now: int
) -> StreamPlan:
    """Plan a purge: of everything, below `seq`, all but the newest `keep`, by subject filter."""
    machine = runner.machine
    if PURGE in machine.marker_reasons and seq <= machine.last_seq + 1:
        below = seq or machine.last_seq + 1
        return await plan_marked_purge(runner, machine.unchanged(), pattern, below, keep, now)
    if pattern is None:
        return await _plan_purge_below(runner, seq, keep)
    rows = await _live_rows(runner, pattern, seq or machine.last_seq + 1)
    if keep:
        rows = rows[: max(len(rows) - keep, 0)]
    plan = machine.unchanged()
    for row in rows:
        machine.remove(plan, *row)
    if len(rows) <= _AT_ONCE:
        plan.erased = [row[0] for row in rows]
    else:
        plan.purge_filters = (pattern.decode(),)
        plan.purge_up_to = rows[-1][0]
    return plan


async def _plan_purge_below(runner: StreamRunner, seq: int, keep: int) -> StreamPlan:
    """Plan a purge that ignores subjects: the head row says it all, rows go in the background."""
    machine, reader = runner.machine, runner.shell.reader
    plan = machine.unchanged()
    if keep >= machine.msgs > 0 or (seq and seq <= machine.first_seq):
        return plan
    await runner.shell.janitor.finish(runner)
    if keep:
        seq = await reader.newest(runner.stream, runner.shelf, keep)
    everything = not seq or seq > machine.last_seq
    plan.purged_below = seq
    if everything:
        plan.purged_below = max(seq if seq < _HIGHEST else 0, machine.last_seq + 1)
    plan.first_seq = plan.purged_below
    if everything:
        # Below a sequence that is still to come: the stream goes on from there.
        plan.last_seq = plan.purged_below - 1
        plan.msgs = plan.nbytes = 0
        return plan
    plan.index, _ = await build_index(runner, machine.limit, seq)
    count, content, blocks = await reader.totals(runner.stream, runner.shelf, seq, machine.last_seq)
    plan.msgs = count
    plan.nbytes = machine.record_size.total(count, content, blocks)
    return plan


async def _live_rows(
    runner: StreamRunner, pattern: bytes | None, below: int
) -> list[tuple[int, bytes, int]]:
    """Return (sequence, subject, size) of live messages below a sequence, ascending."""
    machine = runner.machine
    match = compile_filters([pattern]) if pattern is not None else None
    literal = None
    if pattern is not None and b"*" not in pattern and b">" not in pattern:
        literal = pattern.decode()
        if not machine.index.count(pattern):
            return []
        known = machine.index.of_subject(pattern)
        if known is not None:
            return [(seq, pattern, size) for seq, size in known if seq < below]
    if not isinstance(machine.index, LogIndex):
        return _indexed_rows(runner, match, below)
    size = machine.record_size.of_row
    stored = await runner.shell.reader.sizes(
        runner.stream, runner.shelf, literal, machine.first_seq, below
    )
    return [
        (seq, subject, size(subject, data, hdr))
        for seq, subject, data, hdr in stored
        if runner.is_live(seq) and seq <= machine.last_seq and (match is None or match(subject))
    ]


def _indexed_rows(
    runner: StreamRunner, match: Callable[[bytes], bool] | None, below: int
) -> list[tuple[int, bytes, int]]:
    """The same from an index that knows every message."""
    index = runner.machine.index
    subjects = [s for s, _, _ in index.items() if match is None or match(s)]
    rows = (
        (seq, subject, size)
        for subject in subjects
        for seq, size in index.of_subject(subject) or ()
    )
    return sorted(row for row in rows if row[0] < below)


async def plan_delete(runner: StreamRunner, seq: int, now: int) -> StreamPlan:
    """Plan the removal of one message; its row goes in the same transaction.

    Raises ApiError as the reference server does: JSSequenceNotFound for a sequence between others
    that is gone and for any of memory storage, else JSStreamMsgDeleteFailed.
    """
    machine = runner.machine
    if seq > machine.last_seq and machine.on_file:
        raise api_error("JSStreamMsgDeleteFailed", err="stream store EOF")
    found = await runner.get(seq)
    if found is None:
        first = await runner.first_message()
        if machine.on_file and (first is None or seq < machine.first_seq):
            raise api_error("JSStreamMsgDeleteFailed", err="no message found")
        raise api_error("JSSequenceNotFound", seq=seq)
    _, _, subject, headers, payload = found
    plan = machine.unchanged()
    machine.remove(plan, seq, subject, machine.record_size.of(subject, headers, len(payload)))
    plan.erased = [seq]
    if seq == machine.first_seq:
        plan.first_seq = seq + 1
    index = machine.index
    knows_all = index.of_subject(subject) is not None
    if not knows_all and index.last(subject) == seq and index.count(subject) > 1:
        plan.last_seqs = [(subject, await _last_before(runner, subject.decode(), seq))]
    await mark_deleted(runner, plan, subject, headers, now)
    return plan


async def _last_before(runner: StreamRunner, subject: str, seq: int) -> int:
    """Return the last live sequence of a subject below `seq` (0: none)."""
    while seq:
        seq = await runner.shell.reader.last_before(runner.stream, runner.shelf, subject, seq)
        if runner.is_live(seq):
            break
    return seq


async def plan_expiry(runner: StreamRunner, foreseen: Foresight, now: int) -> StreamPlan:
    """Plan the removal of what time or a tighter limit asks for, a slice of it.

    Args:
        runner: The stream.
        foreseen: What `lifetimes.foresee` found.
        now: Wall-clock time in nanoseconds.
    """
    machine, empty, wanted = runner.machine, Columns(), len(runner.machine.oldest) + 1
    # A page of rows that only wait for the janitor says nothing of what is behind it.
    while len(machine.oldest) < wanted and machine.lacks_oldest(empty, now):
        await runner.load_oldest()
    plan = decide(machine, empty, now)
    if machine.expiry is not None and not plan.removed:
        await lifetimes.plan_due(runner, plan, foreseen, now)
    return plan
