"""Another configuration of a stream: recorded in its turn where it bears on what is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from core.jetstream.log.loading import build_index
from core.jetstream.stream import expiry
from core.stream.expiry import Expiry

if TYPE_CHECKING:
    from core.jetstream.changes import Submit
    from core.jetstream.log.stream_log import StreamLog
    from core.model.stream import StreamConfig
    from core.stream.plan import PlanBuilder

Save = Callable[[], Awaitable[None]]
"""Records a configuration in the stream directory."""


async def record(
    log: StreamLog, old: StreamConfig, new: StreamConfig, save: Save, submit: Submit
) -> None:
    """Have a configuration recorded, and the machine decide by it. Raises ApiError."""
    other_limit = max(old.max_msgs_per_subject, 0) != max(new.max_msgs_per_subject, 0)
    if other_limit or expiry.begin(old, new):
        await submit(lambda _now: _plan_new_limit(log, old, new, save))
    elif expiry.may_grow(old, new):
        await submit(lambda _now: _plan_longer_lives(log, new, save))
    else:
        await save()
        log.machine.configure(new)


async def _plan_new_limit(
    log: StreamLog, old: StreamConfig, new: StreamConfig, save: Save
) -> PlanBuilder:
    """Read the rows anew for another per-subject limit, or to know when they expire.

    Rows that the old limit removed leave storage before the new one is recorded, which could
    allow them again; nothing is published in between.
    """
    await log.deleted()
    limit = max(new.max_msgs_per_subject, 0)
    queues = Expiry(new.max_age) if expiry.begin(old, new) else None
    index, superseded = await build_index(log, limit, expiry=queues)
    await save()
    plan = log.machine.unchanged(log.first_seq)
    plan.config, plan.index, plan.expiry = new, index, queues
    for row in superseded:
        log.machine.remove(plan, *row)
    plan.replaced = [row[0] for row in superseded]
    return plan


async def _plan_longer_lives(log: StreamLog, new: StreamConfig, save: Save) -> PlanBuilder:
    """Let what has expired leave storage before a configuration that would have kept it."""
    await log.deleted()
    await save()
    plan = log.machine.unchanged(log.first_seq)
    plan.config = new
    return plan
