"""One stream over storage in memory: the real runner, machine, log and janitor, a dict of rows.

`MemoryStore` applies a plan as PostgreSQL does in one transaction, and answers all queries of
readers. `services` returns the services of a node that leads one such stream. `StreamBench`
replaces the group committer: it takes a plan, commits or discards it, and returns it to the
runner, so that a test controls the steps in between.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from core.cluster.following import DirectoryFollower
from core.errors import ApiError
from core.jetstream.changes import Change
from core.jetstream.janitor import Janitor
from core.jetstream.log.tail import TailBudget
from core.jetstream.services import Services
from core.jetstream.stream.runner import StreamRunner
from core.jetstream.timers import Timers
from core.model.segment import Segment
from core.model.stream import StreamConfig
from core.pubsub.server import Hub
from core.rules.stream.headers import MSG_ID, STREAM_SOURCE, find
from core.rules.stream.plan import Position, StreamPlan
from core.rules.stream.transactions.ledger import LedgerEntry, LedgerWrite
from core.rules.stream.ttl import NEVER, ttl_of
from core.runtime.clock import Clock
from core.runtime.loop_tick import LoopTick
from core.storage.interface import ConsumerRow, Head, StreamRow
from core.subjects.subject import matches
from core.units import NANOS_PER_SECOND
from tests.support.headers import block
from tests.support.sessions import ManualClock

T = TypeVar("T")

STREAM, SHELF = 7, 0


@dataclass(slots=True, frozen=True)
class Row:
    """A stored message; `ts` is in nanoseconds."""

    ts: int
    subject: bytes
    headers: bytes | None
    payload: bytes


class MemoryStore:
    """The `LogReader`, `Sweeper` and `DirectoryStore` of one stream, and the effects of commits."""

    def __init__(self, head: Head) -> None:
        self.rows: dict[int, Row] = {}
        self.head = head
        self.purges: list[tuple[tuple[bytes, ...], int]] = []
        self.sources: dict[str, Position] = {}
        self.ledger: dict[str, LedgerEntry] = {}
        self.consumers = 0
        self.removed_ids: dict[int, tuple[int, bytes]] = {}
        """Ids of messages without rows: time and id by sequence."""
        self.replaced_rows: dict[int, int] = {}
        """Sequences recorded as replaced, each with the number of its record."""

    def commit(self, plan: StreamPlan) -> None:
        """Apply a plan as one fenced transaction does."""
        assert plan.before == self.head.last_seq, "the plan does not follow the head"
        self._delete(plan.erased, 0)
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
        for write in plan.ledger:
            self._write_ledger(write)
        first = max(plan.first_seq, plan.purged_below)
        epoch = self.head.epoch
        self.head = Head(epoch, first, plan.last_seq, plan.last_ts, plan.msgs, plan.nbytes)

    def _write_ledger(self, write: LedgerWrite) -> None:
        """Apply a change of the ledger as its SQL statement does."""
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
        """Return the sequences that the view jetgate.log shows, by the same rule."""
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
        """Call `then` at once: no read takes time here."""
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
            (seq, row.subject, len(row.payload), len(row.headers or b""), row.ts, row.headers)
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
        raise AssertionError("no test schedules here")

    async def replaced(
        self, stream: int, partition: int, schedules: Sequence[tuple[bytes, int]]
    ) -> set[bytes]:
        raise AssertionError("no test schedules here")

    async def dues(self, stream: int) -> dict[int, int]:
        raise AssertionError("no test schedules here")

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
        """Forget the purges; `delete_below` and `delete_rows` have deleted their rows."""
        self.purges.clear()

    # -- the directory -------------------------------------------------------------

    async def add_consumer(self, row: ConsumerRow, epoch: Callable[[], int]) -> tuple[int, int]:
        self.consumers += 1
        return self.consumers, self.consumers

    async def set_consumer(
        self, stream: int, consumer: int, config: str, epoch: Callable[[], int]
    ) -> int:
        """Do nothing: no test reads configurations back."""
        return 0

    async def drop_consumer(self, stream: int, consumer: int, epoch: Callable[[], int]) -> int:
        """Do nothing: no test reads consumers back."""
        return 0

    async def forget_dues(self, stream: int, seqs: Sequence[int]) -> None:
        raise AssertionError("no test schedules here")


def is_due(config: StreamConfig, ts: int, headers: bytes | None, now: int) -> bool:
    """Return True if a message has reached its TTL or the stream's `max_age` at time `now`."""
    ttl = ttl_of(headers) if headers and config.allow_msg_ttl else 0
    if ttl == NEVER:
        return False
    by_age = config.max_age > 0 and ts + config.max_age <= now
    return by_age or (ttl > 0 and ts + ttl * NANOS_PER_SECOND <= now)


def hit(filters: tuple[bytes, ...], subject: bytes) -> bool:
    """Return True if one of the filters matches a subject."""
    return any(matches(subject, name) for name in filters)


def stored_subjects(plan: StreamPlan) -> list[bytes]:
    """Return the subjects of the rows that a plan adds."""
    return plan.segment.subjects if plan.segment is not None else []


async def saved() -> None:
    """Do nothing, as a directory store that accepts every configuration."""


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


