"""Expiry of messages with a TTL: removing due messages, and delete markers (ADR-43).

A delete marker is a message without payload that is stored on a subject whose last message expired.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.jetstream.log.last_sequences import last_sequences
from core.rules.stream.plans.expired import Expired, find_expired, markers_of, plan_expired
from core.rules.stream.ttl import MAX_AGE

if TYPE_CHECKING:
    from core.jetstream.changes import WithoutInterest
    from core.jetstream.log.stream_log import StreamLog
    from core.model.stream import StreamConfig
    from core.rules.stream.plan import PlanBuilder

# Largest number of messages that expire in one transaction.
_AT_ONCE = 16_384


def begin(old: StreamConfig, new: StreamConfig) -> bool:
    """Return whether an update of the configuration makes stored messages expire one by one.

    That is so if the new configuration has `allow_msg_ttl`, and the old one had not, or had no
    `max_age` although the new one has.
    """
    by_age = new.max_age > 0 and old.max_age <= 0
    return new.allow_msg_ttl and (by_age or not old.allow_msg_ttl)


def may_grow(old: StreamConfig, new: StreamConfig) -> bool:
    """Return whether an update of `max_age` may prolong the life of messages with TTLs."""
    return old.allow_msg_ttl and 0 < old.max_age != new.max_age


@dataclass(slots=True)
class PlannedExpiry:
    """The messages found to be due, with the then last messages of their subjects.

    Attributes:
        version: `StreamMachine.version` at the search; if it differs later, search again.
        forgotten: `Removed.generation` at the search; if it differs later, `last_seqs` is not
            reliable.
        expired: The due messages; None: none.
        last_seqs: The last sequences of their subjects after the removal.
    """

    version: int
    forgotten: int
    expired: Expired | None
    last_seqs: dict[bytes, int]


async def find_due(log: StreamLog, now: int) -> PlannedExpiry:
    """Find due messages, and the last message of each subject that remains after them.

    Called before the change is queued: reads during its decision would delay the commits of all
    streams. `now` is in nanoseconds since the Unix epoch. Raises Unavailable if PostgreSQL does not
    answer.
    """
    machine = log.machine
    version, forgotten = machine.version, log.removed.generation
    expired = find_expired(machine, now, _AT_ONCE)
    last_seqs: dict[bytes, int] = {}
    if expired is not None and expired.orphaned:
        gone = {row[0] for row in expired.rows}
        last_seqs = await last_sequences(log, expired.orphaned, gone)
    return PlannedExpiry(version, forgotten, expired, last_seqs)


async def plan_due(
    log: StreamLog,
    plan: PlanBuilder,
    foreseen: PlannedExpiry,
    now: int,
    without_interest: WithoutInterest,
) -> None:
    """Add the removal of due messages, and their delete markers, to an empty plan.

    A plan (`StreamPlan`) is the effect of a change, which is then committed. `foreseen` is the
    result of `find_due`, `now` nanoseconds since the Unix epoch. Raises Unavailable if PostgreSQL
    does not answer.
    """
    machine = log.machine
    expired = foreseen.expired
    if foreseen.version != machine.version:
        expired = find_expired(machine, now, _AT_ONCE)
    if expired is None:
        return
    gone = {row[0] for row in expired.rows}
    known = foreseen.last_seqs if foreseen.forgotten == log.removed.generation else {}
    last_seqs = {
        subject: seq
        for subject in expired.orphaned
        if (seq := known.get(subject, 0)) and seq not in gone and log.is_live(seq)
    }
    unknown = [subject for subject in expired.orphaned if subject not in last_seqs]
    if unknown:
        last_seqs.update(await last_sequences(log, unknown, gone))
    await make_room(log, expired.marked, MAX_AGE, now)
    advance(log, plan, gone)
    unwanted = without_interest(expired.marked)
    plan_expired(machine, plan, expired, last_seqs, now, unwanted)


async def make_room(log: StreamLog, subjects: list[bytes], reason: bytes, now: int) -> None:
    """Load the oldest messages, which limits may evict when delete markers are stored.

    Raises Unavailable if PostgreSQL does not answer.

    Args:
        log: The log of the stream.
        subjects: The subjects of the markers.
        reason: The reason in the markers' header.
        now: Wall-clock time in nanoseconds since the Unix epoch.
    """
    if not subjects:
        return
    markers = markers_of(log.machine, subjects, reason)
    while log.machine.lacks_oldest(markers, now):
        await log.load_oldest()


def advance(log: StreamLog, plan: PlanBuilder, gone: set[int]) -> None:
    """Raise a plan's first sequence above the messages that the plan removes.

    A plan (`StreamPlan`) is the effect of a change, which is then committed. `gone` are the removed
    sequences.
    """
    if gone and len(gone) == log.machine.msgs:
        plan.first_seq = log.machine.last_seq + 1
    elif plan.first_seq in gone and (end := max(gone) + 1) - plan.first_seq == len(gone):
        plan.first_seq = end
    while plan.first_seq in gone or plan.first_seq in log.removed.hidden:
        plan.first_seq += 1
