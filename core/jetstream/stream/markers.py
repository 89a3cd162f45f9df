"""Delete markers on subjects whose last message a client deletes or purges (ADR-43).

ADR-43 names the reasons `Remove` and `Purge`, but nats-server stores no markers for them. Here a
stream enables them with its metadata `jetgate.markers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.jetstream.stream.expiry import advance, make_room
from core.rules.stream.plans.expired import add_markers, emptied
from core.rules.stream.ttl import PURGE, REMOVE, is_marker
from core.subjects.subject import compile_reading

if TYPE_CHECKING:
    from core.jetstream.changes import WithoutInterest
    from core.jetstream.log.stream_log import StreamLog
    from core.rules.stream.plan import PlanBuilder
    from core.rules.stream.state.expiry import Row

_PAGE = 100_000
# A removal of more rows is recorded, and its rows are deleted after the reply.
_AT_ONCE = 10_000


async def mark_deleted(
    log: StreamLog,
    plan: PlanBuilder,
    subject: bytes,
    block: bytes,
    now: int,
    without_interest: WithoutInterest,
) -> None:
    """Add a delete marker to the plan of a delete, if it removes the last message of a subject.

    Does nothing if the stream has not enabled these markers, or the deleted message is itself a
    marker. `block` is the header block of the deleted message, `now` nanoseconds since the Unix
    epoch. Raises Unavailable if PostgreSQL does not answer.
    """
    machine = log.machine
    is_last = machine.index.count(subject) == 1
    if REMOVE not in machine.marker_reasons or not is_last or is_marker(block):
        return
    await make_room(log, [subject], REMOVE, now)
    add_markers(machine, plan, [subject], REMOVE, now, without_interest([subject]))


async def plan_marked_purge(
    log: StreamLog,
    plan: PlanBuilder,
    pattern: bytes | None,
    below: int,
    keep: int,
    now: int,
    without_interest: WithoutInterest,
) -> PlanBuilder:
    """Decide a purge with delete markers on the subjects that it empties; return the plan.

    Raises Unavailable if PostgreSQL does not answer.

    Args:
        log: The log of the stream.
        plan: An empty plan, to which the purge is added.
        pattern: The subject filter (None: all subjects).
        below: Messages below this sequence are purged.
        keep: Count of the newest of them that stay.
        now: Wall-clock time in nanoseconds since the Unix epoch.
        without_interest: Returns those of the markers' subjects whose messages are not stored,
            since no consumer matches them.
    """
    machine = log.machine
    found = await _rows(log, pattern, below)
    if keep:
        found = found[: max(len(found) - keep, 0)]
    for row, _ in found:
        machine.remove(plan, *row)
    gone = {row[0] for row, _ in found}
    if len(found) <= _AT_ONCE or (pattern is not None and machine.index.passes_over(pattern)):
        plan.erased = sorted(gone)
    else:
        plan.purge_filters = (pattern or b">",)
        plan.purge_up_to = found[-1][0][0]
    advance(log, plan, gone)
    subjects = emptied(machine, found)
    await make_room(log, subjects, PURGE, now)
    add_markers(machine, plan, subjects, PURGE, now, without_interest(subjects))
    return plan


async def _rows(log: StreamLog, pattern: bytes | None, below: int) -> list[tuple[Row, bytes]]:
    """Return (row, header block) of the matching messages below a sequence, ascending.

    A header block is empty unless it has a TTL or is that of a delete marker. Raises Unavailable if
    PostgreSQL does not answer.
    """
    machine = log.machine
    match = compile_reading([pattern]) if pattern is not None else None
    size_of = machine.record_size.of_row
    found: list[tuple[Row, bytes]] = []
    for start in range(machine.first_seq, below, _PAGE):
        page = await log.rows.expiry_rows(start, min(start + _PAGE, below))
        for seq, subject, data, hdr, _, block in page:
            if log.is_live(seq) and (match is None or match(subject)):
                found.append(((seq, subject, size_of(subject, data, hdr)), block or b""))
    return found
