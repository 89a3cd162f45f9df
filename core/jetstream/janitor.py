"""The janitor: rows that are logically gone are deleted here, in bulk, on another connection.

Removal is complete for every reader the moment its plan is committed. What remains is work
without hurry: contiguous ranges below the first sequence, and scattered rows sorted so that two
of a page cost one page image.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from core.errors import Unavailable
from core.storage.health import waits

if TYPE_CHECKING:
    from core.jetstream.log.stream_log import StreamLog
    from core.runtime.clock import Clock
    from core.storage.interface import DirectoryStore, Sweeper

_RANGE_ROWS = 10_000
_SCATTERED_ROWS = 10_000
_PAUSE = 0.5


class Janitor:
    """Deletes the rows of the streams of one node, of one stream at a time.

    Args:
        clock: The time that deletions take.
        sweeper: Deletes rows.
        directory_store: Forgets streams that have no rows left.
    """

    def __init__(self, clock: Clock, sweeper: Sweeper, directory_store: DirectoryStore) -> None:
        self._clock = clock
        self._sweeper = sweeper
        self._directory_store = directory_store
        self._wanted: dict[int, StreamLog] = {}
        self._wake = asyncio.Event()
        self._swept_below: dict[int, int] = {}
        self._expiring: set[int] = set()
        self._calm = asyncio.Event()
        self._calm.set()
        self._dropped: list[tuple[int, int]] = []
        self._busy = asyncio.Lock()
        self.rows = 0

    def sweep(self, log: StreamLog) -> None:
        """Remember that a stream has rows to delete."""
        self._wanted[log.stream] = log
        if len(log.removed.rows) >= _SCATTERED_ROWS or len(self._wanted) == 1:
            self._wake.set()

    def sweep_purge(self, log: StreamLog) -> None:
        """Have the rows of a recorded purge by filter deleted soon, then its record."""
        self._wanted[log.stream] = log
        self._wake.set()

    def drop(self, stream: int, shelf: int) -> None:
        """Delete all rows of a deleted stream."""
        self._dropped.append((stream, shelf))
        self._wake.set()

    def forget(self, log: StreamLog) -> None:
        """Delete nothing more of a stream."""
        self._wanted.pop(log.stream, None)

    def begin_expiry(self, log: StreamLog) -> None:
        """Let messages of a stream expire first: what nobody waits for is deleted later."""
        self._expiring.add(log.stream)
        self._calm.clear()

    def end_expiry(self, log: StreamLog) -> None:
        """Go on: what had come of age in a stream is gone."""
        self._expiring.discard(log.stream)
        if not self._expiring:
            self._calm.set()

    async def run(self) -> None:
        """Sweep until cancelled; what a crash leaves undone is found again at the next start."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                for log in list(self._wanted.values()):
                    await self._sweep_at_leisure(log)
                    await self.forget_ids(log)
                    if not (log.removed.rows or log.removed.purges):
                        self._wanted.pop(log.stream, None)
                while self._dropped:
                    await self._drop_rows(*self._dropped[-1])
                    self._dropped.pop()
            except Unavailable as error:
                waits.warning("sweeping waits for storage: %s", error)
                self._wake.set()
            await asyncio.sleep(_PAUSE)
            if self._wanted:
                self._wake.set()

    async def finish(self, log: StreamLog) -> None:
        """Delete every row of a stream that is logically gone by now. Raises Unavailable."""
        while await self._sweep_some(log):
            pass

    async def _sweep_at_leisure(self, log: StreamLog) -> None:
        """Delete the same for nobody who waits: commits, and what expires now, go first."""
        started = self._clock.monotonic()
        while await self._sweep_some(log):
            await asyncio.sleep((self._clock.monotonic() - started) / 1e9)
            await self._calm.wait()
            started = self._clock.monotonic()

    async def _sweep_some(self, log: StreamLog) -> bool:
        """Delete rows with one statement; False when there are none left."""
        async with self._busy:
            below = log.first_seq
            if log.closed:
                return False
            if self._swept_below.get(log.stream, 0) < below:
                await self._sweep_range(log, below)
            elif log.removed.purges:
                await self._sweep_purged(log)
            elif log.removed.rows:
                await self._sweep_scattered(log)
            else:
                return False
        return True

    async def _sweep_range(self, log: StreamLog, below: int) -> None:
        since = self._ids_since(log)
        gone = await self._sweeper.delete_below(log.stream, log.shelf, below, _RANGE_ROWS, since)
        self.rows += gone
        if gone < _RANGE_ROWS:
            self._swept_below[log.stream] = below

    def _ids_since(self, log: StreamLog) -> int | None:
        """Since when the ids of messages of a stream count; None: it has none."""
        return log.machine.ids_since(self._clock.now())

    async def forget_ids(self, log: StreamLog) -> None:
        """Delete the ids of removed messages that the duplicate window is over for."""
        window = log.machine.dedup.window
        if window > 0 and not log.closed:
            await self._sweeper.forget_ids(log.stream, self._clock.now() - window)

    async def _sweep_scattered(self, log: StreamLog) -> None:
        rows, record = log.removed.next_rows(_SCATTERED_ROWS)
        since = self._ids_since(log)
        await self._sweeper.delete_rows(log.stream, log.shelf, rows, record, since)
        log.removed.mark_deleted(rows)
        self._forget_later(log, rows)

    async def _sweep_purged(self, log: StreamLog) -> None:
        rows, are_last = log.removed.next_purged(_SCATTERED_ROWS)
        since = self._ids_since(log)
        await self._sweeper.delete_rows(log.stream, log.shelf, rows, 0, since)
        if are_last:
            await self._sweeper.delete_purged(log.stream, log.shelf, since)
        log.removed.mark_purged_deleted(rows)
        self._forget_later(log, rows)
        if not log.removed.purges:
            log.removed.forget_dropped(log.tail.start)

    def _forget_later(self, log: StreamLog, rows: list[int]) -> None:
        """Keep rows that are gone in mind for as long as a read that began before may bring them.

        Nobody waits for that: the lane may have asked for the room, and reads may take minutes.
        """
        self.rows += len(rows)
        log.rows.when_settled(partial(_forget, log, rows))

    async def _drop_rows(self, stream: int, shelf: int) -> None:
        gone = _RANGE_ROWS
        while gone >= _RANGE_ROWS:
            gone = await self._sweeper.delete_below(stream, shelf, 1 << 62, _RANGE_ROWS, None)
            self.rows += gone
        await self._sweeper.forget_ids(stream, 1 << 62)
        await self._directory_store.forget_stream(stream)


def _forget(log: StreamLog, rows: list[int]) -> None:
    log.removed.forget(rows, log.tail.start)
