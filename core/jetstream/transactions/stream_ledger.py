"""The ledger of one stream in memory, and its changes.

Every change is a plan of the stream and waits for its COMMIT. The `lock` serializes the changes of
one ledger, so that memory equals storage whenever the lock is free.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from core.model.api_errors import api_error, detailed
from core.rules.stream.transactions.ledger import (
    LedgerEntry,
    LedgerWrite,
    oldest_staged_message,
    open_run,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from core.jetstream.stream.runner import StreamRunner
    from core.rules.stream.plan import PlanBuilder

APPS_MAX = 1000
LOCK_TIMEOUT_S = 2.0
"""Seconds after which a request that waits for the lock is refused."""


class StreamLedger:
    """The ledger of one stream.

    Args:
        runner: The leader of the stream.

    Attributes:
        entries: The committed entries, by app.
        lock: Held during a change of the ledger, and while code relies on an unchanged ledger.
    """

    def __init__(self, runner: StreamRunner) -> None:
        self._runner = runner
        self._highest = 0
        self.entries: dict[str, LedgerEntry] = {}
        self.lock = asyncio.Lock()

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock for a request.

        Raises ApiError JSClusterNotAvail after `LOCK_TIMEOUT_S` seconds: the holder of the lock
        waits for storage.
        """
        try:
            async with asyncio.timeout(LOCK_TIMEOUT_S):
                await self.lock.acquire()
        except TimeoutError:
            raise api_error("JSClusterNotAvail") from None
        try:
            yield
        finally:
            self.lock.release()

    def restore(self, entry: LedgerEntry) -> None:
        """Load an entry from storage; one without an app holds the highest token so far."""
        if entry.app:
            self.entries[entry.app] = entry
        else:
            self._highest = entry.token

    async def open(self, app: str, run: str, keep: int) -> LedgerEntry:
        """Open a run of an app, and return the committed entry. Raises ApiError.

        `keep` is the time for which staged messages wait for their manifest, in nanoseconds.
        """
        async with self.locked():
            old, now = self.entries.get(app), self._runner.services.clock.now()
            entry = open_run(old, app, run, keep, self._highest, now)
            if old is None and len(self.entries) >= APPS_MAX:
                raise detailed("JSBadRequest", f"the stream has {APPS_MAX} ledgers")
            if entry is not old:
                await self.write(entry)
            return entry

    async def forget(self, app: str) -> bool:
        """Delete the entry of an app; return False if there is none. Raises ApiError.

        The highest token so far is kept: tokens are unique, and old ones stay refused.
        """
        async with self.locked():
            entry = self.entries.get(app)
            if entry is None:
                return False
            highest = max(self._highest, entry.token)
            kept = LedgerWrite(LedgerEntry("", highest))
            await self._submit(LedgerWrite(entry, is_gone=True), kept)
            del self.entries[app]
            self._highest = highest
            return True

    async def write(self, entry: LedgerEntry) -> None:
        """Commit an entry; the caller holds the lock. Raises ApiError."""
        await self._submit(LedgerWrite(entry))
        self.entries[entry.app] = entry

    async def _submit(self, *writes: LedgerWrite) -> None:
        async def plan_it(_now: int) -> PlanBuilder:
            plan = self._runner.machine.unchanged(self._runner.log.first_seq)
            plan.ledger += writes
            return plan

        await self._runner.log.loaded()  # A change waiting for this in its turn blocks publishes.
        await self._runner.submit(plan_it)

    def oldest_staged_message(self) -> int | None:
        """Return the lowest sequence of a staged message that an unfinished batch needs, if any."""
        needed = (oldest_staged_message(entry) for entry in self.entries.values())
        return min((seq for seq in needed if seq is not None), default=None)
