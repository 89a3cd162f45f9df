"""Firing the message schedules of one stream when they are due (ADR-51).

A firing is one transaction: the scheduled messages, the removal of finished schedules, and the next
due times of repeating ones. After a crash before COMMIT the schedules are still due; after a later
crash the new due times are stored. A schedule that never fired needs no stored due time, since its
message determines it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from core.errors import ApiError, StorageError
from core.jetstream.log.message import messages_of
from core.jetstream.log.subjects import last_by_subject
from core.jetstream.stream.due_timer import STEP_NS, DueTimer
from core.rules.stream.headers import SCHEDULE_SOURCE, find
from core.rules.stream.plans.scheduled import Firing, outputs, plan_firings
from core.rules.stream.schedules.pending import schedule_of
from core.runtime.tasks import spawn
from core.storage.health import waits

if TYPE_CHECKING:
    from core.jetstream.changes import MapSubjects, Submit
    from core.jetstream.log.message import Message
    from core.jetstream.log.preconditions import PreconditionReader
    from core.jetstream.log.stream_log import StreamLog
    from core.model.stream import StreamConfig
    from core.rules.stream.plan import PlanBuilder
    from core.rules.stream.schedules.pending import Schedules
    from core.runtime.clock import Clock
    from core.storage.interface import Sweeper

log = logging.getLogger(__name__)

# Schedules per plan; a cron pattern costs some hundred microseconds.
_AT_ONCE = 250
_PAGE = 100_000


class Scheduler:
    """Fires the message schedules of one stream when they are due.

    Args:
        log: The log of the stream.
        preconditions: Reads data that the decision on scheduled messages needs.
        clock: The clock.
        submit: Queues a change of the stream.
        map_subjects: The stream's subject transform.
        sweeper: Deletes the stored due times of removed schedules.
    """

    def __init__(
        self,
        log: StreamLog,
        preconditions: PreconditionReader,
        clock: Clock,
        submit: Submit,
        map_subjects: MapSubjects,
        sweeper: Sweeper,
    ) -> None:
        self._log = log
        self._preconditions = preconditions
        self._clock = clock
        self._submit = submit
        self._map_subjects = map_subjects
        self._sweeper = sweeper
        self._timer = DueTimer(clock, self._ring)
        self._is_firing = False

    # -- life --------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Load the schedules from storage while the stream is loaded.

        Raises Unavailable if PostgreSQL does not answer.
        """
        if self._log.machine.schedules is not None:
            await self._load(self._log.machine.schedules, None)

    async def reconfigure(self, old: StreamConfig) -> None:
        """Apply an updated configuration; `old` is the former one.

        If the update allows schedules, the stored ones are loaded. Raises Unavailable if PostgreSQL
        does not answer.
        """
        schedules = self._log.machine.schedules
        if schedules is not None and not old.allow_msg_schedules:
            await self._load(schedules, self._clock.now())
        self.watch()

    def close(self) -> None:
        """Cancel the timer, when the stream is closed."""
        self._timer.cancel()

    async def _load(self, schedules: Schedules, begun: int | None) -> None:
        """Load the schedules from storage.

        Raises Unavailable if PostgreSQL does not answer.

        Args:
            schedules: Receives the schedules.
            begun: Time from which schedules fire, in nanoseconds since the Unix epoch; repetitions
                before it are skipped (None: from the time at which they were stored).
        """
        log = self._log
        found: dict[bytes, tuple[int, int, bytes]] = {}
        last = log.machine.last_seq
        for start in range(max(log.machine.first_seq, 1), last + 1, _PAGE):
            below = min(start + _PAGE, last + 1)
            rows = await log.rows.schedules(start, below)
            found.update((s, (seq, ts, hdr)) for seq, s, ts, hdr in rows if log.is_live(seq))
        pairs = [(subject, row[0]) for subject, row in found.items()]
        over = await log.rows.replaced(pairs) if pairs else set()
        known = await log.rows.dues()
        for subject, (seq, stored, block) in found.items():
            schedule = schedule_of(block)
            if schedule is None or not log.is_live(seq) or schedules.seq_of(subject) >= seq:
                continue
            if subject in over:
                schedules.add(subject, seq, None)
                continue
            due = known.pop(seq, None)
            if due is None:
                due = schedule.first(stored)
                if begun is not None and due is not None and schedule.repeats:
                    due = schedule.following(stored, begun)
            schedules.add(subject, seq, due)
        if known:
            await self._sweeper.forget_dues(log.stream, list(known))

    # -- the clock ---------------------------------------------------------------------------

    def watch(self) -> None:
        """Arm the timer for the time at which the next schedule is due."""
        log = self._log
        schedules = log.machine.schedules
        if schedules is None or self._is_firing or log.closed or log.machine.config.sealed:
            return
        due = schedules.next_due()
        if due is not None:
            now = self._clock.now()
            # A schedule already due when it is stored waits one step, as in nats-server.
            self._timer.arm(due if due > now else now + STEP_NS)

    def _ring(self) -> None:
        if not self._log.closed:
            self._is_firing = True
            spawn(self._fire(), name=f"schedules of {self._log.name}")

    async def _fire(self) -> None:
        log = self._log
        try:
            while not log.closed:
                now = self._clock.now()
                due = self._schedules().next_due()
                if due is None or due > now:
                    break
                firings = await self._ready(now)
                await self._submit(partial(self._plan, firings))
                self._timer.fired()
        except (ApiError, StorageError) as error:
            self._timer.failed()
            if not log.closed:
                waits.warning("schedules of stream %s wait: %s", log.name, error)
        finally:
            self._is_firing = False
        self.watch()

    # -- firing ------------------------------------------------------------------------------

    async def _ready(self, now: int) -> list[Firing]:
        """Read the messages of the schedules due at `now`, before the firing is queued as a change.

        `now` is in nanoseconds since the Unix epoch. Raises Unavailable if PostgreSQL does not
        answer.
        """
        schedules = self._schedules()
        due = schedules.due(now, _AT_ONCE)
        messages = await self._messages([pending.seq for pending in due])
        firings: list[Firing] = []
        for pending in due:
            message = messages.get(pending.seq)
            schedule = schedule_of(message[3]) if message is not None else None
            if message is None or schedule is None:
                schedules.end(pending)
                continue
            firing = Firing(pending, schedule, message[3], message[4])
            firing.copy(0, message[3], message[4])
            await self._copy(firing)
            firings.append(firing)
        return firings

    def _schedules(self) -> Schedules:
        schedules = self._log.machine.schedules
        assert schedules is not None, "only a stream with schedules has something due"
        return schedules

    async def _messages(self, seqs: list[int]) -> dict[int, Message]:
        """Return {sequence: message}; one query reads the messages that are not in memory.

        Removed messages are left out. Raises Unavailable if PostgreSQL does not answer.
        """
        log = self._log
        found = {seq: message for seq in seqs if (message := log.in_tail(seq)) is not None}
        cold = [seq for seq in seqs if seq not in found and seq < log.tail.start]
        if cold:
            rows = messages_of(await log.rows.points(sorted(cold)))
            found.update((row[0], row) for row in rows if log.is_live(row[0]))
        return found

    async def _copy(self, firing: Firing) -> None:
        """Read the payload of a schedule with a source: the last message of the source subject.

        Without such a message, the schedule's own payload is sent. Raises Unavailable if PostgreSQL
        does not answer.
        """
        source = find(firing.block, SCHEDULE_SOURCE)
        if source and self._log.machine.index.last(source) != firing.source:
            last = await last_by_subject(self._log, source)
            if last is not None:
                firing.copy(last[0], last[3], last[4])
            else:
                firing.copy(0, firing.block, firing.body)

    async def _plan(self, firings: list[Firing], now: int) -> PlanBuilder:
        """Decide the firing of those schedules that are still due.

        `now` is in nanoseconds since the Unix epoch. Raises Unavailable if PostgreSQL does not
        answer.
        """
        stream_log, schedules = self._log, self._schedules()
        there: list[Firing] = []
        for firing in firings:
            if firing.is_over(now) or not stream_log.is_live(firing.pending.seq):
                schedules.end(firing.pending)
            elif schedules.is_pending(firing.pending):
                await self._copy(firing)
                there.append(firing)
        if not there:
            return stream_log.machine.unchanged()
        columns = outputs(there, now)
        columns.subjects = self._map_subjects(columns.subjects)
        preconditions = await self._preconditions.read(columns, now)
        plan, refused = plan_firings(stream_log.machine, there, columns, now, preconditions)
        if refused:
            text = refused[0].decode()
            log.warning("schedules of stream %s: not taken: %s", stream_log.name, text)
        return plan
