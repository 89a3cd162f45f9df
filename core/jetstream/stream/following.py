"""Consumers go on behind what was purged or rolled up, as far as their filters say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.stream.plan import StreamPlan

if TYPE_CHECKING:
    from core.jetstream.stream.runner import StreamRunner


def follow_rollups(runner: StreamRunner, plan: StreamPlan) -> None:
    """Let consumers take note of the roll-ups of a plan that was committed."""
    if not runner.consumers:
        return
    first = runner.first_known()
    for consumer in runner.consumers.values():
        for subject, left in plan.purges:
            if left:
                consumer.follow(subject, left, first)


async def follow_purge(runner: StreamRunner, pattern: bytes | None) -> None:
    """Let consumers take note of a purge that was committed, also of one that found nothing.

    Raises Unavailable.
    """
    if not runner.consumers:
        return
    wanted = pattern or b""
    # What is stored while this looks is still to be delivered.
    end = runner.machine.last_seq + 1
    found = await runner.next_by_subject(wanted, 0) if wanted else None
    left = found[0] if found is not None else end
    await runner.first_message()
    first = runner.first_known()
    for consumer in list(runner.consumers.values()):
        consumer.follow(wanted, left, first)
