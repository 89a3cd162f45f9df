"""An in-memory substitute for PostgreSQL as the store of one stream, for tests only.

`tests/integration/test_stores.py` runs the same tests over this store and over PostgreSQL.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from core.errors import Fenced
from core.model.segment import Segment
from core.model.stream import StreamConfig
from core.rules.stream.headers import MSG_ID, SCHEDULE, SCHEDULER, STREAM_SOURCE, TTL, find
from core.rules.stream.plan import Position, StreamPlan
from core.rules.stream.transactions.ledger import LedgerEntry, LedgerWrite
from core.rules.stream.ttl import KV_OPERATION, MARKER_REASON, NEVER, ttl_of
from core.storage.interface import ConsumerRow, Head
from core.subjects.subject import matches
from core.units import NANOS_PER_SECOND

_OF_EXPIRY = (TTL, MARKER_REASON, KV_OPERATION)
"""Names of the headers that determine the expiry time of a message."""


@dataclass(slots=True, frozen=True)
class Row:
    """A stored message; `ts` is its time in nanoseconds since the Unix epoch."""

    ts: int
    subject: bytes
    headers: bytes | None
    payload: bytes


class MemoryStore:
    """The message rows of one stream in memory: a `LogReader`, `Sweeper` and `DirectoryStore`.

    `commit` writes; the other methods have the meaning that `core.storage.interface` describes.
    Of the `DirectoryStore` it has a counter of consumers only.

    Attributes:
        rows: Messages by sequence.
        head: The state of the stream (first and last sequence, counts) after the last commit.
        purges: Committed purges with a subject filter: filters, and the highest purged sequence.
        sources: Positions in the origins of mirrors and sources, by key.
        ledger: State of each transactional app, by name of the app.
    """

    def __init__(self, head: Head) -> None:
        self.rows: dict[int, Row] = {}
        self.head = head
        self.purges: list[tuple[tuple[bytes, ...], int]] = []
        self.sources: dict[str, Position] = {}
        self.ledger: dict[str, LedgerEntry] = {}
        self.firings: dict[bytes, tuple[int, int]] = {}
        """Sequence and next due time of the schedule of each subject."""
        self.consumers = 0
        self.removed_ids: dict[int, tuple[int, bytes]] = {}
        """Ids of messages without rows: time and id by sequence."""
        self.replaced_rows: dict[int, int] = {}
        """Sequences recorded as replaced, each with the number of its record."""

    def commit(self, plan: StreamPlan, ids_since: int | None = 0) -> None:
        """Apply a plan (the changes of one transaction to a stream) to the store.

        Keeps the message ids of deleted messages stored after `ids_since` (nanoseconds since the
        Unix epoch; None keeps none). Raises Fenced if the plan does not begin at the last sequence
        of `head`.
        """
        if plan.before != self.head.last_seq:
            raise Fenced("the plan does not follow the head")
        self._delete(plan.erased, ids_since)
        self.removed_ids |= {seq: (plan.last_ts, i) for i, seq in plan.unwritten_ids()}
        if plan.purge_filters:
            self.purges.append((plan.purge_filters, plan.purge_up_to))
        if plan.ends_replaced:
            self.replaced_rows.clear()
        self.replaced_rows |= dict.fromkeys(plan.replaced, plan.record)
        segment = plan.segment
        if segment is not None:
            headers = segment.headers or [None] * len(segment)
            columns = (segment.times, segment.subjects, headers, segment.payloads)
            new = dict(zip(segment.seqs, map(Row, *columns), strict=True))
            assert len(new) == len(segment), "columns of different lengths"
            assert not new.keys() & self.rows.keys(), "a sequence is written twice"
            self.rows |= new
        self.sources |= {position.key: position for position in plan.positions}
        self.firings |= {each.subject: (each.seq, each.due) for each in plan.firings}
        for write in plan.ledger:
            self._write_ledger(write)
        first = max(plan.first_seq, plan.purged_below)
        epoch = self.head.epoch
        self.head = Head(epoch, first, plan.last_seq, plan.last_ts, plan.msgs, plan.nbytes)

    def _write_ledger(self, write: LedgerWrite) -> None:
        """Apply a change of an app's transaction state, as the SQL statement for it does."""
        entry = write.entry
        if write.is_gone:
            del self.ledger[entry.app]
        elif not write.is_progress:
            self.ledger[entry.app] = entry
        else:
            stored, batch = self.ledger[entry.app], entry.batch
            assert stored.batch is not None
            assert batch is not None
            attempts = () if batch.is_done else stored.batch.attempts
            batch = replace(batch, number=stored.batch.number, attempts=attempts)
            self.ledger[entry.app] = replace(stored, batch=batch, changed=entry.changed)

    # -- results of SQL readers --------------------------------------------------------------

    def shown(self, config: StreamConfig, now: int) -> list[int]:
        """Return the sequences that the view `jetgate.log` shows at time `now`, by the same rule.

        These are the messages within `head` that are not replaced, purged or expired.
        """
        head = self.head
        return [
            seq
            for seq, row in sorted(self.rows.items())
            if head.first_seq <= seq <= head.last_seq
            and seq not in self.replaced_rows
            and not is_due(config, row.ts, row.headers, now)
            and not any(seq <= up_to and hit(f, row.subject) for f, up_to in self.purges)
        ]

    # -- reads -------------------------------------------------------------------------------

    def _between(self, first: int, last: int) -> list[tuple[int, Row]]:
        return [(seq, row) for seq, row in sorted(self.rows.items()) if first <= seq <= last]

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call `then` at once, because reads of this store do not take time."""
        then()

    async def range(self, stream: int, partition: int, seq: int, limit: int) -> Segment | None:
        return _segment(self._between(seq, 1 << 62)[:limit])

    async def points(self, stream: int, partition: int, seqs: Sequence[int]) -> Segment | None:
        return _segment([(seq, self.rows[seq]) for seq in sorted(seqs) if seq in self.rows])

    async def sizes_from(
        self, stream: int, partition: int, seq: int, limit: int
    ) -> list[tuple[int, bytes, int, int, int]]:
        return [
            (s, row.subject, len(row.payload), len(row.headers or b""), row.ts)
            for s, row in self._between(seq, 1 << 62)[:limit]
        ]

    async def subjects(
        self, stream: int, partition: int, first: int, last: int
    ) -> list[tuple[bytes, int, int]]:
        found: dict[bytes, tuple[int, int]] = {}
        for seq, row in self._between(first, last):
            found[row.subject] = (found.get(row.subject, (0, 0))[0] + 1, seq)
        return [(subject, count, last) for subject, (count, last) in found.items()]

    async def sizes(
        self, stream: int, partition: int, subject: bytes | None, first: int, below: int
    ) -> list[tuple[int, bytes, int, int]]:
        return [
            (seq, row.subject, len(row.payload), len(row.headers or b""))
            for seq, row in self._between(first, below - 1)
            if subject is None or row.subject == subject
        ]

    async def expiry_rows(
        self, stream: int, partition: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, int, int, bytes | None]]:
        return [
            (
                seq,
                row.subject,
                len(row.payload),
                len(row.headers or b""),
                row.ts,
                row.headers if any(name in (row.headers or b"") for name in _OF_EXPIRY) else None,
            )
            for seq, row in self._between(first, below - 1)
        ]

    async def recorded(self, stream: int) -> list[int]:
        return list(self.replaced_rows)

    async def last_before(self, stream: int, partition: int, subject: bytes, seq: int) -> int:
        rows = self._between(0, seq - 1)
        return max((s for s, row in rows if row.subject == subject), default=0)

    async def newest(self, stream: int, partition: int, count: int) -> int:
        seqs = sorted(self.rows)
        return seqs[-count] if len(seqs) >= count else 0

    async def totals(
        self, stream: int, partition: int, first: int, last: int
    ) -> tuple[int, int, int]:
        rows = [row for _, row in self._between(first, last)]
        nbytes = sum(len(r.subject) + len(r.payload) + len(r.headers or b"") for r in rows)
        return len(rows), nbytes, sum(1 for row in rows if row.headers)

    async def next_of(self, stream: int, partition: int, subject: bytes, seq: int) -> int:
        rows = self._between(seq, 1 << 62)
        return min((s for s, row in rows if row.subject == subject), default=0)

    async def names(
        self, stream: int, partition: int, first: int, last: int
    ) -> list[tuple[int, bytes]]:
        return [(seq, row.subject) for seq, row in self._between(first, last)]

    async def message_ids(
        self, stream: int, partition: int, since_ts: int, first: int, last: int
    ) -> list[tuple[int, int, bytes]]:
        rows = [
            (s, row.ts, find(row.headers or b"", MSG_ID)) for s, row in self._between(first, last)
        ]
        rows += [(s, *kept) for s, kept in self.removed_ids.items() if first <= s <= last]
        return sorted((seq, ts, msg_id) for seq, ts, msg_id in rows if msg_id and ts > since_ts)

    async def first_removed_id(self, stream: int, since_ts: int) -> int | None:
        return min((s for s, (ts, _) in self.removed_ids.items() if ts > since_ts), default=None)

    async def first_at(self, stream: int, partition: int, ts: int, first: int, last: int) -> int:
        return min((s for s, row in self._between(first, last) if row.ts >= ts), default=last + 1)

    async def positions(self, stream: int) -> list[Position]:
        return list(self.sources.values())

    async def schedules(
        self, stream: int, partition: int, first: int, below: int
    ) -> list[tuple[int, bytes, int, bytes]]:
        return [
            (seq, row.subject, row.ts, row.headers)
            for seq, row in self._between(first, below - 1)
            if row.headers and b"\r\n" + SCHEDULE + b":" in row.headers
        ]

    async def replaced(
        self, stream: int, partition: int, schedules: Sequence[tuple[bytes, int]]
    ) -> set[bytes]:
        own = b"\r\n" + SCHEDULER + b":"
        return {
            subject
            for subject, seq in schedules
            for _, row in self._between(seq + 1, 1 << 62)
            if row.subject == subject and own not in (row.headers or b"")
        }

    async def dues(self, stream: int) -> dict[int, int]:
        return dict(self.firings.values())

    async def sourced(self, stream: int, partition: int, name: bytes, below: int) -> list[bytes]:
        found = (
            (seq, find(row.headers or b"", STREAM_SOURCE) or b"")
            for seq, row in reversed(self._between(0, below - 1))
        )
        return [b"%d %b" % (s, value) for s, value in found if value.startswith(name + b" ")][:100]

    # -- sweeps ------------------------------------------------------------------------------

    async def delete_below(
        self, stream: int, partition: int, seq: int, limit: int, ids_since: int | None
    ) -> int:
        gone = [s for s in sorted(self.rows) if s < seq][:limit]
        self._delete(gone, ids_since)
        return len(gone)

    def _delete(self, seqs: Iterable[int], ids_since: int | None) -> None:
        for seq in seqs:
            row = self.rows.pop(seq, None)
            msg_id = None if row is None else find(row.headers or b"", MSG_ID)
            if row is not None and msg_id and ids_since is not None and row.ts > ids_since:
                self.removed_ids[seq] = (row.ts, msg_id)

    async def forget_ids(self, stream: int, ts: int) -> None:
        self.removed_ids = {s: kept for s, kept in self.removed_ids.items() if kept[0] > ts}

    async def delete_rows(
        self, stream: int, partition: int, seqs: Sequence[int], record: int, ids_since: int | None
    ) -> None:
        self._delete(seqs, ids_since)
        self.replaced_rows = {s: n for s, n in self.replaced_rows.items() if n >= record}

    async def delete_purged(self, stream: int, partition: int, ids_since: int | None) -> None:
        for filters, up_to in self.purges:
            rows = self._between(0, up_to)
            self._delete([seq for seq, row in rows if hit(filters, row.subject)], ids_since)
        self.purges.clear()

    # -- the directory -------------------------------------------------------------

    async def add_consumer(self, row: ConsumerRow, epoch: Callable[[], int]) -> tuple[int, int]:
        self.consumers += 1
        return self.consumers, self.consumers

    async def set_consumer(
        self, stream: int, consumer: int, config: str, epoch: Callable[[], int]
    ) -> int:
        """Do nothing, because tests do not read configurations of consumers from this store."""
        return 0

    async def drop_consumer(self, stream: int, consumer: int, epoch: Callable[[], int]) -> int:
        """Do nothing, because tests do not read consumers from this store."""
        return 0

    async def forget_dues(self, stream: int, seqs: Sequence[int]) -> None:
        self.firings = {n: (seq, due) for n, (seq, due) in self.firings.items() if seq not in seqs}


def is_due(config: StreamConfig, ts: int, headers: bytes | None, now: int) -> bool:
    """Return True if a message has reached its TTL or the stream's `max_age` at time `now`.

    `ts`, the time of the message, and `now` are in nanoseconds since the Unix epoch.
    """
    ttl = ttl_of(headers) if headers and config.allow_msg_ttl else 0
    if ttl == NEVER:
        return False
    by_age = config.max_age > 0 and ts + config.max_age <= now
    return by_age or (ttl > 0 and ts + ttl * NANOS_PER_SECOND <= now)


def hit(filters: tuple[bytes, ...], subject: bytes) -> bool:
    """Return True if one of the subject filters matches a subject."""
    return any(matches(subject, name) for name in filters)


def _segment(rows: Sequence[tuple[int, Row]]) -> Segment | None:
    if not rows:
        return None
    headers = [row.headers for _, row in rows]
    payloads = [row.payload for _, row in rows]
    return Segment(
        [seq for seq, _ in rows],
        [row.ts for _, row in rows],
        [row.subject for _, row in rows],
        headers if any(headers) else None,
        payloads,
        sum(map(len, payloads)),
    )
