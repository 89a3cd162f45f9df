"""The transaction ledger of a stream: one entry per application, with its last batch.

An *app* (application) writes numbered batches into a stream. The rows of a batch are staged in
messages of another stream by *attempts* (tries of a task to write its part); the manifest of the
batch names the attempts that count. A *run* is one life of the application's process; it holds a
token. A newer run gets a higher token, and from then on requests of older runs are refused.

All types here are immutable values: a decision returns the new entry, or raises ApiError. Storage
writes an entry in the same transaction as the batch's rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

from core.model.transaction_errors import transaction_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from core.errors import ApiError

PAST_RUNS_MAX = 64
"""Number of superseded runs that an entry keeps, to refuse them by name."""
_ID = re.compile(r"[^\s.*>\x00-\x1f\x7f]{1,64}")
_SEQ_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Attempt:
    """The staged messages of one attempt (try of a task to write its part of a batch).

    Attributes:
        id: The id of the attempt.
        seqs: Ranges (first, last) of their sequences in the staging stream, ascending.
        rows: Number of rows in all messages.
        crc: CRC-32C of the payloads of all messages, one after the other.
    """

    id: str
    seqs: tuple[tuple[int, int], ...]
    rows: int
    crc: int


@dataclass(frozen=True, slots=True, order=True)
class RowPosition:
    """The position of a row in a staged batch of an application; all indices count from 0.

    Attributes:
        attempt: Index of the attempt in the manifest.
        message: Index of the message within its attempt.
        row: Index of the row within its message.
    """

    attempt: int = 0
    message: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True)
class BatchError:
    """The error that stopped the storing of an application's batch, and the row that caused it.

    Attributes:
        code: Code of the error, as in an HTTP status.
        err_code: Number of the error.
        description: Text of the error.
        attempt: Id of the attempt.
        seq: Sequence of the message in the staging stream.
        row: Index of the row in the message.
        subject: Subject of the row.
    """

    code: int
    err_code: int
    description: str
    attempt: str = ""
    seq: int = 0
    row: int = 0
    subject: str = ""


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """A batch of rows that an application commits into a stream, with its progress.

    Attributes:
        number: The number of the batch.
        attempts: The manifest: the attempts that count; empty when the batch is done.
        rows: Number of rows of the batch.
        promoted: Number of rows that are stored in the target stream.
        duplicates: Number of these rows that were stored before under the same message id.
        first_seq: Sequence in the target of the first row that is no duplicate (0: none yet).
        last_seq: Sequence in the target of the last row that is no duplicate (0: none yet).
        place: The position of the next row to store.
        stop: The error that stopped the batch, or None.
    """

    number: int
    attempts: tuple[Attempt, ...]
    rows: int
    promoted: int = 0
    duplicates: int = 0
    first_seq: int = 0
    last_seq: int = 0
    place: RowPosition = RowPosition()
    stop: BatchError | None = None

    @property
    def is_done(self) -> bool:
        """True when every row of the batch is stored."""
        return not self.attempts


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The entry of one application in the transaction ledger of a stream.

    It records the application's current run (life of its process) and last batch. The entry
    without a name holds the highest token of deleted entries.

    Attributes:
        app: Name of the application.
        token: Token of the current run.
        run: Name of the current run.
        past: The runs that `run` superseded, newest first.
        keep: Nanoseconds for which a staged message waits for its COMMIT request.
        batch: The last batch, or None.
        changed: Time of the last change, in nanoseconds since the Unix epoch.
    """

    app: str
    token: int
    run: str = ""
    past: tuple[str, ...] = ()
    keep: int = 0
    batch: StagedBatch | None = None
    changed: int = 0


@dataclass(frozen=True, slots=True)
class LedgerWrite:
    """A change of one entry of a stream's transaction ledger.

    It is written in the same transaction as the rows of the entry's batch.

    Attributes:
        entry: The new entry.
        is_gone: Whether the entry is deleted.
        is_progress: Whether only the progress of the batch changes, not its manifest.
    """

    entry: LedgerEntry
    is_gone: bool = False
    is_progress: bool = False


@dataclass(frozen=True, slots=True)
class ChunkProgress:
    """The result of storing one chunk (the rows of one transaction) of a batch.

    Attributes:
        rows: Number of rows of the chunk.
        duplicates: Number of these rows that were stored before.
        seqs: Sequences of the other rows.
        place: The position of the next row to store.
        stop: The error that stops the batch at `place`, or None.
        is_last: Whether the batch has no further rows.
    """

    rows: int
    duplicates: int
    seqs: range
    place: RowPosition
    stop: BatchError | None = None
    is_last: bool = False


# -- decisions -------------------------------------------------------------------------------------


def open_run(
    entry: LedgerEntry | None, app: str, run: str, keep: int, highest: int, now: int
) -> LedgerEntry:
    """Return the ledger entry of an application with `run` (life of its process) as current run.

    If the entry is already so, the same object is returned.

    Args:
        entry: The entry of the application (None: there is none).
        app: The name of the application.
        run: The name of the run to open.
        keep: Nanoseconds for which staged messages wait for their COMMIT request.
        highest: The highest token of a deleted entry of the stream.
        now: Wall-clock time in nanoseconds since the Unix epoch.

    Raises:
        ApiError: A name is not 1 to 255 printable bytes, or a newer run superseded this one.
    """
    for what, text in (("app", app), ("run", run)):
        if not 0 < len(text.encode()) <= 255 or not text.isprintable():
            raise transaction_error("Manifest", why=f"{what} has to be 1 to 255 printable bytes")
    if entry is None:
        return LedgerEntry(app, highest + 1, run, keep=keep, changed=now)
    if run == entry.run:
        return entry if keep == entry.keep else replace(entry, keep=keep, changed=now)
    if run in entry.past:
        raise transaction_error("RunSuperseded", run=run, app=app, newest=entry.run)
    past = (entry.run, *entry.past)[:PAST_RUNS_MAX]
    return replace(entry, token=entry.token + 1, run=run, past=past, keep=keep, changed=now)


