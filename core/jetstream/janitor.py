"""The janitor: deletes the rows of removed messages in bulk, on a separate connection.

Readers leave a message out from the COMMIT of its removal on, so the deletion of its row is not
urgent. The janitor deletes contiguous ranges below the first sequence, and scattered rows in sorted
order, so that two rows of a page cost one full-page image in the WAL.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from core.errors import Unavailable
from core.storage.health import waits
from core.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from core.jetstream.log.stream_log import StreamLog
    from core.runtime.clock import Clock
    from core.storage.interface import DirectoryStore, Sweeper

_RANGE_ROWS = 10_000
_SCATTERED_ROWS = 10_000
_PAUSE = 0.5


class Janitor:
    """Deletes the rows of removed messages, for all streams of one node, one stream at a time.

    Args:
        clock: Measures how long deletions take.
        sweeper: Deletes rows in PostgreSQL.
        directory_store: Deletes the records of dropped streams that have no rows left.

    Attributes:
        rows: Count of rows deleted since the start.
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
        """Queue a stream whose removed messages still have rows in storage."""
        self._wanted[log.stream] = log
        if len(log.removed.rows) >= _SCATTERED_ROWS or len(self._wanted) == 1:
            self._wake.set()

    def sweep_purge(self, log: StreamLog) -> None:
        """Queue a stream for the deletion of the rows that a purge by filter removed.

        Storage has a record of the purge, so that it survives a crash. The janitor deletes the
        rows, then the record.
        """
        self._wanted[log.stream] = log
        self._wake.set()

    def drop(self, stream: int, partition: int) -> None:
        """Queue the deletion of all rows of a deleted stream."""
        self._dropped.append((stream, partition))
        self._wake.set()

    def forget(self, log: StreamLog) -> None:
        """Remove a stream from the queue, because it is deleted or led by another node."""
        self._wanted.pop(log.stream, None)

    def begin_expiry(self, log: StreamLog) -> None:
        """Pause background deletions while a stream's messages expire, until `end_expiry`."""
        self._expiring.add(log.stream)
        self._calm.clear()

    def end_expiry(self, log: StreamLog) -> None:
        """Record that the expiry of a stream has ended; resume deletions if no stream expires."""
        self._expiring.discard(log.stream)
        if not self._expiring:
            self._calm.set()

    async def run(self) -> None:
        """Delete rows until cancelled: of removed messages, and all rows of deleted streams.

        Rows that a crash leaves are found and deleted after the next start.
        """
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
        """Delete the rows of all messages of a stream that are removed at the time of the call.

        Raises Unavailable if PostgreSQL does not answer.
        """
        while await self._sweep_some(log):
            pass

    async def _sweep_at_leisure(self, log: StreamLog) -> None:
        """Delete the removed rows of a stream in the background.

        Pauses after each statement for as long as it took, and while messages expire, so that
        commits and expiry go first. Raises Unavailable if PostgreSQL does not answer.
        """
        started = self._clock.monotonic()
        while await self._sweep_some(log):
            await asyncio.sleep((self._clock.monotonic() - started) / NANOS_PER_SECOND)
            await self._calm.wait()
            started = self._clock.monotonic()

    async def _sweep_some(self, log: StreamLog) -> bool:
        """Delete removed rows with one statement. Returns False if none are left.

        Raises Unavailable if PostgreSQL does not answer.
        """
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
        gone = await self._sweeper.delete_below(
            log.stream, log.partition, below, _RANGE_ROWS, since
        )
        self.rows += gone
        if gone < _RANGE_ROWS:
            self._swept_below[log.stream] = below

    def _ids_since(self, log: StreamLog) -> int | None:
        """Return the start of the stream's duplicate window, in nanoseconds since the Unix epoch.

        None: the stream detects no duplicates.
        """
        return log.machine.ids_since(self._clock.now())

    async def forget_ids(self, log: StreamLog) -> None:
        """Delete message ids of removed messages that are older than the stream's duplicate window.

        Raises Unavailable if PostgreSQL does not answer.
        """
        window = log.machine.dedup.window
        if window > 0 and not log.closed:
            await self._sweeper.forget_ids(log.stream, self._clock.now() - window)

    async def _sweep_scattered(self, log: StreamLog) -> None:
        rows, record = log.removed.next_rows(_SCATTERED_ROWS)
        since = self._ids_since(log)
        await self._sweeper.delete_rows(log.stream, log.partition, rows, record, since)
        log.removed.mark_deleted(rows)
        self._forget_later(log, rows)

    async def _sweep_purged(self, log: StreamLog) -> None:
        rows, are_last = log.removed.next_purged(_SCATTERED_ROWS)
        since = self._ids_since(log)
        await self._sweeper.delete_rows(log.stream, log.partition, rows, 0, since)
        if are_last:
            await self._sweeper.delete_purged(log.stream, log.partition, since)
        log.removed.mark_purged_deleted(rows)
        self._forget_later(log, rows)
        if not log.removed.purges:
            log.removed.forget_dropped(log.tail.start)

    def _forget_later(self, log: StreamLog, rows: list[int]) -> None:
        """Forget deleted sequences once all reads that began before the deletion have ended.

        Returns at once, since reads may take minutes.
        """
        self.rows += len(rows)
        log.rows.when_settled(partial(_forget, log, rows))

    async def _drop_rows(self, stream: int, partition: int) -> None:
        gone = _RANGE_ROWS
        while gone >= _RANGE_ROWS:
            gone = await self._sweeper.delete_below(stream, partition, 1 << 62, _RANGE_ROWS, None)
            self.rows += gone
        await self._sweeper.forget_ids(stream, 1 << 62)
        await self._directory_store.forget_stream(stream)


def _forget(log: StreamLog, rows: list[int]) -> None:
    log.removed.forget(rows, log.tail.start)
