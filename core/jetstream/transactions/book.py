"""The ledger of one stream in memory, and the one way in which it changes.

Every change is a plan of the stream and waits for its COMMIT. The changes of one ledger follow one
another (`lock`), so memory has what storage has whenever somebody else may change it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from core.model.api_errors import api_error, detailed
from core.stream.ledger import Entry, LedgerWrite, oldest_block, open_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from core.jetstream.stream.runner import StreamRunner
    from core.stream.plan import PlanBuilder

APPS_MAX = 1000
PATIENCE_S = 2.0
"""Seconds after which a request that waits for storage is refused."""


class Book:
    """The ledger of one stream.

    Args:
        runner: The leader of the stream.

    Attributes:
        entries: What is committed, by app.
        lock: Held by whoever changes the ledger, and by whoever depends on its standing still.
    """

    def __init__(self, runner: StreamRunner) -> None:
        self._runner = runner
        self._highest = 0
        self.entries: dict[str, Entry] = {}
        self.lock = asyncio.Lock()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the lock for a request. Raises ApiError JSClusterNotAvail if that takes too long.

        Whoever has it then waits for storage.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.lock.acquire()
        except TimeoutError:
            raise api_error("JSClusterNotAvail") from None
        try:
            yield
        finally:
            self.lock.release()

    def restore(self, entry: Entry) -> None:
        """Take what storage has."""
        if entry.app:
            self.entries[entry.app] = entry
        else:
            self._highest = entry.token

    async def open(self, app: str, run: str, keep: int) -> Entry:
        """Return the entry of an app once a run has it. Raises ApiError."""
        async with self.held():
            old, now = self.entries.get(app), self._runner.services.clock.now()
            entry = open_run(old, app, run, keep, self._highest, now)
            if old is None and len(self.entries) >= APPS_MAX:
                raise detailed("JSBadRequest", f"the stream has {APPS_MAX} ledgers")
            if entry is not old:
                await self.put(entry)
            return entry

    async def forget(self, app: str) -> bool:
        """Delete what the ledger has of an app; False when it has nothing. Raises ApiError.

        No token is given twice, so that who held one of the deleted ones stays refused.
        """
        async with self.held():
            entry = self.entries.get(app)
            if entry is None:
                return False
            highest = max(self._highest, entry.token)
            kept = LedgerWrite(Entry("", highest))
            await self._submit(LedgerWrite(entry, is_gone=True), kept)
            del self.entries[app]
            self._highest = highest
            return True

    async def put(self, entry: Entry) -> None:
        """Have an entry committed as it is; the lock is held. Raises ApiError."""
        await self._submit(LedgerWrite(entry))
        self.entries[entry.app] = entry

    async def _submit(self, *writes: LedgerWrite) -> None:
        async def plan_it(_now: int) -> PlanBuilder:
            plan = self._runner.machine.unchanged(self._runner.log.first_seq)
            plan.ledger += writes
            return plan

        await self._runner.log.loaded()  # A change that waits for that holds up publishes.
        await self._runner.submit(plan_it)

    def oldest_block(self) -> int | None:
        """Return the lowest sequence of a staged block that an unfinished batch needs."""
        needed = (oldest_block(entry) for entry in self.entries.values())
        return min((seq for seq in needed if seq is not None), default=None)
