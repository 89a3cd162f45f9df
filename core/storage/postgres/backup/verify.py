"""Verifies a backup, a database, or a database against the backup it was restored from.

Every message is read and compared with its CRC-32C. With a backup, the checksums of its manifest,
one for each 1,024 sequences of a stream, are compared too.
"""

from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from core.errors import OperatorError
from core.rules.consumer import state
from core.runtime.threads import in_thread
from core.storage.postgres.backup import manifest
from core.storage.postgres.backup.copy_text import Lines, Table, contents
from core.storage.postgres.backup.load import beyond_the_end, changed_files, label
from core.storage.postgres.backup.manifest import Manifest
from core.storage.postgres.backup.sums import (
    Checker,
    Difference,
    Found,
    ranges,
    require_columns,
)
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, reason_of
from core.storage.postgres.stream_log import ALL_COLUMNS
from core.storage.postgres.subjects import WHOLE

_STREAMS = f"""
    select s.stream, s.account, s.name, h.first_seq, h.last_seq, h.msgs,
           array(select unnest(r.seqs) from jetgate_store.replaced r
                  where r.stream = s.stream) as replaced,
           case when exists (select from jetgate_store.purge p where p.stream = s.stream) then
             array(select m.seq from jetgate_store.message m
                    where m.stream = s.stream and exists (
                      select from jetgate_store.purge p, unnest(p.filters) f
                       where p.stream = s.stream and m.seq <= p.up_to_seq
                         and jetgate_store.subject_matches(f, {WHOLE})))
             else '{{}}' end as purged
      from jetgate_store.stream s join jetgate_store.head h using (stream)
     where not s.dropped order by s.account, s.name
"""


@dataclass(frozen=True, slots=True)
class Verified:
    """A verified stream: its name, first and last sequence, and number of rows read."""

    stream: str
    first_seq: int
    last_seq: int
    rows: int


class Verification:
    """A run of `jetgate verify`. The attributes can be read while it runs, to display the progress.

    Attributes:
        total: Number of rows to read; 0 if unknown.
    """

    def __init__(self) -> None:
        self.total = 0
        self._checker = Checker({})

    @property
    def rows(self) -> int:
        """Number of message rows read so far."""
        return self._checker.rows

    async def of_archive(self, archive: Path) -> tuple[list[Verified], list[Difference]]:
        """Verify a backup; return its streams and the differences found.

        Raises OperatorError if the archive is not a backup or cannot be read.
        """
        wanted = manifest.read(archive)
        found = await in_thread(partial(changed_files, archive, wanted), name="verify")
        self.total = sum(stream.rows for stream in wanted.streams)
        checker = self._begin(wanted)
        try:
            async with aclosing(contents(archive)) as items:
                is_messages = False
                async for item in items:
                    if isinstance(item, Table):
                        is_messages = item.name.startswith("message_")
                        if is_messages:
                            require_columns(item.columns)
                    elif is_messages:
                        checker.check_rows(item)
        except OperatorError as error:
            if not found:
                raise
            found.append(Difference("", 0, str(error)))
        checker.compare(wanted.streams)
        return self._streams(wanted), found + checker.differences

    def _begin(self, wanted: Manifest) -> Checker:
        names = {stream.stream: label(stream.account, stream.name) for stream in wanted.streams}
        self._checker = Checker(names)
        return self._checker

    def _streams(self, wanted: Manifest) -> list[Verified]:
        found = self._checker.found
        return [
            Verified(found[s.stream].name, s.first_seq, s.last_seq, found[s.stream].rows)
            for s in wanted.streams
        ]

    async def of_database(
        self, connector: Connector, archive: Path | None
    ) -> tuple[list[Verified], list[Difference]]:
        """Verify a database; return its streams and the differences found.

        With `archive`, the messages are also compared with this backup, which was restored into the
        database. Raises OperatorError if the database or the backup cannot be read.
        """
        wanted = manifest.read(archive) if archive is not None else None
        try:
            session = await connector.open(Purpose.ADMIN)
            try:
                await session.execute("set bytea_output = hex")
                await session.execute("begin isolation level repeatable read, read only")
                return await self._read(session, wanted)
            finally:
                session.terminate()
        except DATABASE_ERRORS as error:
            text = f"cannot verify PostgreSQL at {connector.address}: {reason_of(error)}"
            raise OperatorError(text) from error

    async def _read(
        self, session: Any, wanted: Manifest | None
    ) -> tuple[list[Verified], list[Difference]]:
        streams = await session.fetch(_STREAMS)
        self.total = sum(row["msgs"] for row in streams)
        names = {row["stream"]: label(row["account"], row["name"]) for row in streams}
        checker = self._checker = Checker(names)
        lines = Lines()

        async def consume(piece: bytes) -> None:
            checker.check_rows(lines.split(piece))

        query = f"select {ALL_COLUMNS} from jetgate_store.message"
        await session.copy_from_query(query, output=consume, format="text")
        differences = []
        for row in streams:
            differences += _counted(checker.found[row["stream"]], row)
        if wanted is not None:
            missing = [s for s in wanted.streams if s.stream not in names]
            differences += [
                Difference(label(s.account, s.name), 0, "the stream is not there") for s in missing
            ]
            checker.compare([s for s in wanted.streams if s.stream in names])
        differences += await beyond_the_end(session)
        differences += await _states(session)
        verified = [
            Verified(
                names[row["stream"]],
                row["first_seq"],
                row["last_seq"],
                checker.found[row["stream"]].rows,
            )
            for row in streams
        ]
        return verified, checker.differences + differences


def _counted(found: Found, head: Any) -> list[Difference]:
    """Return the differences between the rows of a stream and its head row.

    More rows than the head row counts are no difference: their messages have expired and are not
    deleted yet.
    """
    first, last, msgs = max(head["first_seq"], 1), head["last_seq"], head["msgs"]
    found.remove(chain(head["replaced"], head["purged"]))
    differences = []
    if behind := found.count(last + 1):
        text = f"{behind} messages are behind the end: {ranges(found.seqs(last + 1))}"
        differences.append(Difference(found.name, last + 1, text))
    missing = msgs - found.count(first, last)
    if missing > 0:
        absent = found.absent(first, last)
        text = f"{missing} of {msgs} messages are missing"
        is_all = last + 1 - first - found.count(first, last) - found.removed == missing
        text += f": {ranges(absent)}" if is_all else f", among {ranges(absent)}"
        seq = next(iter(found.absent(first, last)), 0)
        differences.append(Difference(found.name, seq, text))
    return differences


async def _states(session: Any) -> list[Difference]:
    """Return a difference for each consumer whose state cannot be decoded."""
    rows = await session.fetch(
        "select s.account, s.name, c.name, c.state from jetgate_store.consumer c"
        " join jetgate_store.stream s using (stream) where c.state is not null order by 1, 2, 3"
    )
    differences = []
    for account, stream, consumer, stored in rows:
        try:
            state.decode(stored)
        except state.StateError as error:
            text = f"consumer {consumer}: {error}"
            differences.append(Difference(label(account, stream), 0, text))
    return differences
