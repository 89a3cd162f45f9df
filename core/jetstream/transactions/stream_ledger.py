"""The transaction ledger of one stream in memory: an entry per application with its last batch.

Every change is committed by the group committer, in order with the stream's publishes. The `lock`
serializes the changes of one ledger, so that memory equals storage whenever the lock is free.
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
"""Seconds for which a request waits for the lock before it is refused."""


class StreamLedger:
    """The transaction ledger of one stream: the last batch of each application that writes to it.

    Args:
        runner: The leader object of the stream.

    Attributes:
        entries: The committed entries, by name of the application.
        lock: Held during a change of the ledger, and while code relies on an unchanged ledger.
    """

    def __init__(self, runner: StreamRunner) -> None:
        self._runner = runner
        self._highest = 0
        self.entries: dict[str, LedgerEntry] = {}
        self.lock = asyncio.Lock()

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock during a request (async context manager).

        Raises ApiError JSClusterNotAvail if the lock is not free within `LOCK_TIMEOUT_S` seconds,
        because its holder waits for storage.
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
        """Add the entry of an application loaded from storage.

        The entry with an empty name holds the highest token of deleted entries.
        """
        if entry.app:
            self.entries[entry.app] = entry
        else:
            self._highest = entry.token

    async def open(self, app: str, run: str, keep: int) -> LedgerEntry:
        """Open a run (life of the process) of an application.

        Commits an entry with a new token, and returns it. `keep` is the time for which staged
        messages wait for their COMMIT, in nanoseconds. If this run is open already, its token
        stays, and only a changed `keep` is committed. Raises ApiError if the run is superseded, the
        stream has `APPS_MAX` entries, or PostgreSQL does not answer.
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
        """Delete the entry of an application; return False if there is none.

        The highest token is kept, so that new tokens stay higher and old ones stay refused. Raises
        ApiError if PostgreSQL does not answer.
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
        """Commit the changed entry of an application; the caller holds the lock.

        Raises ApiError if the change is refused.
        """
        await self._submit(LedgerWrite(entry))
        self.entries[entry.app] = entry

    async def _submit(self, *writes: LedgerWrite) -> None:
        async def plan_it(_now: int) -> PlanBuilder:
            plan = self._runner.machine.unchanged(self._runner.log.first_seq)
            plan.ledger += writes
            return plan

        await self._runner.log.loaded()  # A queued change that waits blocks publishes.
        await self._runner.submit(plan_it)

    def oldest_staged_message(self) -> int | None:
        """Return the lowest sequence in the staging stream that unfinished batches need.

        None: no batch is unfinished.
        """
        needed = (oldest_staged_message(entry) for entry in self.entries.values())
        return min((seq for seq in needed if seq is not None), default=None)