def is_new_batch(entry: LedgerEntry | None, app: str, token: int, batch: int) -> bool:
    """Return whether a COMMIT request is for a new batch (False: it repeats the last batch).

    Raises:
        ApiError: The batch is older than the last one, the last one is unfinished, the token is not
            that of the current run, or the application has no entry.
    """
    if entry is None:
        raise transaction_error("NoLedger", app=app)
    if token < entry.token:
        raise transaction_error("TokenSuperseded", token=token, app=app, newest=entry.token)
    if token > entry.token:
        raise transaction_error("TokenUnknown", token=token, app=app, newest=entry.token)
    last = entry.batch
    if last is None:
        return True
    if batch < last.number:
        raise transaction_error("BatchOld", batch=batch, app=app, last=last.number)
    if batch > last.number and not last.is_done:
        raise transaction_error("BatchUnfinished", batch=batch, app=app, last=last.number)
    return batch > last.number


def check_manifest(batch: int, attempts: Sequence[Attempt]) -> None:
    """Raise ApiError if the manifest of a batch is malformed.

    Attempts must be named once, with valid ids, counts, checksums and ascending ranges.
    """

    def refuse(why: str) -> ApiError:
        return transaction_error("Manifest", why=why)

    if not 0 <= batch <= _SEQ_MAX:
        raise refuse(f"batch {batch} is not between 0 and 2^63 - 1")
    ids = {attempt.id for attempt in attempts}
    if len(ids) < len(attempts):
        raise refuse("an attempt is named twice")
    for attempt in attempts:
        if _ID.fullmatch(attempt.id) is None:
            raise refuse(f'attempt id "{attempt.id}" is not one token of 1 to 64 characters')
        if not 0 <= attempt.crc < 1 << 32 or not 0 <= attempt.rows <= _SEQ_MAX:
            raise refuse(f'checksum or rows of attempt "{attempt.id}" out of range')
        if attempt.rows and not attempt.seqs:
            raise refuse(f'attempt "{attempt.id}" has rows and no blocks')
        if any(first < 1 or last < first or last > _SEQ_MAX for first, last in attempt.seqs):
            raise refuse(f'a range of attempt "{attempt.id}" is none')
        if any(mine[1] >= after[0] for mine, after in pairwise(attempt.seqs)):
            raise refuse(f'the ranges of attempt "{attempt.id}" do not ascend')


def record(entry: LedgerEntry, batch: int, attempts: tuple[Attempt, ...], now: int) -> LedgerEntry:
    """Return the ledger entry of an application with a new batch, none of whose rows is stored yet.

    A batch without messages is done at once. `now` is in nanoseconds since the Unix epoch.
    """
    rows = sum(attempt.rows for attempt in attempts)
    begun = StagedBatch(batch, attempts if any(attempt.seqs for attempt in attempts) else (), rows)
    return replace(entry, batch=begun, changed=now)


def advance(entry: LedgerEntry, progress: ChunkProgress, now: int) -> LedgerEntry:
    """Return an application's ledger entry after a chunk of its batch is stored.

    A chunk is the rows of one transaction. The batch is then done, stopped, or in progress; it also
    stops if it has not as many rows as its manifest names. `now` is in nanoseconds since the Unix
    epoch.
    """
    batch = entry.batch
    assert batch is not None, "a chunk is of a batch"
    promoted, seqs, stop = batch.promoted + progress.rows, progress.seqs, progress.stop
    if progress.is_last and promoted != batch.rows:
        error = transaction_error("RowCount", found=promoted, rows=batch.rows)
        stop = BatchError(error.code, error.err_code, error.description)
    after = replace(
        batch,
        attempts=() if progress.is_last and stop is None else batch.attempts,
        promoted=promoted,
        duplicates=batch.duplicates + progress.duplicates,
        first_seq=batch.first_seq or (seqs[0] if seqs else 0),
        last_seq=seqs[-1] if seqs else batch.last_seq,
        place=progress.place,
        stop=stop,
    )
    return replace(entry, batch=after, changed=now)


# -- staged messages of a manifest -----------------------------------------------------------------


def staged_messages_from(
    attempts: Sequence[Attempt], place: RowPosition
) -> Iterator[tuple[int, int, int]]:
    """Yield the staged messages of a batch, from a position on.

    Each is a tuple (index of the attempt in `attempts`, index of the message within it, sequence in
    the staging stream).
    """
    for number, attempt in enumerate(attempts):
        if number < place.attempt:
            continue
        skip = place.message if number == place.attempt else 0
        seqs = chain.from_iterable(range(first, last + 1) for first, last in attempt.seqs)
        for message, seq in enumerate(islice(seqs, skip, None), skip):
            yield number, message, seq


def oldest_staged_message(entry: LedgerEntry) -> int | None:
    """Return the lowest sequence of the staged messages that an unfinished batch needs.

    None: the batch is done, or there is none.
    """
    batch = entry.batch
    if batch is None:
        return None
    return min((a.seqs[0][0] for a in batch.attempts if a.seqs), default=None)
