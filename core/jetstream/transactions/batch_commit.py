"""Committing one staged batch into its target stream: verify, record, then store its rows.

    checksums verified ─▶ batch recorded in the ledger ─▶ chunk ─▶ chunk ─▶ done

The ledger is the record of each application's last batch (`core.rules.stream.transactions.ledger`).
The rows are stored in chunks of about 4,000. The transaction of a chunk also stores the position
reached in the ledger, so that after a crash the batch continues with the first row that is not
stored. While one chunk is committed the next is read.
"""

from __future__ import annotations

import asyncio
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from crc32c import crc32c

from core import retry
from core.errors import ApiError, StorageError
from core.goinput import text_of
from core.jetstream.transactions.staging import ChunkReader, stop_at
from core.model.api_errors import api_error, err_code
from core.model.transaction_errors import transaction_error
from core.rules.stream.transactions.ledger import (
    Attempt,
    ChunkProgress,
    LedgerEntry,
    LedgerWrite,
    RowPosition,
    StagedBatch,
    advance,
    is_new_batch,
    record,
    staged_messages_from,
)
from core.storage.health import waits
from core.subjects.subject import compile_filters, is_valid_literal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from core.jetstream.stream.runner import StreamRunner
    from core.jetstream.transactions.staging import RowChunk, StagedMessages
    from core.jetstream.transactions.stream_ledger import StreamLedger
    from core.rules.stream.plan import PlanBuilder

log = logging.getLogger(__name__)

T = TypeVar("T")

_AWAY = err_code("JSClusterNotAvail")
# Matches an empty or wildcard token in subjects joined by newlines.
_ODD = re.compile(rb"(?:^|[.\n])[*>]?(?:[.\n]|$)")