class StandInCommitter:
    """A group committer that never waits, in place of `GroupCommitter`."""

    def enqueue(self, runner: StreamRunner) -> None:
        runner.queued = True

    def tell(self, say: Callable[[], None]) -> None:
        say()

    def refuse(self, code: int, count: int) -> None:
        """Do nothing: no count of refusals is kept."""

    async def settled(self) -> None:
        """Return at once: no commit is in flight."""


def services(
    store: MemoryStore,
    clock: Clock,
    loop_tick: LoopTick,
    *,
    states: Any = None,
    tail_bytes: int = 64 << 20,
) -> Services:
    """Return the services of a node whose storage is in memory."""
    return Services(
        clock=clock,
        loop_tick=loop_tick,
        reader=cast(Any, store),
        sweeper=cast(Any, store),
        directory_store=cast(Any, store),
        directory_follower=DirectoryFollower(cast(Any, store)),
        committer=cast(Any, StandInCommitter()),
        states=states,
        janitor=Janitor(clock, cast(Any, store), cast(Any, store)),
        timers=Timers(clock),
        server_name="test",
        press=lambda: None,
        tails=TailBudget(tail_bytes),
    )


class StreamBench:
    """One stream whose steps a test runs one by one."""

    def __init__(self, config: StreamConfig, tail_bytes: int = 64 << 20) -> None:
        self.clock = ManualClock()
        self.loop = asyncio.new_event_loop()
        last = max(config.first_seq, 1) - 1
        self.store = MemoryStore(Head(1, config.first_seq, last, 0, 0, 0))
        self.config = config
        self.tail_bytes = tail_bytes
        self.answers: dict[bytes, bytes] = {}
        self._open()

    def _open(self) -> None:
        loop_tick = LoopTick()
        hub = Hub(loop_tick, self.clock, server_name="test")
        given = services(self.store, self.clock, loop_tick, tail_bytes=self.tail_bytes)
        self.janitor = given.janitor
        account = hub.accounts["$G"]
        row = StreamRow(STREAM, "$G", self.config.name, SHELF, 0, "", self.store.head)
        self.runner = StreamRunner(row, self.config, account, given)
        # Tests run expiry themselves.
        self.runner.expiry.watch = lambda: None  # type: ignore[method-assign]
        account.subscribe(b"reply.>", self._answered)

    def _answered(
        self, session: object, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        assert subject not in self.answers, "answered twice"
        self.answers[subject] = payload

    @property
    def machine(self) -> Any:
        return self.runner.machine

    def reload(self) -> None:
        """Crash: discard everything but the rows and the head row, and load them again."""
        self._open()
        self.run(self.runner.restore(self.store.head))

    def close(self) -> None:
        """Close the event loop."""
        self.loop.close()

    # -- steps -------------------------------------------------------------------------------

    def run(self, work: Awaitable[T]) -> T:
        """Run an awaitable to its end."""

        async def wait() -> T:
            return await work

        return self.loop.run_until_complete(wait())

    def gather(
        self, subject: bytes, payload: bytes = b"", headers: bytes = b"", reply: bytes = b""
    ) -> None:
        """Pass one publish to the runner."""
        self.runner.ingest(None, subject, reply, headers, payload)

    def publish(self, *subjects: str, **headers: str) -> None:
        """Store a message of one byte on each subject, with headers as `Nats_TTL="1s"`."""
        for subject in subjects:
            self.gather(subject.encode(), b"x", block(**headers))
        self.flush()

    def seqs(self) -> list[int]:
        """Return the sequences of the messages that are not deleted."""
        return [row[0] for row in self.live()]

    async def step(self, refused: ApiError | None = None) -> StreamPlan | None:
        """Take one plan, commit it (or refuse it) and emit its answers.

        Returns None when there is nothing to plan.
        """
        runner = self.runner
        plan = await runner.next_plan(4096, self.clock.now())
        if plan is None:
            return None
        if refused is not None and plan.changes_head:
            runner.fail(plan, refused)
            return plan
        if plan.changes_head:
            self.store.commit(plan)
        runner.emit(plan)
        return plan

    def flush(self, refused: ApiError | None = None) -> None:
        """Run steps until no work is left."""
        while self.runner.has_work():
            self.run(self.step(refused))

    def serve(self, request: Awaitable[T]) -> T:
        """Run a request (purge, delete, ...) to its end, with the steps that it causes."""

        async def drive() -> T:
            task = asyncio.ensure_future(request)
            while not task.done():
                await asyncio.sleep(0)
                while self.runner.has_work():
                    await self.step()
            return await task

        return self.run(drive())

    def change(self, change: Change) -> StreamPlan:
        """Commit a change of the log, and return its plan."""

        async def submit() -> StreamPlan:
            return await self.runner.submit(change)

        return self.serve(submit())

    def live(self) -> list[tuple[int, int, bytes, bytes, bytes]]:
        """Return every message that a reader of storage sees.

        Each is (sequence, time in nanoseconds, subject, headers, payload).
        """
        return self.run(self._live())

    async def _live(self) -> list[tuple[int, int, bytes, bytes, bytes]]:
        found: list[tuple[int, int, bytes, bytes, bytes]] = []
        seq = 0
        while True:
            page = await self.runner.log.read(seq, 3)
            if page is None:
                return found
            headers = page.headers or [None] * len(page)
            rows = zip(page.seqs, page.times, page.subjects, headers, page.payloads, strict=True)
            found += [(s, ts, subject, block or b"", body) for s, ts, subject, block, body in rows]
            seq = page.last + 1
