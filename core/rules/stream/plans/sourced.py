"""Deciding how a mirror, or a stream with sources, stores messages of other streams (origins).

A sourced message has no publisher, so no client receives an error. If the stream cannot store a
message now (a limit is reached, larger than `max_msg_size`), the batch ends there, and the rest is
requested from the origin again later. A message that the stream can never store is left out, so
that it does not block later ones. Expected sequences are not checked. Roll-ups and message ids
apply only if the configuration of the stream allows them.

A mirror keeps the sequences and times of the origin; missing sequences are gaps. A source assigns
new sequences. Its position in the origin is stored in the same transaction, so neither a crash nor
the removal of stored messages makes it store a message twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.api_errors import err_code
from core.protocol.messages import MessageColumns
from core.rules.stream import headers as h
from core.rules.stream.plan import PlanBuilder, Position
from core.rules.stream.plans.checks import SOURCED, is_record_too_large
from core.rules.stream.plans.planner import Planner

if TYPE_CHECKING:
    from core.rules.stream.machine import StreamMachine
    from core.rules.stream.preconditions import Preconditions


@dataclass(slots=True)
class SourcedBatch:
    """A batch of consecutive messages of one origin (the stream that a mirror or source copies).

    Attributes:
        key: Name of the source within its stream.
        identity: Id of the origin, which differs after it was deleted and created again.
        through: Last sequence of the origin that this batch covers, including sequences that the
            origin no longer has.
        seqs: Sequences in the origin, ascending.
        times: Times in the origin, in nanoseconds since the Unix epoch.
        columns: The messages.
    """

    key: str
    identity: str
    through: int
    seqs: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    columns: MessageColumns = field(default_factory=MessageColumns)

    def __len__(self) -> int:
        return len(self.seqs)

    def after(self, seq: int) -> SourcedBatch:
        """Return the messages of the batch above sequence `seq`; the result covers `seq` too."""
        skip = bisect_right(self.seqs, seq)
        if not skip and self.through >= seq:
            return self
        rest = self.part(skip, len(self.seqs))
        rest.through = max(rest.through, seq)  # the position never moves backwards
        return rest

    def part(self, start: int, stop: int) -> SourcedBatch:
        """Return the messages with indices from `start` up to `stop`, excluded.

        Unless the part ends with the batch, it covers sequences only up to its last message.
        """
        through = self.through
        if stop < len(self.seqs):
            through = self.seqs[stop - 1] if stop else 0
        seqs, times = self.seqs[start:stop], self.times[start:stop]
        columns = self.columns.part(start, stop)
        return SourcedBatch(self.key, self.identity, through, seqs, times, columns)

    def extend(self, more: SourcedBatch) -> None:
        """Append the next batch of the same origin to this one."""
        self.through = more.through
        self.seqs += more.seqs
        self.times += more.times
        self.columns.extend(more.columns)


_HEADER_TOO_LARGE = err_code("JSStreamHeaderExceedsMaximum")
# Errors that neither free space nor a change of the configuration resolves.
_NEVER = frozenset(
    map(
        err_code,
        (
            "JSBadRequest",
            "JSStreamHeaderExceedsMaximum",
            "JSMessageIncrMissing",
            "JSMessageIncrPayload",
            "JSMessageIncrInvalid",
        ),
    )
)


@dataclass(slots=True)
class SourcedPlan:
    """The plan that stores sourced messages, and the part of each batch that it stores.

    Attributes:
        plan: The plan.
        batches: The batches, shortened to the part that the plan covers.
        stalled: The error that makes the rest of a batch wait, by index of the batch.
        left_out: The error of each message that is skipped, by index of its batch and sequence.
    """

    plan: PlanBuilder
    batches: list[SourcedBatch]
    stalled: dict[int, ApiError] = field(default_factory=dict)
    left_out: dict[tuple[int, int], ApiError] = field(default_factory=dict)


class _CannotStore(Exception):
    """Raised for a message that cannot be stored now; `place` is its index."""

    def __init__(self, place: int, error: ApiError) -> None:
        self.place = place
        self.error = error


def plan_sourced(
    machine: StreamMachine,
    batches: Sequence[SourcedBatch],
    now: int,
    preconditions: Preconditions,
    *,
    mirrors: bool,
    leaves_out: bool = True,
) -> SourcedPlan:
    """Decide the storing of batches, each up to the first message that cannot be stored now.

    Args:
        machine: The state of the stream.
        batches: At most one batch for each origin, without messages that are stored already. A
            mirror has one.
        now: Wall-clock time in nanoseconds since the Unix epoch.
        preconditions: Data that the decision needs beside that state, as for `planner.decide`.
        mirrors: Keep sequences and times of the origin.
        leaves_out: Skip messages that can never be stored; otherwise such a message ends its batch.
    """
    taken, stalled = list(batches), dict[int, ApiError]()
    while True:
        planner = _SourcedPlanner(machine, joined_columns(taken), now, preconditions)
        planner.leaves_out = leaves_out
        if mirrors and len(planner.columns):
            planner.stamps = _seqs(taken[0].seqs), taken[0].times
        try:
            plan = planner.decide()
        except _CannotStore as stop:
            place, start = _owner(taken, stop.place)
            stalled[place] = stop.error
            taken[place] = taken[place].part(0, stop.place - start)
        else:
            break
    if batches:
        # Without a message too: the position in its origin begins the stream.
        plan.first_seq = plan.first_seq or 1
    planned = SourcedPlan(plan, taken, stalled)
    for at, error in planner.left_out.items():
        place, start = _owner(taken, at)
        planned.left_out[place, taken[place].seqs[at - start]] = error
    if not mirrors:
        plan.positions = [
            Position(batch.key, batch.through, batch.identity) for batch in taken if batch.through
        ]
    elif planned.left_out:
        planned.plan = _with_gap(machine, plan, max(seq for _, seq in planned.left_out))
    return planned


def _with_gap(machine: StreamMachine, plan: PlanBuilder, through: int) -> PlanBuilder:
    """Return the plan of a mirror that skips messages; `through` is the last one skipped."""
    if not machine.msgs and plan.segment is None:
        return plan_skip(machine, through)
    if not machine.msgs and plan.segment is not None:
        plan.first_seq = max(plan.first_seq, plan.segment.seqs[0])
    plan.last_seq = max(plan.last_seq, through)
    return plan


def plan_skip(machine: StreamMachine, through: int) -> PlanBuilder:
    """Decide how a mirror skips sequences up to `through`, which its origin does not have."""
    plan = machine.unchanged()
    if machine.msgs:
        plan.last_seq = through
        return plan
    plan.purged_below = plan.first_seq = through + 1
    plan.last_seq = through
    return plan


def joined_columns(batches: Sequence[SourcedBatch]) -> MessageColumns:
    """Return the messages of all batches in one set of columns."""
    if len(batches) == 1:
        return batches[0].columns
    columns = MessageColumns()
    for batch in batches:
        columns.extend(batch.columns)
    return columns


def _owner(batches: Sequence[SourcedBatch], place: int) -> tuple[int, int]:
    """Return (index of the batch that has message `place`, index of the batch's first message).

    Indices of messages count over all batches.
    """
    start = 0
    for index, batch in enumerate(batches):
        if place < start + len(batch):
            return index, start
        start += len(batch)
    raise AssertionError("a message belongs to a batch")


def _seqs(seqs: list[int]) -> Sequence[int]:
    first, last = seqs[0], seqs[-1]
    return range(first, last + 1) if last - first + 1 == len(seqs) else seqs


class _SourcedPlanner(Planner):
    """A planner that raises `_CannotStore` at the first message that cannot be stored now.

    Attributes:
        left_out: The errors of messages that can never be stored, by their indices.
    """

    checks = SOURCED

    def __init__(
        self,
        machine: StreamMachine,
        columns: MessageColumns,
        now: int,
        preconditions: Preconditions,
    ) -> None:
        super().__init__(machine, columns, now, preconditions)
        self.left_out: dict[int, ApiError] = {}
        self.leaves_out = True

    def dedups(self) -> bool:
        return self.stamps is None and super().dedups()

    def store_whole(self) -> bool:
        """Add all messages of a batch to the plan unchanged, unless they need individual checks.

        Returns whether the messages were added.
        """
        machine, columns, config = self.machine, self.columns, self.machine.config
        looks = self.dedups() or config.allow_rollup_hdrs or config.allow_msg_ttl
        if looks or machine.counts or self.is_limited or not self.fits():
            return False
        plan, blocks = self.plan, columns.headers
        last = blocks[-1] if columns.has_headers else b""
        plan.last_msg_id = (h.find(last, h.MSG_ID) or b"") if last else b""
        stored = [block or None for block in blocks] if columns.has_headers else None
        machine.store(
            plan,
            columns.subjects,
            stored,
            columns.payloads,
            self.now,
            None,
            self.stamps,
            self.preconditions.no_interest,
        )
        return True

    def refuse(self, place: int, error: ApiError) -> None:
        is_never_taken = error.err_code in _NEVER or is_record_too_large(error)
        if self.draft.counting is not None and error.err_code == _HEADER_TOO_LARGE:
            is_never_taken = False  # The stored total has the headers; it may be deleted.
        if not self.leaves_out or not is_never_taken:
            raise _CannotStore(place, error)
        self.left_out[place] = error
        self.draft.refused[place] = b""

    def _store(self) -> None:
        if self.stamps is not None and self.left_out:
            kept = [i for i in range(len(self.columns)) if i not in self.left_out]
            seqs, times = self.stamps
            self.stamps = [seqs[i] for i in kept], [times[i] for i in kept]
        super()._store()

    def duplicate(self, place: int, seq: int) -> None:
        """Skip a duplicate: it counts as stored."""
        self.draft.refused[place] = b""
