"""Messages that have a time to live: removing them when it is over, marking what they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.jetstream.log.last_sequences import last_sequences
from core.stream.expired import Expired, find_expired, markers_of, plan_expired
from core.stream.ttl import MAX_AGE

if TYPE_CHECKING:
    from core.jetstream.changes import WithoutInterest
    from core.jetstream.log.stream_log import StreamLog
    from core.model.stream import StreamConfig
    from core.stream.plan import PlanBuilder

# Messages that leave with one plan: some milliseconds of the event loop, three times.
_AT_ONCE = 16_384


def begin(old: StreamConfig, new: StreamConfig) -> bool:
    """Whether messages that are stored already come to expire one by one with an update."""
    by_age = new.max_age > 0 and old.max_age <= 0
    return new.allow_msg_ttl and (by_age or not old.allow_msg_ttl)


def may_grow(old: StreamConfig, new: StreamConfig) -> bool:
    """Whether an update lets messages live longer that expire one by one."""
    return old.allow_msg_ttl and 0 < old.max_age != new.max_age


@dataclass(slots=True)
class Foresight:
    """What is due and what will be the last messages of subjects, as of one state of the stream.

    `forgotten` tells whether the stream still knows which of them died since.
    """

    version: int
    forgotten: int
    expired: Expired | None
    last_seqs: dict[bytes, int]


async def foresee(log: StreamLog, now: int) -> Foresight:
    """Find what is due, and the messages that will be the last of their subjects after it.

    This asks storage before the stream has its turn in the lane, which would hold up all others.
    Raises Unavailable.
    """
    machine = log.machine
    version, forgotten = machine.version, log.removed.generation
    expired = find_expired(machine, now, _AT_ONCE)
    last_seqs: dict[bytes, int] = {}
    if expired is not None and expired.orphaned:
        gone = {row[0] for row in expired.rows}
        last_seqs = await last_sequences(log, expired.orphaned, gone)
    return Foresight(version, forgotten, expired, last_seqs)


async def plan_due(
    log: StreamLog,
    plan: PlanBuilder,
    foreseen: Foresight,
    now: int,
    without_interest: WithoutInterest,
) -> None:
    """Let messages whose time has come leave with a plan that changes nothing yet.

    Raises Unavailable.
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
    await make_way(log, expired.marked, MAX_AGE, now)
    advance(log, plan, gone)
    unwanted = without_interest(expired.marked)
    plan_expired(machine, plan, expired, last_seqs, now, unwanted)


async def make_way(log: StreamLog, subjects: list[bytes], reason: bytes, now: int) -> None:
    """Read the oldest messages that markers on some subjects may make leave."""
    if not subjects:
        return
    markers = markers_of(log.machine, subjects, reason)
    while log.machine.lacks_oldest(markers, now):
        await log.load_oldest()


def advance(log: StreamLog, plan: PlanBuilder, gone: set[int]) -> None:
    """Move the first sequence of a plan past what it removes."""
    if gone and len(gone) == log.machine.msgs:
        plan.first_seq = log.machine.last_seq + 1
    elif plan.first_seq in gone and (end := max(gone) + 1) - plan.first_seq == len(gone):
        plan.first_seq = end
    while plan.first_seq in gone or plan.first_seq in log.removed.hidden:
        plan.first_seq += 1
