"""The ledger of transactions in PostgreSQL: one row for each stream and writing application.

A row records the last batch of messages that the application has committed with a manifest, so that
a repeated commit has no second effect. Changes of the ledger are part of the commit of the messages
they describe: their statements are sent in the same text. Applying a change twice has the effect of
one.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from core.rules.stream.transactions.ledger import (
    Attempt,
    BatchError,
    LedgerEntry,
    LedgerWrite,
    RowPosition,
    StagedBatch,
)
from core.storage.postgres.texts import sql_text

_COLUMNS = (
    "token, run, past, keep, changed, batch, manifest, rows, promoted, duplicates, "
    "first_seq, last_seq, place, stop"
)
_PROGRESS = "changed, promoted, duplicates, first_seq, last_seq, place, stop"

LOAD_LEDGERS = f"""
    select l.stream, l.app, {_COLUMNS}
    from jetgate_store.ledger l join jetgate_store.stream s using (stream)
    where not s.dropped and s.lease_group = any($1::int[]) order by l.stream, l.app
"""

_NOTHING = StagedBatch(0, (), 0)


def ledger_text(stream: int, write: LedgerWrite) -> str:
    """Return the SQL statement that applies one change to the ledger of a stream."""
    entry = write.entry
    of_app = f"where stream = {stream} and app = {sql_text(entry.app)};"
    if write.is_gone:
        return f"delete from jetgate_store.ledger {of_app}"
    values = _values(entry)
    if write.is_progress:
        names = _PROGRESS.split(", ")
        if entry.batch is not None and entry.batch.is_done:
            names.append("manifest")
        changes = ",".join(f"{name} = {values[name]}" for name in names)
        return f"update jetgate_store.ledger set {changes} {of_app}"
    changes = ",".join(f"{name} = excluded.{name}" for name in values)
    return (
        f"insert into jetgate_store.ledger (stream, app, {','.join(values)}) "
        f"values ({stream},{sql_text(entry.app)},{','.join(values.values())}) "
        f"on conflict (stream, app) do update set {changes};"
    )


def _values(entry: LedgerEntry) -> dict[str, str]:
    """Return the columns of an entry as SQL expressions."""
    batch = entry.batch or _NOTHING
    place = batch.place
    return {
        "token": str(entry.token),
        "run": sql_text(entry.run),
        "past": _json_text(entry.past),
        "keep": str(entry.keep),
        "changed": str(entry.changed),
        "batch": "null" if entry.batch is None else str(batch.number),
        "manifest": _json_text(batch.attempts) if batch.attempts else "null",
        "rows": str(batch.rows),
        "promoted": str(batch.promoted),
        "duplicates": str(batch.duplicates),
        "first_seq": str(batch.first_seq),
        "last_seq": str(batch.last_seq),
        "place": f"'{{{place.attempt},{place.message},{place.row}}}'",
        "stop": "null" if batch.stop is None else _json_text(batch.stop),
    }


def _json_text(value: object) -> str:
    return sql_text(msgspec.json.encode(value).decode())


def entry_of(row: Sequence[Any]) -> tuple[int, LedgerEntry]:
    """Return (stream number, ledger entry) of a row that the query `LOAD_LEDGERS` has returned."""
    stream, app, token, run, past, keep, changed, number, manifest, *rest = row
    rows, promoted, duplicates, first_seq, last_seq, place, stop = rest
    batch: StagedBatch | None = None
    if number is not None:
        batch = StagedBatch(
            number,
            () if manifest is None else msgspec.json.decode(manifest, type=tuple[Attempt, ...]),
            rows,
            promoted,
            duplicates,
            first_seq,
            last_seq,
            RowPosition(*place),
            None if stop is None else msgspec.json.decode(stop, type=BatchError),
        )
    known = msgspec.json.decode(past, type=tuple[str, ...])
    return stream, LedgerEntry(app, token, run, known, keep, batch, changed)
