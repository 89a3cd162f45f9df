"""The ledger of transactions: what of the batches of each app a stream has stored, and decisions.

An *app* writes numbered batches into a stream. Its rows are staged as blocks in another stream by
*attempts*, of which the manifest of a batch names those that count. A *run* of the app (one life of
its driver) holds a token; a newer run gets a higher one, and the older is refused from then on.

Everything here is a value: a decision returns the entry as it will be, or raises ApiError. Storage
keeps an entry in the transaction of the rows that it speaks of.
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

RUNS_KEPT = 64
"""So many runs that were superseded are remembered, to refuse them by name."""
_ID = re.compile(r"[^\s.*>\x00-\x1f\x7f]{1,64}")
_SEQ_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Attempt:
    """Blocks that one attempt staged.

    `seqs` are ranges (first, last) of their sequences in the staging stream, ascending; `crc` is
    the CRC-32C of all blocks, one after the other.
    """

    id: str
    seqs: tuple[tuple[int, int], ...]
    rows: int
    crc: int


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a batch goes on: attempt of the manifest, block, row of the block, from 0 on.

    The block is counted within its attempt.
    """

    attempt: int = 0
    block: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a batch does not go on, and at which row; `seq` is its block in the staging stream."""

    code: int
    err_code: int
    description: str
    attempt: str = ""
    seq: int = 0
    row: int = 0
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as far as it is stored.

    `promoted` of its `rows` are, of which `duplicates` were stored before under the same message
    id; `first_seq` and `last_seq` enclose the others in the target (0: none yet). A batch that is
    done needs no manifest: `attempts` is empty then.
    """

    number: int
    attempts: tuple[Attempt, ...]
    rows: int
    promoted: int = 0
    duplicates: int = 0
    first_seq: int = 0
    last_seq: int = 0
    place: Place = Place()
    stop: Stop | None = None

    @property
    def is_done(self) -> bool:
        """Whether every row is stored."""
        return not self.attempts


@dataclass(frozen=True, slots=True)
class Entry:
    """What the ledger of a stream has of one app.

    `past` are the runs that `run` superseded, newest first; `keep` is how long, in nanoseconds, a
    staged block waits for its manifest; `changed` the time of the last change. The entry without a
    name holds the highest token of those that were deleted.
    """

    app: str
    token: int
    run: str = ""
    past: tuple[str, ...] = ()
    keep: int = 0
    batch: Batch | None = None
    changed: int = 0


@dataclass(frozen=True, slots=True)
class LedgerWrite:
    """A change of the ledger, part of the plan whose rows it speaks of.

    Args:
        entry: The entry as it will be.
        is_gone: It is deleted.
        is_progress: Nothing but its batch has changed, and of that not the manifest.
    """

    entry: Entry
    is_gone: bool = False
    is_progress: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """What one chunk of a batch brings.

    Of its `rows`, `duplicates` were known; the others got the sequences `seqs`. The batch goes on
    at `place`, unless it stops there, or `is_last` says that its manifest names no more.
    """

    rows: int
    duplicates: int
    seqs: range
    place: Place
    stop: Stop | None = None
    is_last: bool = False


# -- decisions -------------------------------------------------------------------------------------


def open_run(entry: Entry | None, app: str, run: str, keep: int, highest: int, now: int) -> Entry:
    """Return the entry once `run` is the run of its app; the same object if it is already.

    Args:
        entry: What the ledger has of the app.
        app: Its name.
        run: The run that opens.
        keep: How long staged blocks wait for their manifest.
        highest: The highest token of a deleted entry of the stream.
        now: Wall-clock time in nanoseconds.
    """
    for what, text in (("app", app), ("run", run)):
        if not 0 < len(text.encode()) <= 255 or not text.isprintable():
            raise transaction_error("Manifest", why=f"{what} has to be 1 to 255 printable bytes")
    if entry is None:
        return Entry(app, highest + 1, run, keep=keep, changed=now)
    if run == entry.run:
        return entry if keep == entry.keep else replace(entry, keep=keep, changed=now)
    if run in entry.past:
        raise transaction_error("RunSuperseded", run=run, app=app, newest=entry.run)
    past = (entry.run, *entry.past)[:RUNS_KEPT]
    return replace(entry, token=entry.token + 1, run=run, past=past, keep=keep, changed=now)


def is_new_batch(entry: Entry | None, app: str, token: int, batch: int) -> bool:
    """Say whether a COMMIT is of a batch that the ledger does not have (False: it is the last).

    Raises ApiError for any other batch, and for a token that is not the app's.
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
    """Refuse a manifest that cannot be one. Raises ApiError."""

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


def record(entry: Entry, batch: int, attempts: tuple[Attempt, ...], now: int) -> Entry:
    """Return the entry with a batch that begins; without blocks it is done."""
    rows = sum(attempt.rows for attempt in attempts)
    begun = Batch(batch, attempts if any(attempt.seqs for attempt in attempts) else (), rows)
    return replace(entry, batch=begun, changed=now)


def advance(entry: Entry, progress: Progress, now: int) -> Entry:
    """Return the entry after a chunk of its batch: done, stopped, or going on."""
    batch = entry.batch
    assert batch is not None, "a chunk is of a batch"
    promoted, seqs, stop = batch.promoted + progress.rows, progress.seqs, progress.stop
    if progress.is_last and promoted != batch.rows:
        error = transaction_error("RowCount", found=promoted, rows=batch.rows)
        stop = Stop(error.code, error.err_code, error.description)
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


# -- blocks of a manifest --------------------------------------------------------------------------


def blocks_from(attempts: Sequence[Attempt], place: Place) -> Iterator[tuple[int, int, int]]:
    """Yield (attempt, block within it, sequence) of the blocks of a manifest from a place on."""
    for number, attempt in enumerate(attempts):
        if number < place.attempt:
            continue
        skip = place.block if number == place.attempt else 0
        seqs = chain.from_iterable(range(first, last + 1) for first, last in attempt.seqs)
        for block, seq in enumerate(islice(seqs, skip, None), skip):
            yield number, block, seq


def oldest_block(entry: Entry) -> int | None:
    """Return the lowest sequence of a block that an unfinished batch still needs."""
    batch = entry.batch
    if batch is None:
        return None
    return min((a.seqs[0][0] for a in batch.attempts if a.seqs), default=None)
