"""Transactions on the streams of an account that this node leads: requests, batches, purging.

The JetStream API calls this module for requests such as COMMIT. A new leader continues the batches
that are recorded and not completely stored. Staged messages that no unfinished batch needs are
purged after their retention.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import ApiError, StorageError
from core.jetstream.availability import unavailable_as_api_error
from core.jetstream.stream.commands import plan_purge_subjects
from core.jetstream.transactions.batch_commit import BatchCommit
from core.jetstream.transactions.staging import StagedMessages, staging_stream
from core.jetstream.transactions.stream_ledger import StreamLedger
from core.model.transaction_errors import transaction_error
from core.model.transactions import HOUR, STAGE
from core.rules.stream.transactions.ledger import (
    Attempt,
    LedgerEntry,
    StagedBatch,
    check_manifest,
    is_new_batch,
)
from core.runtime.tasks import spawn, stop
from core.storage.health import waits
from core.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.stream.runner import StreamRunner
    from core.rules.stream.plan import PlanBuilder

log = logging.getLogger(__name__)

_SWEEP_S = 60
_LONGEST_NS = 5_000_000_000
_DEFAULT_NS = 2_000_000_000
"""Time in nanoseconds after which a COMMIT is answered if its request has no expiry."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of the last batch that an application commits by a transaction.

    Attributes:
        batch: The batch; None: the application has none.
        state: One of idle (no batch), promoting (rows are being stored), stopped (by an error),
            done.
        error: Error that stopped the batch, if the ledger does not record it; else None.
    """

    batch: StagedBatch | None
    state: str
    error: ApiError | None = None


class Transactions:
    """The transactions of one account: their ledgers, and the batches that are being stored.

    The ledger of a stream records the last batch of each application. Life cycle: `restore` before
    the streams are loaded, then `resume` and `start`, finally `stop`.

    Args:
        streams: The streams that this node leads, by name (a live mapping).
        exists: Returns whether a stream of that name exists, led by any node.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamRunner],
        exists: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self._streams = streams
        self._exists = exists
        self._ledgers: dict[int, StreamLedger] = {}
        self._stored: dict[int, list[LedgerEntry]] = {}
        self._running: dict[tuple[int, str], BatchCommit] = {}
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._sweeper: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------

    def restore(self, entries: Iterable[tuple[int, LedgerEntry]]) -> None:
        """Load ledger entries from storage, as pairs (stream number, entry).

        Called before the streams are loaded.
        """
        self._stored.clear()
        for stream, entry in entries:
            self._stored.setdefault(stream, []).append(entry)

    def resume(self, runners: Iterable[StreamRunner]) -> None:
        """Continue all batches of these streams that are recorded and neither done nor stopped."""
        for runner in list(runners):
            for entry in list(self._ledger(runner).entries.values()):
                batch = entry.batch
                if batch is not None and not batch.is_done and batch.stop is None:
                    self._start_commit(runner, entry.app, entry.token, batch.number, batch.attempts)

    def start(self) -> None:
        """Start the task that purges staged messages that were never committed."""
        self._sweeper = spawn(self._sweep_on(), name="staged transactions")

    async def stop(self) -> None:
        """Stop storing batches, and stop the purging; the next leader continues the batches."""
        await stop(self._sweeper, *self._tasks)
        self._sweeper = None

    async def release(self, runners: Iterable[StreamRunner]) -> None:
        """Stop storing the batches of these streams; their next leader continues them."""
        gone = {runner.stream for runner in runners}
        await stop(*(task for task, stream in self._tasks.items() if stream in gone))
        for number in gone:
            self._ledgers.pop(number, None)
        self._running = {key: p for key, p in self._running.items() if key[0] not in gone}

    def _ledger(self, runner: StreamRunner) -> StreamLedger:
        ledger = self._ledgers.get(runner.stream)
        if ledger is None:
            ledger = self._ledgers[runner.stream] = StreamLedger(runner)
            for entry in self._stored.pop(runner.stream, ()):
                ledger.restore(entry)
        return ledger

    # -- requests ----------------------------------------------------------------------------

    async def open(self, runner: StreamRunner, app: str, run: str, keep: int) -> LedgerEntry:
        """Open a run (life of the process) of an application that commits batches.

        Returns the ledger entry with the run's token. `keep` is the time for which staged messages
        wait for their COMMIT, in nanoseconds. Raises ApiError if the run is superseded or
        PostgreSQL does not answer.
        """
        return await self._ledger(runner).open(app, run, keep)

    async def commit(
        self,
        runner: StreamRunner,
        app: str,
        token: int,
        batch: int,
        attempts: tuple[Attempt, ...],
        expires: int,
    ) -> BatchStatus:
        """Commit a batch, or continue its commit; return its state when it ends or the time is up.

        `expires` is the longest wait in nanoseconds: at most five seconds; 0 or less: two seconds.
        Raises ApiError if the batch is refused; then no row of it is stored.
        """
        check_manifest(batch, attempts)
        ledger = self._ledger(runner)
        running: BatchCommit | None
        if is_new_batch(ledger.entries.get(app), app, token, batch):
            # The lock excludes the purging of staged messages and other new COMMITs meanwhile.
            async with ledger.locked():
                running = self._begin(runner, ledger, app, token, batch, attempts)
        else:
            running = self._resume(runner, ledger.entries[app])
        if running is not None:
            within = min(expires if expires > 0 else _DEFAULT_NS, _LONGEST_NS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within / NANOS_PER_SECOND):
                    await running.ended.wait()
            running.is_answered = running.ended.is_set()
            if running.error is not None and not running.is_recorded:
                raise running.error
        if running is not None and not running.is_recorded:
            rows = sum(attempt.rows for attempt in running.attempts)
            return BatchStatus(StagedBatch(batch, running.attempts, rows), "promoting")
        return self.status(runner, ledger.entries.get(app))

    def _begin(
        self,
        runner: StreamRunner,
        ledger: StreamLedger,
        app: str,
        token: int,
        batch: int,
        attempts: tuple[Attempt, ...],
    ) -> BatchCommit | None:
        """Return the running commit of a batch, or start one; None: the batch is already stored.

        The caller holds the ledger's lock. Raises ApiError while another batch is unfinished.
        """
        entry, running = ledger.entries.get(app), self._running.get((runner.stream, app))
        if entry is not None and not is_new_batch(entry, app, token, batch):
            return self._resume(runner, entry)
        if running is not None and running.token == token and not running.is_recorded:
            if running.number == batch and not (running.ended.is_set() and running.is_answered):
                return running
            if not running.ended.is_set():
                raise transaction_error(
                    "BatchUnfinished", batch=batch, app=app, last=running.number
                )
        return self._start_commit(runner, app, token, batch, attempts)

    def _resume(self, runner: StreamRunner, entry: LedgerEntry) -> BatchCommit | None:
        """Return the running commit of the batch in a ledger entry, or start one.

        None: the batch is already stored.
        """
        batch = entry.batch
        assert batch is not None, "the batch is the last of the ledger"
        if batch.is_done:
            return None
        running = self._running.get((runner.stream, entry.app))
        if running is not None and running.is_of(batch):
            is_news = running.error is not None and not running.is_answered
            if not running.ended.is_set() or is_news:
                return running
        return self._start_commit(runner, entry.app, entry.token, batch.number, batch.attempts)

    def status(self, runner: StreamRunner, entry: LedgerEntry | None) -> BatchStatus:
        """Return the state of the last batch of the application whose ledger entry is given."""
        if entry is None or entry.batch is None:
            return BatchStatus(None, "idle")
        batch, running = entry.batch, self._running.get((runner.stream, entry.app))
        if batch.is_done:
            return BatchStatus(batch, "done")
        if running is not None and running.is_of(batch):
            if not running.ended.is_set():
                return BatchStatus(batch, "promoting")
            return BatchStatus(batch, "stopped", running.error)
        return BatchStatus(batch, "stopped")

    def entries(self, runner: StreamRunner) -> list[LedgerEntry]:
        """Return the ledger entries of a stream, sorted by application name."""
        return [entry for _, entry in sorted(self._ledger(runner).entries.items())]

    async def forget(self, runner: StreamRunner, app: str) -> None:
        """Delete the ledger entry of an application: its token and its last batch.

        Raises ApiError NoLedger if there is none.
        """
        if not await self._ledger(runner).forget(app):
            raise transaction_error("NoLedger", app=app)

    # -- batches -----------------------------------------------------------------------------

    def _start_commit(
        self, runner: StreamRunner, app: str, token: int, batch: int, attempts: tuple[Attempt, ...]
    ) -> BatchCommit:
        commit = BatchCommit(
            runner,
            self._ledger(runner),
            StagedMessages(runner.name, self._find),
            app=app,
            token=token,
            number=batch,
            attempts=attempts,
        )
        self._running[runner.stream, app] = commit
        task = spawn(self._run(runner, commit), name=f"batch {batch} of {app}")
        self._tasks[task] = runner.stream
        task.add_done_callback(self._tasks.pop)
        return commit

    async def _run(self, runner: StreamRunner, commit: BatchCommit) -> None:
        await commit.run()
        entry = self._ledger(runner).entries.get(commit.app)
        if entry is not None and entry.batch is not None and entry.batch.is_done:
            try:
                await self._clear(runner.name, commit)
            except (ApiError, StorageError) as error:
                log.warning("staged messages of %s stay: %s", runner.name, error)
        key = runner.stream, commit.app
        if commit.error is None and self._running.get(key) is commit:
            del self._running[key]

    def _find(self, name: str) -> StreamLog | None:
        runner = self._streams.get(name)
        return None if runner is None else runner.log

    # -- staged messages ---------------------------------------------------------------------

    async def _clear(self, target: str, commit: BatchCommit) -> None:
        """Purge the staged messages of a stored batch.

        Raises ApiError if the purge is refused, Unavailable if PostgreSQL does not answer.
        """
        runner = self._streams.get(STAGE + target)
        if runner is None:
            return
        staged = StagedMessages(target, self._find)
        subjects = frozenset(staged.subject(a).encode() for a in commit.attempts)

        async def plan_it(_now: int) -> PlanBuilder:
            return await unavailable_as_api_error(plan_purge_subjects(runner.log, subjects))

        await runner.submit(plan_it)

    async def _sweep_on(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            try:
                await self.sweep()
            except (ApiError, StorageError) as error:
                waits.warning("sweeping of staged transactions waits: %s", error)

    async def sweep(self) -> None:
        """Purge old staged messages, except those that an unfinished batch needs.

        Messages are old after the longest `keep` in the ledger of the target stream, one hour
        without a ledger. Raises ApiError if a purge is refused, Unavailable if PostgreSQL does not
        answer.
        """
        live = {runner.stream for runner in self._streams.values()}
        self._ledgers = {n: ledger for n, ledger in self._ledgers.items() if n in live}
        self._running = {key: p for key, p in self._running.items() if key[0] in live}
        for name, runner in list(self._streams.items()):
            target = name.removeprefix(STAGE)
            if target == name or runner.config.subjects != staging_stream(target).subjects:
                continue
            found = self._streams.get(target)
            if found is None and self._exists(target):
                continue  # Its lease group is being transferred, and the staging stream with it.
            ledger = self._ledger(found) if found is not None else None
            if runner.machine.msgs and ledger is None:
                await self._purge(runner, None)
            elif runner.machine.msgs and ledger is not None:
                async with ledger.lock:
                    await self._purge(runner, ledger)

    async def _purge(self, stage: StreamRunner, ledger: StreamLedger | None) -> None:
        keep, needed = HOUR, []
        if ledger is not None:
            keep = max((e.keep for e in ledger.entries.values()), default=HOUR)
            needed = [ledger.oldest_staged_message()]
            of_ledger = (p for (n, _), p in self._running.items() if self._ledgers.get(n) is ledger)
            needed += [commit.oldest_staged_message() for commit in of_ledger]
        oldest = stage.services.clock.now() - keep
        below = await stage.log.first_at_time(oldest)
        below = min([below, *(seq for seq in needed if seq is not None)])
        if below > stage.log.first_seq:
            await stage.requests.purge(None, below, None)
