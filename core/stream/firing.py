"""The plan of what schedules send when they come due (ADR-51).

An output is checked like a message that was sourced: what only clients may not say, it may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.protocol.messages import MessageColumns
from core.stream.checks import SCHEDULED
from core.stream.headers import SCHEDULE_TARGET, find
from core.stream.planner import Planner
from core.stream.schedule_headers import output_block
from core.stream.schedules import NEVER, Pending

if TYPE_CHECKING:
    from core.stream.facts import Facts
    from core.stream.machine import StreamMachine
    from core.stream.plan import PlanBuilder
    from core.stream.schedule import Schedule

RETRY = 60 * 1_000_000_000
"""Nanoseconds after which what the stream could not take is sent again, if it is sent once."""


@dataclass(slots=True)
class Firing:
    """A schedule that is due, and what it sends.

    Args:
        pending: Which.
        schedule: The same, read.
        block: The header block of its message.
        body: The payload of its message.
        source: The sequence of the message that it copies (0: its own).
        content: The header block of that message.
        payload: The payload of that message.
    """

    pending: Pending
    schedule: Schedule
    block: bytes
    body: bytes
    source: int = 0
    content: bytes = b""
    payload: bytes = b""

    def copy(self, source: int, content: bytes, payload: bytes) -> None:
        """Take the message that it copies."""
        self.source, self.content, self.payload = source, content, payload

    def following(self, now: int) -> Pending | None:
        """Return when it comes due again (None: it does not, or no more)."""
        if not self.schedule.repeats:
            return None
        due = self.schedule.following(self.pending.due, now)
        return None if due is None else Pending(self.pending.subject, self.pending.seq, due)

    def is_over(self, now: int) -> bool:
        """Whether a schedule that repeats has no further time, which ends it without output."""
        return self.schedule.repeats and self.following(now) is None


class _OutputPlanner(Planner):
    checks = SCHEDULED

    def limit(self) -> None:
        """Only the node may have no room for an output."""
        self.limit_storage()

    def counting(self) -> None:
        """A stream with schedules has no counters."""

    def store_whole(self) -> bool:
        return False


def outputs(firings: list[Firing], now: int) -> MessageColumns:
    """Return what is sent, as if it had been published."""
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
    machine: StreamMachine, firings: list[Firing], columns: MessageColumns, now: int, facts: Facts
) -> tuple[PlanBuilder, list[bytes]]:
    """Return the plan that sends what is due, and why outputs are left out.

    Args:
        machine: The stream.
        firings: What is due.
        columns: Its `outputs`, under their final subjects.
        now: Wall-clock time in nanoseconds.
        facts: As for `planner.decide`.
    """
    planner = _OutputPlanner(machine, columns, now, facts)
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
