"""Interest and work-queue retention: messages are removed when consumers have finished them.

There is no record per message: a consumer's read position and pending acks determine whether it
needs a message. The stored state of a consumer lists finished messages until their removal is
committed (`ConsumerMachine.leaving`). So a crash loses no removal, whichever of the two commits is
first: a removed row is no longer pending, and finished messages are removed after the restart.

Removals are committed like every other change of the stream, one at a time. Messages finished
during a commit are removed by the next one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from core import retry
from core.errors import ApiError
from core.jetstream.log.last_sequences import last_sequences
from core.model.stream import Retention
from core.rules.stream.plan import PlanBuilder
from core.rules.stream.state.subject_index import LogIndex
from core.runtime.tasks import spawn
from core.storage.health import waits

if TYPE_CHECKING:
    from core.jetstream.changes import Submit
    from core.jetstream.consumer.consumers import Consumers
    from core.jetstream.log.stream_log import StreamLog

_AT_ONCE = 10_000

Row = tuple[int, bytes, int]


class RetentionKeeper:
    """Removes the messages of one stream that consumers have finished.

    Args:
        log: The log of the stream.
        consumers: The consumers of the stream.
        retention: Interest or workqueue.
        submit: Queues a change of the stream.
    """

    def __init__(
        self, log: StreamLog, consumers: Consumers, retention: Retention, submit: Submit
    ) -> None:
        self._log = log
        self._consumers = consumers
        self._submit = submit
        self._by_interest = retention is Retention.INTEREST
        self._settled: dict[int, None] = {}
        self._in_hand: Sequence[int] = ()
        self._sweep_from: int | None = None
        self._is_sweeping = False
        self._drops_unwanted = False
        self._task: asyncio.Task[None] | None = None
        self._rounds = 0
        self._turned = asyncio.Event()

    def without_interest(self, subjects: Iterable[bytes]) -> frozenset[bytes]:
        """Return those of the given subjects whose messages are not stored.

        With interest retention these are the subjects that no consumer's filter matches; else none.
        """
        if not self._by_interest:
            return frozenset()
        return frozenset(s for s in set(subjects) if not self._has_consumer(s))

    def _has_consumer(self, subject: bytes) -> bool:
        machines = (consumer.machine for consumer in self._consumers.values())
        return any(m.interest is None or m.interest(subject) for m in machines)

    # -- work to do --------------------------------------------------------------------------

    def mark_settled(self, sseqs: Iterable[int]) -> None:
        """Queue the sequences of messages that a consumer has finished, for removal."""
        self._settled.update(dict.fromkeys(sseqs))
        self._start()

    def sweep(self) -> None:
        """Examine all messages of the stream, after a restart or the start of this retention.

        Messages that no consumer ever matched are kept, as in nats-server.
        """
        self._sweep_from = self._log.first_seq
        self._start()

    def begin(self) -> None:
        """Examine all messages after the retention was changed from limits.

        With interest retention, a stream without consumers then keeps no message.
        """
        self._drops_unwanted = not self._consumers
        self.sweep()

    def less_wanted(self, start: int) -> None:
        """Examine messages after a consumer was deleted or its filters changed (interest only).

        As in nats-server, messages from `start`, the consumer's ack floor, on are examined. All are
        examined if there are no other consumers, or `start` is higher than the last sequence.
        """
        if self._by_interest:
            self._drops_unwanted = True
            since, is_ahead = self._log.first_seq, start > self._log.machine.last_seq
            if self._consumers and not is_ahead:
                since = max(start, since)
            self._sweep_from = since if self._sweep_from is None else min(since, self._sweep_from)
            self._start()

    async def caught_up(self) -> None:
        """Wait until the acks received before this call have led to the removal of their messages.

        Later acks do not prolong the wait. If storage is unavailable it returns early; the messages
        are removed when storage is available again.
        """
        for consumer in list(self._consumers.values()):
            consumer.report_settled_now()
        awaited = {*self._in_hand, *self._settled}
        while self._task is not None and not self._log.closed:
            awaited.intersection_update((*self._in_hand, *self._settled))
            if not awaited and self._sweep_from is None and not self._is_sweeping:
                return
            rounds = self._rounds
            self._turned.clear()
            await self._turned.wait()
            if self._rounds == rounds:
                return

    def _start(self) -> None:
        if self._task is None and not self._log.closed:
            self._task = spawn(self._run(), name=f"retention of {self._log.name}")

    # -- rounds ------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Remove and examine messages until none is queued; retry while storage is unavailable."""
        log = self._log
        try:
            while (self._settled or self._sweep_from is not None) and not log.closed:
                try:
                    await self._round()
                except ApiError as error:
                    if log.closed:
                        return
                    waits.warning("retention of %s waits: %s", log.name, error)
                    self._turned.set()
                    await asyncio.sleep(retry.BACKGROUND_S)
                    continue
                self._rounds += 1
                self._turned.set()
        finally:
            self._task = None
            self._rounds += 1
            self._turned.set()

    async def _round(self) -> None:
        """Commit the removal of some finished messages, then examine some others.

        The messages of a removal are taken from the queue before its decision, since they may be
        queued again meanwhile.
        """
        if self._settled:
            self._in_hand = batch = sorted(islice(self._settled, _AT_ONCE))
            for seq in batch:
                del self._settled[seq]
            try:
                await self._submit(lambda _now: self._plan_settled(batch))
            except ApiError:
                self.mark_settled(batch)
                raise
            finally:
                self._in_hand = ()
            self._left(batch)
        if self._sweep_from is not None:
            self._is_sweeping = True
            try:
                await self._sweep_on(self._sweep_from)
            finally:
                self._is_sweeping = False

    async def _sweep_on(self, start: int) -> None:
        """Examine some messages from `start` on, and remove those that no consumer needs."""
        self._sweep_from = None
        gone: set[int] = set()
        try:
            await self._submit(lambda _now: self._plan_sweep(start, gone))
        except ApiError:
            self.sweep()
            raise
        self._drop_pending(gone)
        below = start + _AT_ONCE
        if self._sweep_from is None and below <= self._log.machine.last_seq:
            self._sweep_from = below
        if self._sweep_from is None:
            self._drops_unwanted = False

    def _left(self, batch: Sequence[int]) -> None:
        """Delete removed messages from the consumers' stored lists of finished messages.

        `batch` are their sequences.
        """
        batch = [seq for seq in batch if seq not in self._settled]
        for consumer in self._consumers.values():
            if consumer.machine.leaving:
                consumer.machine.leaving.difference_update(batch)

    def _drop_pending(self, gone: set[int]) -> None:
        """End the pending acks of messages that storage does not have any more."""
        if not gone:
            return
        for consumer in self._consumers.values():
            for seq in sorted(gone & consumer.machine.pending.first.keys()):
                consumer.machine.vanished(seq)

    # -- plans -------------------------------------------------------------------------------

    async def _plan_settled(self, batch: Sequence[int]) -> PlanBuilder:
        """Decide the removal of finished messages, as far as they exist and no consumer needs them.

        `batch` are their sequences. Raises Unavailable if PostgreSQL does not answer.
        """
        rows = await self._rows(batch)
        if self._by_interest:
            rows = [row for row in rows if not self._is_needed(row[0], row[1])]
        return await self._plan(rows)

    async def _plan_sweep(self, start: int, gone: set[int]) -> PlanBuilder:
        """Decide the removal of the messages from `start` on that no consumer needs.

        Examines `_AT_ONCE` sequences. Adds sequences with a pending ack but without a row to
        `gone`. Raises Unavailable if PostgreSQL does not answer.
        """
        log, machine = self._log, self._log.machine
        below = min(start + _AT_ONCE, machine.last_seq + 1)
        stored = await log.rows.sizes(None, start, below)
        size = machine.record_size.of_row
        rows = [
            (seq, subject, size(subject, data, hdr))
            for seq, subject, data, hdr in stored
            if log.is_live(seq)
        ]
        there = {row[0] for row in rows}
        for consumer in self._consumers.values():
            pending = consumer.machine.pending.first
            gone.update(s for s in pending if start <= s < below and s not in there)
        if not self._by_interest:
            return machine.unchanged()
        rows = [row for row in rows if not self._is_needed(row[0], row[1])]
        if not self._drops_unwanted:
            # nats-server: messages that a start beyond the last sequence skips are kept.
            last = machine.last_seq
            machines = [c.machine for c in self._consumers.values()]
            past = [m.match for m in machines if m.pending.floor()[1] <= last]
            rows = [row for row in rows if any(match is None or match(row[1]) for match in past)]
        return await self._plan(rows)

    def _is_needed(self, seq: int, subject: bytes) -> bool:
        return any(c.needs(seq, subject) for c in self._consumers.values())

    async def _rows(self, batch: Sequence[int]) -> list[Row]:
        """Return (sequence, subject, size in bytes) of those messages that exist, ascending.

        Raises Unavailable if PostgreSQL does not answer.
        """
        log, machine = self._log, self._log.machine
        rows: list[Row] = []
        cold: list[int] = []
        for seq in batch:
            if seq > machine.last_seq or not log.is_live(seq):
                continue
            found = log.in_tail(seq)
            if found is not None:
                rows.append(
                    (seq, found[2], machine.record_size.of(found[2], found[3], len(found[4])))
                )
            elif seq < log.tail.start:
                cold.append(seq)
        if not cold:
            return rows
        page = await log.rows.points(cold)
        if page is not None:
            headers = page.headers or [None] * len(page)
            columns = zip(page.seqs, page.subjects, headers, page.payloads, strict=True)
            rows += [(seq, s, machine.record_size.of(s, h, len(p))) for seq, s, h, p in columns]
        return sorted(rows)

    async def _plan(self, rows: list[Row]) -> PlanBuilder:
        """Decide the removal of these messages; their rows are deleted in the same transaction.

        Raises Unavailable if PostgreSQL does not answer.
        """
        machine = self._log.machine
        plan = machine.unchanged(self._log.first_seq)
        for row in rows:
            machine.remove(plan, *row)
        plan.erased = [row[0] for row in rows]
        gone = set(plan.erased)
        if not plan.msgs:
            plan.first_seq = machine.last_seq + 1
        while plan.first_seq in gone:
            plan.first_seq += 1
        if isinstance(machine.index, LogIndex):
            plan.last_seqs = await self._lasts(machine.index, rows, gone)
        return plan

    async def _lasts(
        self, index: LogIndex, rows: list[Row], gone: set[int]
    ) -> list[tuple[bytes, int]]:
        """Return (subject, new last sequence) of subjects that lose their newest messages only.

        Raises Unavailable if PostgreSQL does not answer.
        """
        counts = Counter([subject for _, subject, _ in rows])
        wanted = [
            subject
            for subject, count in counts.items()
            if index.count(subject) > count and index.last(subject) in gone
        ]
        return list((await last_sequences(self._log, wanted, gone)).items())
