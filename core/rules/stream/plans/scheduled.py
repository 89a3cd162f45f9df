"""Deciding the messages that due schedules publish (ADR-51).

Such a message is checked like a sourced message: headers that clients may not set are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.protocol.messages import MessageColumns
from core.rules.stream.headers import SCHEDULE_TARGET, find
from core.rules.stream.plans.checks import SCHEDULED
from core.rules.stream.plans.planner import Planner
from core.rules.stream.schedules.pending import NEVER, Pending
from core.rules.stream.schedules.schedule_headers import output_block
from core.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from core.rules.stream.machine import StreamMachine
    from core.rules.stream.plan import PlanBuilder
    from core.rules.stream.preconditions import Preconditions
    from core.rules.stream.schedules.schedule import Schedule

RETRY = 60 * NANOS_PER_SECOND
"""Nanoseconds after which a schedule that fires once retries a message that was refused."""


@dataclass(slots=True)
class Firing:
    """A due schedule, and the message that it publishes.

    Attributes:
        pending: The schedule's subject, sequence and due time.
        schedule: The parsed schedule.
        block: The header block of the schedule's own message.
        body: The payload of the schedule's own message.
        source: The sequence of the message that is copied (0: the schedule's own message).
        content: The header block of the message that is copied.
        payload: The payload of the message that is copied.
    """

    pending: Pending
    schedule: Schedule
    block: bytes
    body: bytes
    source: int = 0
    content: bytes = b""
    payload: bytes = b""

    def copy(self, source: int, content: bytes, payload: bytes) -> None:
        """Set the message that is copied: its sequence, header block and payload."""
        self.source, self.content, self.payload = source, content, payload

    def following(self, now: int) -> Pending | None:
        """Return the schedule with its next due time, after that of this firing.

        Due times before `now` (nanoseconds since the Unix epoch) are skipped. None: the schedule
        does not fire again.
        """
        if not self.schedule.repeats:
            return None
        due = self.schedule.following(self.pending.due, now)
        return None if due is None else Pending(self.pending.subject, self.pending.seq, due)

    def is_over(self, now: int) -> bool:
        """Return whether the schedule repeats but has no further due time after `now`.

        It then ends without a message. `now` is in nanoseconds since the Unix epoch.
        """
        return self.schedule.repeats and self.following(now) is None


class _OutputPlanner(Planner):
    checks = SCHEDULED

    def limit(self) -> None:
        """Check only the node's limit on stored bytes."""
        self.limit_storage()

    def counting(self) -> None:
        """Return None: a stream with message schedules has no counters (ADR-49)."""

    def store_whole(self) -> bool:
        return False


def outputs(firings: list[Firing], now: int) -> MessageColumns:
    """Return the messages that due schedules publish, as columns like those of client publishes.

    `now` is in nanoseconds since the Unix epoch.
    """
    columns = MessageColumns()
    for firing in firings:
        following = firing.following(now)
        due = None if following is None else following.due
        place = firing.pending.subject
        columns.headers.append(
            output_block(firing.content, firing.schedule, place, firing.block, due)
        )
    columns.subjects = [find(firing.block, SCHEDULE_TARGET) or b"" for firing in firings]
    columns.payloads = [firing.payload for firing in firings]
    columns.replies = [b""] * len(firings)
    columns.has_headers = True
    columns.count_bytes()
    return columns


def plan_firings(
    machine: StreamMachine,
    firings: list[Firing],
    columns: MessageColumns,
    now: int,
    preconditions: Preconditions,
) -> tuple[PlanBuilder, list[bytes]]:
    """Decide the firing of due schedules: their messages and next due times.

    Returns the plan, and the error texts of refused messages.

    Args:
        machine: The state of the stream.
        firings: The due schedules.
        columns: Their `outputs`, under their final subjects.
        now: Wall-clock time in nanoseconds since the Unix epoch.
        preconditions: Data that the decision needs beside that state, as for `planner.decide`.
    """
    planner = _OutputPlanner(machine, columns, now, preconditions)
    plan = planner.decide()
    refused = planner.draft.refused
    for place, firing in enumerate(firings):
        following = firing.following(now)
        if following is None and place in refused:
            pending = firing.pending
            following = Pending(pending.subject, pending.seq, min(now + RETRY, NEVER))
        if following is not None:
            plan.firings.append(following)
    return plan, list(refused.values())
