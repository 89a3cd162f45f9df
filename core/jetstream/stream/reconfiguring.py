"""Updating the configuration of a stream: as a change in its turn if it affects stored messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from core.jetstream.log.loading import build_index
from core.jetstream.stream import expiry
from core.rules.stream.state.expiry import Expiry

if TYPE_CHECKING:
    from core.jetstream.changes import Submit
    from core.jetstream.log.stream_log import StreamLog
    from core.model.stream import StreamConfig
    from core.rules.stream.plan import PlanBuilder

Save = Callable[[], Awaitable[None]]
"""Writes a configuration to the stream directory."""


async def record(
    log: StreamLog, old: StreamConfig, new: StreamConfig, save: Save, submit: Submit
) -> None:
    """Store a configuration with `save`, and apply it to the machine. Raises ApiError."""
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
    """Rebuild the index for a new per-subject limit, or the expiry queues, from the rows.

    Rows that the old limit removed are deleted before the new one, which might allow them, is
    stored. No publish is decided in between. Raises ApiError and Unavailable.
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
    """Delete expired rows before storing a configuration that would keep them.

    Raises ApiError and Unavailable.
    """
    await log.deleted()
    await save()
    plan = log.machine.unchanged(log.first_seq)
    plan.config = new
    return plan
