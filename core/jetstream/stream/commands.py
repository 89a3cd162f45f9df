"""Deciding the removals of a stream that are no publishes: purge, delete of a message, expiry.

Each function returns a plan (`StreamPlan`): the exact rows and counts that the group committer then
commits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.jetstream.log.loading import build_index
from core.jetstream.stream.expiry import plan_due
from core.jetstream.stream.markers import mark_deleted, plan_marked_purge
from core.model.api_errors import api_error
from core.protocol.messages import MessageColumns
from core.rules.stream.plan import PlanBuilder
from core.rules.stream.plans.planner import decide
from core.rules.stream.state.subject_index import LogIndex
from core.rules.stream.ttl import PURGE
from core.subjects.subject import compile_reading

if TYPE_CHECKING:
    from core.jetstream.changes import WithoutInterest
    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.stream.expiry import PlannedExpiry

# A removal of more rows is recorded, and its rows are deleted after the reply.
_AT_ONCE = 10_000
# Sequences are signed 64-bit numbers in storage: a purge must leave enough of them to assign.
_HIGHEST = 2**62


async def plan_purge(
    log: StreamLog,
    pattern: bytes | None,
    seq: int,
    keep: int,
    now: int,
    without_interest: WithoutInterest,
) -> PlanBuilder:
    """Decide a purge: of all messages, below `seq`, all but the newest `keep`, by subject filter.

    Raises Unavailable if PostgreSQL does not answer.

    Args:
        log: The log of the stream.
        pattern: The subject filter (None: all subjects).
        seq: The lowest sequence to keep (0: no bound).
        keep: Count of newest messages to keep (0: none).
        now: Wall-clock time in nanoseconds since the Unix epoch.
        without_interest: Returns those of the given subjects whose messages are not stored, since
            no consumer matches them.
    """
    machine = log.machine
    if PURGE in machine.marker_reasons and seq <= machine.last_seq + 1:
        below = seq or machine.last_seq + 1
        plan = machine.unchanged(log.first_seq)
        return await plan_marked_purge(log, plan, pattern, below, keep, now, without_interest)
    if pattern is None:
        return await _plan_purge_below(log, seq, keep)
    rows = await _live_rows(log, pattern, seq or machine.last_seq + 1)
    if keep:
        rows = rows[: max(len(rows) - keep, 0)]
    plan = machine.unchanged(log.first_seq)
    for row in rows:
        machine.remove(plan, *row)
    if len(rows) <= _AT_ONCE or machine.index.passes_over(pattern):
        plan.erased = [row[0] for row in rows]
    else:
        plan.purge_filters = (pattern,)
        plan.purge_up_to = rows[-1][0]
    return plan


async def _plan_purge_below(log: StreamLog, seq: int, keep: int) -> PlanBuilder:
    """Decide a purge of all subjects. The head row records it, and the janitor deletes the rows.

    Raises Unavailable if PostgreSQL does not answer.
    """
    machine = log.machine
    plan = machine.unchanged(log.first_seq)
    if keep >= machine.msgs > 0 or (seq and seq <= log.first_seq):
        return plan
    await log.deleted()
    if keep:
        seq = await log.rows.newest(keep)
    everything = not seq or seq > machine.last_seq
    plan.purged_below = seq
    if everything:
        plan.purged_below = max(seq if seq < _HIGHEST else 0, machine.last_seq + 1)
    plan.first_seq = plan.purged_below
    if everything:
        # A purge below a future sequence: the stream continues with that sequence.
        plan.last_seq = plan.purged_below - 1
        plan.msgs = plan.nbytes = 0
        return plan
    plan.index, _ = await build_index(log, machine.limit, seq)
    count, content, blocks = await log.rows.totals(seq, machine.last_seq)
    plan.msgs = count
    plan.nbytes = machine.record_size.total(count, content, blocks)
    return plan


async def plan_purge_subjects(log: StreamLog, subjects: frozenset[bytes]) -> PlanBuilder:
    """Decide a purge of all messages of the given subjects; the janitor deletes the rows later.

    Raises Unavailable if PostgreSQL does not answer.
    """
    machine = log.machine
    plan = machine.unchanged(log.first_seq)
    for subject, rows in (await log.rows_of_all(subjects)).items():
        for seq, size in rows:
            machine.remove(plan, seq, subject, size)
    plan.removed.sort()
    if plan.removed:
        plan.purge_filters = tuple(subjects)
        plan.purge_up_to = plan.removed[-1][0]
    return plan


async def _live_rows(
    log: StreamLog, pattern: bytes | None, below: int
) -> list[tuple[int, bytes, int]]:
    """Return (sequence, subject, size in bytes) of matching messages below a sequence, ascending.

    Raises Unavailable if PostgreSQL does not answer.
    """
    machine = log.machine
    match = compile_reading([pattern]) if pattern is not None else None
    literal = None
    if pattern is not None and b"*" not in pattern and b">" not in pattern:
        literal = pattern
        if not machine.index.count(pattern):
            return []
        known = machine.index.of_subject(pattern)
        if known is not None:
            return [(seq, pattern, size) for seq, size in known if seq < below]
    if not isinstance(machine.index, LogIndex):
        return _indexed_rows(log, match, below)
    size = machine.record_size.of_row
    stored = await log.rows.sizes(literal, machine.first_seq, below)
    return [
        (seq, subject, size(subject, data, hdr))
        for seq, subject, data, hdr in stored
        if log.is_live(seq) and seq <= machine.last_seq and (match is None or match(subject))
    ]


def _indexed_rows(
    log: StreamLog, match: Callable[[bytes], bool] | None, below: int
) -> list[tuple[int, bytes, int]]:
    """Return the result of `_live_rows` from a subject index that contains every message."""
    index = log.machine.index
    subjects = [s for s, _, _ in index.items() if match is None or match(s)]
    rows = (
        (seq, subject, size)
        for subject in subjects
        for seq, size in index.of_subject(subject) or ()
    )
    return sorted(row for row in rows if row[0] < below)


async def plan_delete(
    log: StreamLog, seq: int, now: int, without_interest: WithoutInterest
) -> PlanBuilder:
    """Decide the removal of one message; its row is deleted in the same transaction.

    Raises ApiError as nats-server does: JSSequenceNotFound for a missing sequence between others,
    and for any missing one with memory storage; else JSStreamMsgDeleteFailed. Raises Unavailable if
    PostgreSQL does not answer.

    Args:
        log: The log of the stream.
        seq: The sequence of the message.
        now: Wall-clock time in nanoseconds since the Unix epoch.
        without_interest: Returns those of the given subjects that no consumer matches, so that a
            delete marker is not stored on them.
    """
    machine = log.machine
    if seq > machine.last_seq and machine.on_file:
        raise api_error("JSStreamMsgDeleteFailed", err="stream store EOF")
    found = await log.get(seq)
    if found is None:
        first = await log.first_message()
        if machine.on_file and (first is None or seq < log.first_seq):
            raise api_error("JSStreamMsgDeleteFailed", err="no message found")
        raise api_error("JSSequenceNotFound", seq=seq)
    _, _, subject, headers, payload = found
    plan = machine.unchanged(log.first_seq)
    machine.remove(plan, seq, subject, machine.record_size.of(subject, headers, len(payload)))
    plan.erased = [seq]
    if seq == log.first_seq:
        plan.first_seq = seq + 1
    index = machine.index
    knows_all = index.of_subject(subject) is not None
    if not knows_all and index.last(subject) == seq and index.count(subject) > 1:
        plan.last_seqs = [(subject, await _last_before(log, subject, seq))]
    await mark_deleted(log, plan, subject, headers, now, without_interest)
    return plan


async def _last_before(log: StreamLog, subject: bytes, seq: int) -> int:
    """Return the last sequence of a subject that is lower than `seq` and not removed (0: none).

    Raises Unavailable if PostgreSQL does not answer.
    """
    while seq:
        seq = await log.rows.last_before(subject, seq)
        if log.is_live(seq):
            break
    return seq


async def plan_expiry(
    log: StreamLog, foreseen: PlannedExpiry, now: int, without_interest: WithoutInterest
) -> PlanBuilder:
    """Decide the removal of some messages that are expired or exceed a limit.

    Messages that are left are removed by further calls. Raises Unavailable if PostgreSQL does not
    answer.

    Args:
        log: The log of the stream.
        foreseen: The result of `core.jetstream.stream.expiry.find_due`.
        now: Wall-clock time in nanoseconds since the Unix epoch.
        without_interest: Returns those of the delete markers' subjects whose messages are not
            stored, since no consumer matches them.
    """
    machine, empty, wanted = log.machine, MessageColumns(), len(log.machine.oldest) + 1
    # A page may consist of removed rows only, that wait for the janitor: read on.
    while len(machine.oldest) < wanted and machine.lacks_oldest(empty, now):
        await log.load_oldest()
    plan = decide(machine, empty, now)
    if machine.expiry is not None and not plan.removed:
        await plan_due(log, plan, foreseen, now, without_interest)
    return plan


def erase_superseded(log: StreamLog, plan: PlanBuilder) -> None:
    """Add the rows of messages removed earlier to a plan (effect of a change) that deletes rows.

    Otherwise the deletion of a subject's newest message would leave an older row in storage. A
    restart would read it as the newest, although a limit had removed it.
    """
    machine, rows = log.machine, log.removed.rows
    limited = machine.limit > 0
    if not rows or not (limited or machine.expiry is not None):
        return
    if plan.erased or plan.purge_filters:
        plan.erased += rows
        plan.ends_replaced = limited
    elif plan.purged_below and plan.index is None:
        plan.ends_replaced = limited
