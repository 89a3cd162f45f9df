"""The janitor: rows that are logically gone leave storage here, in bulk, on another connection.

Removal is complete for every reader the moment its plan is committed. What remains is work
without hurry: contiguous ranges below the first sequence, scattered rows sorted so that two dead
rows of a page cost one page image, and messages past their age.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from core.errors import ApiError, Unavailable
from core.runtime.tasks import spawn

if TYPE_CHECKING:
    from core.jetstream.queries import StreamQueries
    from core.jetstream.shell import Shell
    from core.jetstream.stream_runner import StreamRunner
    from core.stream.machine import StreamMachine
    from core.stream.plan import StreamPlan

log = logging.getLogger("jetgate.janitor")

_RANGE_ROWS = 10_000
_SCATTERED_ROWS = 10_000
_PAUSE = 0.5
# An expiry timer is never finer than this (the reference server's granularity).
_AGE_STEP_NS = 250_000_000


@dataclass(slots=True)
class _Alarm:
    """A timer, and the wall-clock time in nanoseconds that it waits for."""

    due: int
    handle: asyncio.TimerHandle


class Janitor:
    """Sweeps the streams of one node, one at a time."""

    def __init__(self) -> None:
        self._wanted: dict[int, StreamRunner] = {}
        self._wake = asyncio.Event()
        self._swept_below: dict[int, int] = {}
        self._ages: dict[int, _Alarm] = {}
        self._expiring: set[int] = set()
        self._calm = asyncio.Event()
        self._calm.set()
        self._dropped: list[tuple[int, int]] = []
        self._busy = asyncio.Lock()
        self.shell: Shell
        self.rows = 0

    def attach(self, shell: Shell) -> None:
        """Give the janitor the node's services (they refer to each other)."""
        self.shell = shell

    def sweep(self, runner: StreamRunner) -> None:
        """Remember that a stream has rows to remove."""
        self._wanted[runner.stream] = runner
        if len(runner.backlog) >= _SCATTERED_ROWS or len(self._wanted) == 1:
            self._wake.set()

    def drop(self, stream: int, shelf: int) -> None:
        """Remove all rows of a deleted stream."""
        self._dropped.append((stream, shelf))
        self._wake.set()

    async def run(self) -> None:
        """Sweep until cancelled; what a crash leaves undone is found again at the next start."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                for runner in list(self._wanted.values()):
                    await self._sweep_at_leisure(runner)
                    if not (runner.backlog or runner.purging):
                        self._wanted.pop(runner.stream, None)
                while self._dropped:
                    await self._drop_rows(*self._dropped[-1])
                    self._dropped.pop()
            except Unavailable as error:
                log.warning("sweeping waits for storage: %s", error)
                self._wake.set()
            await asyncio.sleep(_PAUSE)
            if self._wanted:
                self._wake.set()

    async def finish(self, runner: StreamQueries) -> None:
        """Remove every row of a stream that is logically gone by now."""
        while await self._sweep_some(runner):
            pass

    async def _sweep_at_leisure(self, runner: StreamQueries) -> None:
        """The same for nobody who waits: commits, and what is to leave now, go first."""
        clock = self.shell.clock
        started = clock.monotonic()
        while await self._sweep_some(runner):
            await asyncio.sleep((clock.monotonic() - started) / 1e9)
            await self._calm.wait()
            started = clock.monotonic()

    async def _sweep_some(self, runner: StreamQueries) -> bool:
        """Remove rows with one statement; False when there are none left."""
        async with self._busy:
            below = runner.machine.first_seq
            if runner.closed:
                return False
            if self._swept_below.get(runner.stream, 0) < below:
                await self._sweep_range(runner, below)
            elif runner.purging:
                await self._sweep_purged(runner)
            elif runner.backlog:
                await self._sweep_scattered(runner)
            else:
                return False
        return True

    async def _sweep_range(self, runner: StreamQueries, below: int) -> None:
        gone = await self.shell.sweeper.delete_below(
            runner.stream, runner.shelf, below, _RANGE_ROWS
        )
        self.rows += gone
        if gone < _RANGE_ROWS:
            self._swept_below[runner.stream] = below

    async def _sweep_scattered(self, runner: StreamQueries) -> None:
        rows = sorted(islice(runner.backlog, _SCATTERED_ROWS))
        await self.shell.sweeper.delete_rows(runner.stream, runner.shelf, rows)
        for seq in rows:
            runner.backlog.pop(seq, None)
        self._swept(runner, rows)

    def _swept(self, runner: StreamQueries, rows: list[int]) -> None:
        """Keep rows that are gone in mind for as long as a read that began before may bring them.

        Nobody waits for that: the lane may have asked for the room, and reads may take minutes.
        """
        self.rows += len(rows)
        runner.leaving.update(rows)
        self.shell.reader.when_settled(partial(_forget, runner, rows))

    async def _drop_rows(self, stream: int, shelf: int) -> None:
        gone = _RANGE_ROWS
        while gone >= _RANGE_ROWS:
            gone = await self.shell.sweeper.delete_below(stream, shelf, 1 << 62, _RANGE_ROWS)
            self.rows += gone
        await self.shell.catalog.forget_stream(stream)

    def finish_purge(self, runner: StreamRunner, plan: StreamPlan) -> None:
        """Have the rows of a recorded purge by filter removed soon, then its record."""
        runner.purging += sorted(seq for seq, _, _ in plan.removed)
        self._wanted[runner.stream] = runner
        self._wake.set()

    async def _sweep_purged(self, runner: StreamQueries) -> None:
        rows = runner.purging[:_SCATTERED_ROWS]
        await self.shell.sweeper.delete_rows(runner.stream, runner.shelf, rows)
        if len(rows) == len(runner.purging):
            await self.shell.sweeper.delete_purged(runner.stream, runner.shelf)
        del runner.purging[: len(rows)]
        self._swept(runner, rows)
        if not runner.purging:
            _forget_dropped(runner)

    # -- age ---------------------------------------------------------------------------------

    def watch_age(self, runner: StreamRunner) -> None:
        """Make sure that a timer waits for the message of a stream that comes of age first."""
        alarm = self._ages.get(runner.stream)
        expiry = runner.machine.expiry
        if runner.stream in self._expiring or (alarm is not None and expiry is None):
            return
        due = expiry.next_due() if expiry is not None else _oldest_due(runner.machine)
        if not due:
            return
        now = self.shell.clock.now()
        due = max(due, now + _AGE_STEP_NS)
        if alarm is not None:
            if alarm.due <= due:
                return
            alarm.handle.cancel()
        handle = asyncio.get_running_loop().call_later((due - now) / 1e9, self._come_of_age, runner)
        self._ages[runner.stream] = _Alarm(due, handle)

    def _come_of_age(self, runner: StreamRunner) -> None:
        del self._ages[runner.stream]
        if not runner.closed:
            self._expiring.add(runner.stream)
            self._calm.clear()
            spawn(self._expire(runner), name=f"expire {runner.name}")

    async def _expire(self, runner: StreamRunner) -> None:
        try:
            await self.trim(runner)
        finally:
            self._expiring.discard(runner.stream)
            if not self._expiring:
                self._calm.set()
        if not runner.closed:
            self.watch_age(runner)

    async def trim(self, runner: StreamRunner) -> None:
        """Enforce the limits of a stream, or have that wait for the next publish or timer."""
        try:
            await runner.trim()
        except ApiError as error:
            if not runner.closed:
                log.warning("expiry of stream %s waits: %s", runner.name, error)
        if not runner.closed:
            self._stop_alarm(runner)  # It may wait for another `max_age` than there is now.
            self.watch_age(runner)

    def forget(self, runner: StreamRunner) -> None:
        """Stop every timer of a stream."""
        self._wanted.pop(runner.stream, None)
        self._stop_alarm(runner)

    def _stop_alarm(self, runner: StreamRunner) -> None:
        alarm = self._ages.pop(runner.stream, None)
        if alarm is not None:
            alarm.handle.cancel()


def _oldest_due(machine: StreamMachine) -> int:
    """Return when the oldest message of a stream reaches its `max_age` (0: never)."""
    if not machine.max_age or not machine.msgs:
        return 0
    oldest = next((ts for _, _, _, ts in machine.oldest), machine.last_ts)
    if not machine.oldest and machine.oldest.upto < machine.last_seq:
        oldest = 0
    return oldest + machine.max_age


def _forget(runner: StreamQueries, rows: list[int]) -> None:
    """Forget rows that storage has given away, unless the tail holds their messages."""
    start = runner.tail.start
    runner.leaving.difference_update(rows)
    runner.dead.difference_update([seq for seq in rows if seq < start])
    runner.forgotten += 1


def _forget_dropped(runner: StreamQueries) -> None:
    """Forget the dead that the tail dropped during a purge and storage does not hold."""
    start, held = runner.tail.start, runner.leaving.union(runner.backlog)
    runner.dead.difference_update([s for s in runner.dead if s < start and s not in held])
    runner.forgotten += 1
