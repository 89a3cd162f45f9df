"""Markers of subjects that lose their last message to somebody who removes it (ADR-43).

The reference server announces the reasons `Remove` and `Purge` and writes neither. Here a stream
asks for them in its metadata: `jetgate.markers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.facts import without_interest
from core.jetstream.lifetimes import advance, make_way
from core.stream.expired import add_markers, emptied
from core.stream.ttl import PURGE, REMOVE, is_marker
from core.subjects.subject import compile_filters

if TYPE_CHECKING:
    from core.jetstream.stream_runner import StreamRunner
    from core.stream.expiry import Row
    from core.stream.plan import StreamPlan

_PAGE = 100_000
# A removal of more rows than this is recorded and finished after the reply.
_AT_ONCE = 10_000


async def mark_deleted(
    runner: StreamRunner, plan: StreamPlan, subject: bytes, block: bytes, now: int
) -> None:
    """Add what a plan that deletes one message leaves on its subject, if anything."""
    machine = runner.machine
    if (
        REMOVE not in machine.marker_reasons
        or machine.index.count(subject) != 1
        or is_marker(block)
    ):
        return
    await make_way(runner, [subject], REMOVE, now)
    add_markers(machine, plan, [subject], REMOVE, now, without_interest(runner, [subject]))


async def plan_marked_purge(
    runner: StreamRunner, plan: StreamPlan, pattern: bytes | None, below: int, keep: int, now: int
) -> StreamPlan:
    """Purge as `commands.plan_purge` does, and mark the subjects that have nothing left.

    Args:
        runner: The stream.
        plan: A plan that changes nothing yet.
        pattern: What to purge (None: everything).
        below: Messages before this sequence go.
        keep: The newest of them that stay.
        now: Wall-clock time in nanoseconds.
    """
    machine = runner.machine
    found = await _rows(runner, pattern, below)
    if keep:
        found = found[: max(len(found) - keep, 0)]
    for row, _ in found:
        machine.remove(plan, *row)
    gone = {row[0] for row, _ in found}
    if len(found) <= _AT_ONCE:
        plan.erased = sorted(gone)
    else:
        plan.purge_filters = ((pattern or b">").decode(),)
        plan.purge_up_to = found[-1][0][0]
    advance(runner, plan, gone)
    subjects = emptied(machine, found)
    await make_way(runner, subjects, PURGE, now)
    add_markers(machine, plan, subjects, PURGE, now, without_interest(runner, subjects))
    return plan


async def _rows(runner: StreamRunner, pattern: bytes | None, below: int) -> list[tuple[Row, bytes]]:
    """Return the live messages that match, ascending, with the header blocks that matter."""
    machine = runner.machine
    match = compile_filters([pattern]) if pattern is not None else None
    size_of = machine.record_size.of_row
    found: list[tuple[Row, bytes]] = []
    for start in range(machine.first_seq, below, _PAGE):
        page = await runner.shell.reader.lifetimes(
            runner.stream, runner.shelf, start, min(start + _PAGE, below)
        )
        for seq, subject, data, hdr, _, block in page:
            if runner.is_live(seq) and (match is None or match(subject)):
                found.append(((seq, subject, size_of(subject, data, hdr)), block or b""))
    return found
