"""Consumers go on behind what was purged or rolled up, as far as their filters say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.log.subjects import next_by_subject

if TYPE_CHECKING:
    from core.jetstream.consumer.consumers import Consumers
    from core.jetstream.log.stream_log import StreamLog
    from core.stream.plan import StreamPlan


def follow_rollups(log: StreamLog, consumers: Consumers, plan: StreamPlan) -> None:
    """Let consumers take note of the roll-ups of a plan that was committed."""
    if not consumers:
        return
    first = log.first_in_memory()
    for consumer in consumers.values():
        for subject, left in plan.purges:
            if left:
                consumer.follow(subject, left, first)


async def follow_purge(log: StreamLog, consumers: Consumers, pattern: bytes | None) -> None:
    """Let consumers take note of a purge that was committed, also of one that found nothing.

    Raises Unavailable.
    """
    if not consumers:
        return
    wanted = pattern or b""
    # What is stored while this looks is still to be delivered.
    end = log.machine.last_seq + 1
    found = await next_by_subject(log, wanted, 0) if wanted else None
    left = found[0] if found is not None else end
    await log.first_message()
    first = log.first_in_memory()
    for consumer in list(consumers.values()):
        consumer.follow(wanted, left, first)