class BatchCommit:
    """Stores the rows of one staged batch of an application. `run` is called once.

    Args:
        runner: The leader object of the target stream.
        ledger: The ledger of the target stream.
        staged: Reads the staged messages.
        app: Name of the application that owns the batch.
        token: Token of the COMMIT request; a newer run of the application has a higher one.
        number: The number of the batch.
        attempts: The manifest of the batch: which staged messages it consists of.

    Attributes:
        is_recorded: True once the ledger has the batch.
        error: Error that ended the batch and that the ledger does not record (None: no error).
        ended: Set when all rows are stored or the batch has stopped with an error.
        is_answered: True once a COMMIT request was answered after the end.
    """

    def __init__(
        self,
        runner: StreamRunner,
        ledger: StreamLedger,
        staged: StagedMessages,
        *,
        app: str,
        token: int,
        number: int,
        attempts: tuple[Attempt, ...],
    ) -> None:
        self._runner = runner
        self._ledger = ledger
        self._staged = staged
        self.app = app
        self.token = token
        self.number = number
        self.attempts = attempts
        self.is_recorded = False
        self.is_answered = False
        self.error: ApiError | None = None
        self.ended = asyncio.Event()
        self._next: RowChunk | None = None
        self._match: Callable[[bytes], bool] | None = None
        self._filters: tuple[str, ...] | None = None

    async def run(self) -> None:
        """Store the rows of the batch, then set `ended`. If the batch is refused, set `error`.

        After a cancellation `ended` is not set: the next leader continues the batch.
        """
        try:
            if not self._is_known():
                await self._retry_while_unavailable(self._verify)
                await self._retry_while_unavailable(self._record)
            self.is_recorded = True
            await self._store_rows()
        except ApiError as error:
            self.error = error
            log.warning(
                "batch %d of %s in stream %s: %s", self.number, self.app, self._runner.name, error
            )
        except Exception:
            self.ended.set()
            raise
        # Not set after a cancellation: the next leader continues the batch.
        self.ended.set()

    def is_of(self, batch: StagedBatch) -> bool:
        """Return whether this object stores `batch`: same number and same manifest."""
        return self.number == batch.number and self.attempts == batch.attempts

    def oldest_staged_message(self) -> int | None:
        """Return the lowest sequence of the batch's staged messages in the staging stream.

        None once the batch has ended. The purge of staged messages keeps this and later messages.
        """
        if self.ended.is_set():
            return None
        return min((a.seqs[0][0] for a in self.attempts if a.seqs), default=None)

    # -- before the first row ----------------------------------------------------------------

    def _is_known(self) -> bool:
        entry = self._ledger.entries.get(self.app)
        return entry is not None and entry.batch is not None and entry.batch.number == self.number

    async def _verify(self) -> None:
        """Check that all staged messages exist and each attempt's CRC-32C matches the manifest.

        Raises ApiError if one is missing or differs, Unavailable if PostgreSQL does not answer.
        """
        for attempt in self.attempts:
            crc = 0
            for _, _, seq in staged_messages_from((attempt,), RowPosition()):
                crc = crc32c(await self._staged.read(attempt, seq), crc)
                await asyncio.sleep(0)  # Reading from memory does not yield to the event loop.
            if crc != attempt.crc:
                texts = {"found": crc, "crc": attempt.crc}
                raise transaction_error("Checksum", attempt=attempt.id, **texts)

    async def _record(self) -> None:
        """Commit the batch to the ledger.

        Raises ApiError if a newer run of the application has been opened.
        """
        async with self._ledger.lock:
            entry = self._ledger.entries.get(self.app)
            is_new = is_new_batch(entry, self.app, self.token, self.number)
            assert entry is not None, "an app without an entry was refused"
            assert is_new, "a batch is recorded once"
            now = self._runner.services.clock.now()
            await self._ledger.write(record(entry, self.number, self.attempts, now))

    async def _retry_while_unavailable(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await `work`; retry while PostgreSQL does not answer.

        Raises other ApiErrors of the work, and JSStreamNotFound once the stream is closed.
        """
        while True:
            try:
                return await work()
            except StorageError as error:
                waits.warning("batch %d of %s waits: %s", self.number, self.app, error)
            except ApiError as error:
                if error.err_code != _AWAY:
                    raise
            if self._runner.log.closed:
                raise api_error("JSStreamNotFound")
            await asyncio.sleep(retry.BACKGROUND_S)

    # -- the rows ----------------------------------------------------------------------------

    def _batch(self) -> StagedBatch:
        """Return the batch as the ledger records it.

        Raises ApiError if the ledger entry was deleted.
        """
        entry = self._ledger.entries.get(self.app)
        batch = entry.batch if entry is not None else None
        if batch is None or not (self.is_of(batch) or batch.is_done):
            raise transaction_error("Forgotten", app=self.app)
        return batch

    async def _store_rows(self) -> None:
        """Store chunks from the position in the ledger on, until all are stored or one is refused.

        Raises ApiError if the ledger entry was deleted or the stream is closed.
        """
        batch = self._batch()
        reader = ChunkReader(self._staged, batch.attempts, batch.place)
        while not batch.is_done:
            chunk, self._next = self._next, None
            if chunk is None:
                chunk = await self._retry_while_unavailable(reader.next)
            await self._retry_while_unavailable(partial(self._store, chunk, reader))
            batch = self._batch()
            if batch.stop is not None:
                return

    async def _store(self, chunk: RowChunk, reader: ChunkReader) -> None:
        """Commit a chunk, and read the next one meanwhile.

        Raises ApiError if the change is refused, or JSClusterNotAvail while storage is unavailable.
        """
        await self._runner.log.loaded()  # A queued change that waits blocks publishes.
        async with self._ledger.lock:
            assert chunk.start == self._batch().place, "a chunk follows what is stored"
            planned: list[LedgerEntry] = []
            done = self._runner.submit(partial(self._plan, chunk, planned))
            if self._next is None:
                self._next = await self._read_ahead(reader)
            await done
            self._ledger.entries[self.app] = planned[-1]

    async def _read_ahead(self, reader: ChunkReader) -> RowChunk | None:
        try:
            return await reader.next()
        except StorageError:
            return None  # `_store_rows` reads it again.

    async def _plan(self, chunk: RowChunk, planned: list[LedgerEntry], now: int) -> PlanBuilder:
        """Decide the rows of a chunk and the application's ledger entry after it.

        Called by the group committer; `now` is in nanoseconds since the Unix epoch. Rows after the
        first refused one are left out.
        """
        cut, error = self._valid_rows(chunk.columns.subjects)
        columns = chunk.columns.part(0, cut)
        columns.subjects = self._runner.map_subjects(columns.subjects)
        taken = await self._runner.plan_rows(columns, now)
        plan = taken.plan
        error = taken.error or error or chunk.error
        place, stop = chunk.end, None
        if error is not None:
            where = chunk.at(taken.rows)
            place = where[0]
            is_row = taken.rows < len(chunk.columns)
            subject = chunk.columns.subjects[taken.rows] if is_row else b""
            stop = stop_at(error, self.attempts, where, subject)
        seqs = range(plan.before + 1, plan.last_seq + 1)
        is_last = chunk.is_last and stop is None
        progress = ChunkProgress(taken.rows, taken.duplicates, seqs, place, stop, is_last)
        entry = advance(self._ledger.entries[self.app], progress, now)
        planned.append(entry)
        plan.ledger.append(LedgerWrite(entry, is_progress=True))
        return plan

    def _valid_rows(self, subjects: list[bytes]) -> tuple[int, ApiError | None]:
        """Return (rows before the first invalid subject, the error for that subject or None).

        A subject is invalid if the stream's subjects do not match it, or if it has an empty token
        or a wildcard.
        """
        filters = self._runner.config.subjects
        if filters is not self._filters:
            self._filters = filters
            self._match = compile_filters([f.encode() for f in filters]) if filters else _no
        match = self._match
        distinct = set(subjects)
        bad = set() if match is None else {s for s in distinct if not match(s)}
        if _ODD.search(b"\n".join(distinct)):
            bad |= {s for s in distinct if not is_valid_literal(s)}
        if not bad:
            return len(subjects), None
        place = next(i for i, subject in enumerate(subjects) if subject in bad)
        text = text_of(subjects[place])
        return place, transaction_error("Subject", subject=text)


def _no(_subject: bytes) -> bool:
    return False
