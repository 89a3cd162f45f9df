"""Storing the rows of a transaction: the same decision as for publishes, in order, or not at all.

A row that the stream refuses ends the chunk: what was before it is stored, and nothing after it. A
row whose message id is known counts as stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.transaction_errors import transaction_error
from core.stream import headers as h
from core.stream.checks import PUBLISHED, Checks
from core.stream.planner import Planner

if TYPE_CHECKING:
    from core.protocol.messages import MessageColumns
    from core.stream.draft import Draft, Message
    from core.stream.facts import Facts
    from core.stream.machine import StreamMachine
    from core.stream.plan import PlanBuilder


# What is said of the last message of a stream or subject is true of a moment: the rows of a batch
# are stored at another, after a crash too. A transaction is no part of an atomic batch.
_MOMENTARY = (
    h.EXPECTED_LAST_SEQ,
    h.EXPECTED_LAST_SUBJECT_SEQ,
    h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT,
    h.EXPECTED_LAST_MSG_ID,
    h.BATCH_ID,
    h.BATCH_SEQ,
    h.BATCH_COMMIT,
)


def _supported(_draft: Draft, message: Message) -> None:
    for header in _MOMENTARY:
        if message.found.get(header):
            raise transaction_error("Header", header=header.decode())


_LONE = frozenset((h.MSG_ID, h.INCREMENT, h.EXPECTED_STREAM, h.TTL, h.ROLLUP))

PROMOTED = Checks(
    form=PUBLISHED.form,
    headers=(_supported, *PUBLISHED.headers),
    stored=PUBLISHED.stored,
    lone={header: checks for header, checks in PUBLISHED.lone.items() if header in _LONE},
)
"""A row of a transaction."""


@dataclass(slots=True)
class Promoted:
    """A plan, how many rows it takes, how many of them are known, and why it takes no more."""

    plan: PlanBuilder
    rows: int
    duplicates: int
    error: ApiError | None = None


def plan_rows(machine: StreamMachine, columns: MessageColumns, now: int, facts: Facts) -> Promoted:
    """Return the plan that stores rows up to the first that is refused.

    Args:
        machine: The stream; it is not changed.
        columns: The rows, in order; nobody waits for a reply.
        now: Wall-clock time in nanoseconds.
        facts: As for `planner.decide`.
    """
    error: ApiError | None = None
    while True:
        planner = _RowPlanner(machine, columns, now, facts)
        try:
            plan = planner.decide() if len(columns) else machine.unchanged()
        except _Refused as refused:
            error = refused.error
            columns = columns.part(0, refused.place)
        else:
            return Promoted(plan, len(columns), planner.duplicates, error)


class _Refused(Exception):
    """A row is not taken."""

    def __init__(self, place: int, error: ApiError) -> None:
        self.place = place
        self.error = error


class _RowPlanner(Planner):
    """Raises `_Refused` at the first row that is not taken."""

    checks = PROMOTED

    def __init__(
        self, machine: StreamMachine, columns: MessageColumns, now: int, facts: Facts
    ) -> None:
        super().__init__(machine, columns, now, facts)
        self.duplicates = 0

    def refuse(self, place: int, error: ApiError) -> None:
        raise _Refused(place, error)

    def duplicate(self, place: int, seq: int) -> None:
        self.duplicates += 1
        self.draft.refused[place] = b""

    def answer(self) -> None:
        """Nobody waits for one."""
