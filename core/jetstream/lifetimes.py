"""Messages that have a time to live: removing them when it is over, marking what they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.lasts import find_lasts
from core.stream.expiring import departing, markers_of, plan_departure
from core.stream.ttl import MAX_AGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.jetstream.stream_runner import StreamRunner
    from core.model.stream import StreamConfig
    from core.stream.plan import StreamPlan

# Messages that leave with one plan: a few milliseconds of the event loop.
_AT_ONCE = 8192


def begin(old: StreamConfig, new: StreamConfig) -> bool:
    """Whether messages that are stored already come to expire one by one with an update."""
    by_age = new.max_age > 0 and old.max_age <= 0
    return new.allow_msg_ttl and (by_age or not old.allow_msg_ttl)


async def foresee(runner: StreamRunner) -> dict[bytes, int]:
    """Find the messages that will be the last of their subjects after those that are due.

    This asks storage before the stream has its turn in the lane, which would hold up all others.
    Raises Unavailable.
    """
    departure = departing(runner.machine, runner.shell.clock.now(), _AT_ONCE)
    if departure is None or not departure.orphaned:
        return {}
    gone = {seq for seq, _, _ in departure.rows}
    return await find_lasts(runner, departure.orphaned, gone)


async def plan_due(
    runner: StreamRunner, plan: StreamPlan, foreseen: Mapping[bytes, int], now: int
) -> None:
    """Let messages whose time has come leave with a plan that changes nothing yet.

    Raises Unavailable.
    """
    machine = runner.machine
    departure = departing(machine, now, _AT_ONCE)
    if departure is None:
        return
    gone = {seq for seq, _, _ in departure.rows}
    lasts = {
        subject: seq
        for subject in departure.orphaned
        if (seq := foreseen.get(subject, 0)) and seq not in gone and runner.is_live(seq)
    }
    unknown = [subject for subject in departure.orphaned if subject not in lasts]
    if unknown:
        lasts.update(await find_lasts(runner, unknown, gone))
    if departure.marked:
        markers = markers_of(machine, departure.marked, MAX_AGE)
        while machine.front_deficit(markers, now):
            await runner.load_front()
    if len(gone) == machine.msgs:
        plan.first_seq = machine.last_seq + 1
    while plan.first_seq in gone or plan.first_seq in runner.dead:
        plan.first_seq += 1
    plan_departure(machine, plan, departure, lasts, now)
