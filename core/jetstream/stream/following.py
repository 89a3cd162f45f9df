"""Moving the read positions of consumers past purged or rolled-up messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.log.subjects import next_by_subject

if TYPE_CHECKING:
    from core.jetstream.consumer.consumers import Consumers
    from core.jetstream.log.stream_log import StreamLog
    from core.rules.stream.plan import StreamPlan


def follow_rollups(log: StreamLog, consumers: Consumers, plan: StreamPlan) -> None:
    """Move the read positions of consumers past the messages that a commit rolled up."""
    if not consumers:
        return
    first = log.first_in_memory()
    for consumer in consumers.values():
        for subject, left in plan.purges:
            if left:
                consumer.follow(subject, left, first)


async def follow_purge(log: StreamLog, consumers: Consumers, pattern: bytes | None) -> None:
    """Move the read positions of consumers past a committed purge, even if it removed no message.

    `pattern` is the subject filter of the purge; None: all subjects. Raises Unavailable if
    PostgreSQL does not answer.
    """
    if not consumers:
        return
    wanted = pattern or b""
    # Messages stored during the search below are still to be delivered.
    end = log.machine.last_seq + 1
    found = await next_by_subject(log, wanted, 0) if wanted else None
    left = found[0] if found is not None else end
    await log.first_message()
    first = log.first_in_memory()
    for consumer in list(consumers.values()):
        consumer.follow(wanted, left, first)
