"""Storing an updated stream configuration.

An update that affects stored messages (limit per subject, TTLs) is committed like a purge, in order
with the stream's publishes. Others are only written to the stream directory.
"""

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
"""Writes the new configuration to the stream directory."""


async def record(
    log: StreamLog, old: StreamConfig, new: StreamConfig, save: Save, submit: Submit
) -> None:
    """Store a configuration with `save`, and apply it to the stream's state.

    Raises ApiError if the update is refused or storage is unavailable.
    """
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
    """Rebuild the subject index for a new limit per subject, or the expiry queues, from the rows.

    Rows that the old limit removed are deleted first, since the new limit might allow them. No
    publish is decided in between. Raises ApiError if the update is refused, Unavailable if
    PostgreSQL does not answer.
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
    """Delete the rows of expired messages, then store a configuration under which they would live.

    Raises ApiError if the update is refused, Unavailable if PostgreSQL does not answer.
    """
    await log.deleted()
    await save()
    plan = log.machine.unchanged(log.first_seq)
    plan.config = new
    return plan
