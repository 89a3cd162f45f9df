"""Deciding how rows of a transaction are stored: checked like publishes, and kept in order.

A row that the stream refuses ends the chunk (rows of one commit): the rows before it are stored,
and none after it. A row whose message id is known counts as stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.transaction_errors import transaction_error
from core.rules.stream import headers as h
from core.rules.stream.plans.checks import PUBLISHED, Checks
from core.rules.stream.plans.planner import Planner

if TYPE_CHECKING:
    from core.protocol.messages import MessageColumns
    from core.rules.stream.machine import StreamMachine
    from core.rules.stream.plan import PlanBuilder
    from core.rules.stream.plans.draft import Draft, Message
    from core.rules.stream.preconditions import Preconditions


# An expected last message holds at one moment only, and the rows of a batch are stored at another,
# even after a crash. A transaction is never part of an atomic batch.
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

TRANSACTION_ROWS = Checks(
    form=PUBLISHED.form,
    headers=(_supported, *PUBLISHED.headers),
    stored=PUBLISHED.stored,
    lone={header: checks for header, checks in PUBLISHED.lone.items() if header in _LONE},
)
"""The checks of one row of a transaction."""


@dataclass(slots=True)
class RowsPlan:
    """The plan that stores rows of a transaction, up to the first one that is refused.

    Attributes:
        plan: The plan.
        rows: Number of rows that it covers.
        duplicates: Number of these rows that were stored before.
        error: The error of the next row (None: all rows are covered).
    """

    plan: PlanBuilder
    rows: int
    duplicates: int
    error: ApiError | None = None


def plan_rows(
    machine: StreamMachine, columns: MessageColumns, now: int, preconditions: Preconditions
) -> RowsPlan:
    """Decide the storing of rows of a transaction, up to the first one that is refused.

    Args:
        machine: The state of the stream; it is not changed.
        columns: The rows, in order, without reply subjects.
        now: Wall-clock time in nanoseconds since the Unix epoch.
        preconditions: Data that the decision needs beside that state, as for `planner.decide`.
    """
    error: ApiError | None = None
    while True:
        planner = _RowPlanner(machine, columns, now, preconditions)
        try:
            plan = planner.decide() if len(columns) else machine.unchanged()
        except _Refused as refused:
            error = refused.error
            columns = columns.part(0, refused.place)
        else:
            return RowsPlan(plan, len(columns), planner.duplicates, error)


class _Refused(Exception):
    """Raised for a row that is refused; `place` is its index."""

    def __init__(self, place: int, error: ApiError) -> None:
        self.place = place
        self.error = error


class _RowPlanner(Planner):
    """A planner that raises `_Refused` at the first row that is refused."""

    checks = TRANSACTION_ROWS

    def __init__(
        self,
        machine: StreamMachine,
        columns: MessageColumns,
        now: int,
        preconditions: Preconditions,
    ) -> None:
        super().__init__(machine, columns, now, preconditions)
        self.duplicates = 0

    def refuse(self, place: int, error: ApiError) -> None:
        raise _Refused(place, error)

    def duplicate(self, place: int, seq: int) -> None:
        self.duplicates += 1
        self.draft.refused[place] = b""

    def answer(self) -> None:
        """Add no answers to the plan: rows have no reply subjects."""
