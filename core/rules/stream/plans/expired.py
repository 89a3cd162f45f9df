"""Deciding the removal of expired messages of a stream with TTLs (ADR-43, ADR-48).

If the stream is configured for delete markers, a subject that loses its last message gets one. It
gets none if that message was a delete marker, or the purge of a key, itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.protocol.messages import MessageColumns
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import PlanBuilder
from core.rules.stream.state.expiry import Due, Row
from core.rules.stream.state.subject_index import LogIndex
from core.rules.stream.ttl import MAX_AGE, is_marker, marker_block


@dataclass(slots=True)
class Expired:
    """Messages that have expired, and the subjects that need more work after their removal.

    Attributes:
        due: The expired messages as entries of the stream's expiry queues.
        rows: The messages to remove, in order of sequence.
        marked: Subjects that get a delete marker, in the order of their last messages.
        orphaned: Subjects that lose their newest message and keep others, so that a new last
            sequence has to be read (only if the subject index has no other messages).
    """

    due: Due
    rows: list[Row]
    marked: list[bytes]
    orphaned: list[bytes]


def find_expired(machine: StreamMachine, now: int, limit: int) -> Expired | None:
    """Return the messages that are expired at `now`, at most `limit` (None: there are none).

    `now` is in nanoseconds since the Unix epoch.
    """
    if machine.expiry is None:
        return None
    due = machine.expiry.due(now, limit)
    rows = due.rows
    if not rows:
        return None
    expired = Expired(due, rows, [], [])
    index = machine.index
    is_log = isinstance(index, LogIndex)
    if not is_log and not machine.marker_ttl:
        return expired
    subjects = [row[1] for row in rows]
    newest = dict(zip(subjects, [row[0] for row in rows], strict=True))
    if isinstance(index, LogIndex) and len(newest) == len(rows) and not machine.marker_ttl:
        # The common case: subjects with a single message need no new last message.
        shared = index.shared(subjects)
        expired.orphaned = [s for s in shared if index.last(s) == newest[s]]
        return expired
    counts = Counter(subjects)
    left = {subject: index.count(subject) - counts[subject] for subject in newest}
    if is_log:
        expired.orphaned = [s for s, n in left.items() if n and index.last(s) == newest[s]]
    if machine.marker_ttl:
        markers = due.markers
        marked = [s for s, n in left.items() if not n and newest[s] not in markers]
        expired.marked = sorted(marked, key=newest.__getitem__)
    if expired.marked and (machine.config.sealed or machine.counts):
        # No marker can be written into this stream, so messages that need one stay.
        staying = {newest[subject] for subject in expired.marked}
        expired.rows = [row for row in rows if row[0] not in staying]
        expired.marked = []
        if not expired.rows:
            machine.expiry.remove_due(due)
            return None
    return expired


def plan_expired(
    machine: StreamMachine,
    plan: PlanBuilder,
    expired: Expired,
    last_seqs: Mapping[bytes, int],
    now: int,
    no_interest: frozenset[bytes],
) -> None:
    """Add the removal of expired messages, and delete markers, to a plan.

    Args:
        machine: The state of the stream.
        plan: The plan.
        expired: The messages to remove.
        last_seqs: The new last sequence of each orphaned subject.
        now: Wall-clock time in nanoseconds since the Unix epoch.
        no_interest: Those of the marked subjects whose messages are not stored, because no consumer
            matches them.
    """
    rows = expired.rows
    plan.due = expired.due
    plan.expired = len(rows)
    plan.removed = rows.copy()
    plan.msgs -= len(rows)
    plan.nbytes -= sum([row[2] for row in rows])
    plan.last_seqs = [(subject, last_seqs[subject]) for subject in expired.orphaned]
    add_markers(machine, plan, expired.marked, MAX_AGE, now, no_interest)


def add_markers(
    machine: StreamMachine,
    plan: PlanBuilder,
    subjects: list[bytes],
    reason: bytes,
    now: int,
    no_interest: frozenset[bytes],
) -> None:
    """Add delete markers to a plan that removes the last messages of subjects.

    Args:
        machine: The state of the stream.
        plan: The plan.
        subjects: The subjects that get a marker.
        reason: The reason in its header, such as `MaxAge`.
        now: Wall-clock time in nanoseconds since the Unix epoch.
        no_interest: Subjects whose messages are not stored, because no consumer matches them.
    """
    if not subjects:
        return
    block = marker_block(reason, machine.marker_ttl)
    plan.last_msg_id = b""
    n = len(subjects)
    machine.store(plan, subjects, [block] * n, [b""] * n, now, no_interest=no_interest)
    machine.evict(plan, now)


def markers_of(machine: StreamMachine, subjects: list[bytes], reason: bytes) -> MessageColumns:
    """Return delete markers in the form of publishes, to read the data that storing them needs."""
    columns = MessageColumns()
    columns.subjects = subjects
    columns.headers = [marker_block(reason, machine.marker_ttl)] * len(subjects)
    columns.replies = columns.payloads = [b""] * len(subjects)
    columns.has_headers = bool(subjects)
    columns.count_bytes()
    return columns


def emptied(machine: StreamMachine, rows: Iterable[tuple[Row, bytes]]) -> list[bytes]:
    """Return the subjects that lose their last message, unless it is a delete marker.

    The subjects are in the order of their last messages.

    Args:
        machine: The state of the stream.
        rows: Tuples ((sequence, subject, size), header block) of removed messages, ascending.
    """
    counts: Counter[bytes] = Counter()
    newest: dict[bytes, bytes] = {}
    for (_, subject, _), block in rows:
        counts[subject] += 1
        newest.pop(subject, None)
        newest[subject] = block
    count = machine.index.count
    return [s for s, block in newest.items() if count(s) == counts[s] and not is_marker(block)]
