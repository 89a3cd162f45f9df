"""Sending what is due: schedules of one stream come due on the clock (ADR-51).

A firing is one plan, committed in one transaction: the outputs, the removal of the schedules that
are over, and when the others come due next. A crash before COMMIT leaves them due, one after it
finds them moved. A schedule that never came due needs no record: its message says when it does.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from core.errors import ApiError, StorageError
from core.jetstream.facts import facts_for
from core.jetstream.queries import message_at
from core.runtime.tasks import spawn
from core.stream.firing import Firing, outputs, plan_firings
from core.stream.headers import SCHEDULE_SOURCE, find
from core.stream.schedules import Pending, schedule_of

if TYPE_CHECKING:
    from core.jetstream.queries import Message
    from core.jetstream.stream_runner import StreamRunner
    from core.model.stream import StreamConfig
    from core.stream.plan import StreamPlan
    from core.stream.schedules import Schedules

log = logging.getLogger("jetgate.schedules")

STEP_NS = 250_000_000
"""The timer is never finer than this (the reference server's granularity)."""

# The wall clock may be set meanwhile.
_LONGEST_NS = 3600 * 1_000_000_000
# Of patterns, some hundred microseconds each.
_AT_ONCE = 250
_PAGE = 100_000


class Scheduler:
    """Has one stream's schedules come due.

    Args:
        runner: The stream.
    """

    def __init__(self, runner: StreamRunner) -> None:
        self._runner = runner
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0
        self._is_firing = False

    # -- life --------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Find the schedules of a stream that is opened. Raises Unavailable."""
        if self._runner.machine.schedules is not None:
            await self._load(self._runner.machine.schedules, None)

    async def reconfigure(self, old: StreamConfig) -> None:
        """Take an update of the configuration: schedules that were copied begin to come due.

        Raises Unavailable.
        """
        schedules = self._runner.machine.schedules
        if schedules is not None and not old.allow_msg_schedules:
            await self._load(schedules, self._runner.shell.clock.now())
        self.watch()

    def close(self) -> None:
        """Send nothing any more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    async def _load(self, schedules: Schedules, begun: int | None) -> None:
        """Find the schedules among what is stored.

        Args:
            schedules: Where they belong.
            begun: Since when they come due; what was missed before is left out (None: since they
                were stored).
        """
        runner, reader = self._runner, self._runner.shell.reader
        found: dict[bytes, tuple[int, int, bytes]] = {}
        last = runner.machine.last_seq
        for start in range(max(runner.machine.first_seq, 1), last + 1, _PAGE):
            below = min(start + _PAGE, last + 1)
            rows = await reader.schedules(runner.stream, runner.shelf, start, below)
            found.update((s, (seq, ts, hdr)) for seq, s, ts, hdr in rows if runner.is_live(seq))
        pairs = [(subject, row[0]) for subject, row in found.items()]
        over = await reader.replaced(runner.stream, runner.shelf, pairs) if pairs else set()
        known = {(p.subject, p.seq): p.due for p in await reader.dues(runner.stream)}
        for subject, (seq, stored, block) in found.items():
            schedule = schedule_of(block)
            if schedule is None or not runner.is_live(seq) or schedules.seq_of(subject) >= seq:
                continue
            if subject in over:
                schedules.add(subject, seq, None)
                continue
            due = known.pop((subject, seq), None)
            if due is None:
                due = schedule.first(stored)
                if begun is not None and due is not None and schedule.repeats:
                    due = schedule.following(stored, begun)
            schedules.add(subject, seq, due)
        gone = [Pending(subject, seq, 0) for subject, seq in known]
        if gone:
            await runner.shell.sweeper.forget_dues(runner.stream, gone)

    # -- the clock ---------------------------------------------------------------------------

    def watch(self) -> None:
        """Make sure that a timer waits for the schedule that comes due first."""
        runner = self._runner
        schedules = runner.machine.schedules
        if schedules is None or self._is_firing or runner.closed or runner.config.sealed:
            return
        due = schedules.next_due()
        if due is None:
            return
        now = runner.shell.clock.now()
        at = min(max(due, now + STEP_NS), now + _LONGEST_NS)
        if self._handle is not None:
            if self._at <= at:
                return
            self._handle.cancel()
        self._at = at
        self._handle = asyncio.get_running_loop().call_later((at - now) / 1e9, self._ring)

    def _ring(self) -> None:
        self._handle = None
        if not self._runner.closed:
            self._is_firing = True
            spawn(self._fire(), name=f"schedules of {self._runner.name}")

    async def _fire(self) -> None:
        runner = self._runner
        try:
            while not runner.closed:
                now = runner.shell.clock.now()
                due = self._schedules().next_due()
                if due is None or due > now:
                    break
                firings = await self._ready(now)
                await runner.command(partial(self._plan, firings))
        except (ApiError, StorageError) as error:
            if not runner.closed:
                log.warning("schedules of stream %s wait: %s", runner.name, error)
        finally:
            self._is_firing = False
        self.watch()

    # -- firing ------------------------------------------------------------------------------

    async def _ready(self, now: int) -> list[Firing]:
        """Read what is due now, for which the lane must not wait.

        Raises Unavailable.
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
        schedules = self._runner.machine.schedules
        assert schedules is not None, "only a stream with schedules has something due"
        return schedules

    async def _messages(self, seqs: list[int]) -> dict[int, Message]:
        """Return live messages by sequence: from memory, the rest in one query."""
        runner = self._runner
        found = {seq: message for seq in seqs if (message := runner.in_tail(seq)) is not None}
        cold = [seq for seq in seqs if seq not in found and seq < runner.tail.start]
        if cold:
            page = await runner.shell.reader.points(runner.stream, runner.shelf, sorted(cold))
            rows = [] if page is None else [message_at(page, i) for i in range(len(page))]
            found.update((row[0], row) for row in rows if runner.is_live(row[0]))
        return found

    async def _copy(self, firing: Firing) -> None:
        """Have a schedule with a source send the last message there, if there is one."""
        source = find(firing.block, SCHEDULE_SOURCE)
        if source and self._runner.machine.index.last(source) != firing.source:
            last = await self._runner.last_by_subject(source)
            if last is not None:
                firing.copy(last[0], last[3], last[4])
            else:
                firing.copy(0, firing.block, firing.body)

    async def _plan(self, firings: list[Firing], now: int) -> StreamPlan:
        """Plan the outputs of what is still due."""
        runner, schedules = self._runner, self._schedules()
        there: list[Firing] = []
        for firing in firings:
            if firing.is_over(now) or not runner.is_live(firing.pending.seq):
                schedules.end(firing.pending)
            elif schedules.is_pending(firing.pending):
                await self._copy(firing)
                there.append(firing)
        if not there:
            return runner.machine.unchanged()
        columns = outputs(there, now)
        if runner.transform is not None:
            columns.subjects = runner.transform.apply_all(columns.subjects)
        facts = await facts_for(runner, columns, now)
        plan, refused = plan_firings(runner.machine, there, columns, now, facts)
        if refused:
            log.warning("schedules of stream %s: not taken: %s", runner.name, refused[0].decode())
        return plan
