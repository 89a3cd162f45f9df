"""Restores a backup into a database without streams, in one transaction.

Every row passes through this process, which checks it against the checksums of the backup. The head
rows are locked first, so a node that starts meanwhile leads no stream before the restore is
complete.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import migrations
from core.errors import OperatorError
from core.runtime.clock import Clock
from core.runtime.threads import in_thread
from core.storage.leases import Holder
from core.storage.postgres.backup import manifest
from core.storage.postgres.backup.copy_text import Item, Table, contents
from core.storage.postgres.backup.incarnations import Name, lock_heads, renew
from core.storage.postgres.backup.manifest import Manifest
from core.storage.postgres.backup.sums import Checker, Difference, require_columns
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, reason_of
from core.storage.postgres.leases import PostgresLeases
from core.storage.postgres.locks import ALL_LEASE_GROUPS
from core.units import Epoch

# The tables of a backup beside `message_...`; rows of `remote` alone belong to no stream.
_OF_STREAMS = ("head", "stream", "consumer", "purge", "replaced", "source", "schedule", "ledger")
_REMOTE = "remote"
_MESSAGES = "message_"
# Every failure ends the session, and with it the transaction: after an interrupted COPY the same
# session could not roll back.
_BEGIN = "begin; set local synchronous_commit = on"


class Damaged(OperatorError):
    """Error: a backup does not match its checksums. `differences` lists the damaged places."""

    def __init__(self, archive: Path, differences: list[Difference]) -> None:
        super().__init__(f"{archive} is damaged; nothing was restored")
        self.differences = differences


class Restore:
    """One restore of a backup into a database without streams; `run` performs it.

    Args:
        archive: The file or directory of the backup.
        connector: The database. It has the schema of this release.
        names: New names of streams, by (account, name).
        clock: The clock of this machine.
        damaged: True to restore the readable part of a damaged backup.

    Raises:
        OperatorError: The archive is no backup, has another revision of the schema, or lacks a
            stream of `names`; or two streams would get the same name.
    """

    def __init__(
        self,
        archive: Path,
        connector: Connector,
        names: Mapping[Name, str],
        clock: Clock,
        *,
        damaged: bool = False,
    ) -> None:
        self.manifest = manifest.read(archive)
        self._archive, self._connector = archive, connector
        self._names, self._clock, self._damaged = names, clock, damaged
        _require_revision(archive, self.manifest)
        _require_names(self.manifest, names)
        self.checker = Checker({s.stream: label(s.account, s.name) for s in self.manifest.streams})

    async def run(self) -> list[Difference]:
        """Restore the backup; return the differences from its checksums that were found.

        The list is empty unless `damaged` is True.

        Raises:
            Damaged: The backup is damaged, and `damaged` is False. Nothing was restored.
            OperatorError: PostgreSQL cannot be used, a node leads streams of the database, or the
                database has streams.
        """
        look = partial(changed_files, self._archive, self.manifest)
        files = await in_thread(look, name="verify")
        try:
            session = await self._connector.open(Purpose.ADMIN)
        except DATABASE_ERRORS as error:
            raise OperatorError(self._text(error)) from error
        try:
            await session.execute(_BEGIN)
            await self._lock_database(session)
            epoch = await self._loaded(session, files)
            self.checker.compare(self.manifest.streams)
            found = [*files, *self.checker.differences, *await beyond_the_end(session)]
            if found and not self._damaged:
                raise Damaged(self._archive, found)
            await renew(session, self._clock, epoch=epoch, names=self._names)
            await session.execute("commit")
            return found
        except DATABASE_ERRORS as error:
            raise OperatorError(self._text(error)) from error
        finally:
            session.terminate()

    def _text(self, error: BaseException) -> str:
        return f"cannot restore into {self._connector.address}: {reason_of(error)}"

    async def _lock_database(self, session: Any) -> None:
        """Lock the head rows of a database, and delete rows left by deleted streams, and remotes.

        Raises OperatorError if a node leads streams of the database, or it has streams.
        """
        await lock_heads(session)
        await require_no_leader(self._connector)
        rows = await session.fetch(
            "select account, name from jetgate_store.stream where not dropped order by 1, 2"
        )
        if rows:
            there = ", ".join(label(*row) for row in rows[:10]) + (", ..." if rows[10:] else "")
            raise OperatorError(
                f"{self._connector.address} has {len(rows)} streams ({there}):"
                " restore into a database that has none"
            )
        for table in ("message", *_OF_STREAMS[1:], _REMOTE):
            await session.execute(f"delete from jetgate_store.{table}")

    async def _loaded(self, session: Any, files: list[Difference]) -> Epoch:
        """Call `_load`; raise Damaged if it fails and the digests of the files differ from the
        manifest.
        """
        try:
            return await self._load(session)
        except (OperatorError, *DATABASE_ERRORS) as error:
            if not files:
                raise
            reason = Difference("", 0, reason_of(error))
            raise Damaged(self._archive, [*files, reason, *self.checker.differences]) from error

    async def _load(self, session: Any) -> Epoch:
        """Copy all rows from the archive; return the highest epoch in the database before."""
        highest = await session.fetchval("select max(epoch) from jetgate_store.head")
        async with aclosing(contents(self._archive)) as items:
            # The rows of a table end at the head of the next table, which is kept here.
            ahead = _Ahead(items)
            while (table := await ahead.table()) is not None:
                if table.name.startswith(_MESSAGES):
                    require_columns(table.columns)
                elif table.name not in (*_OF_STREAMS, _REMOTE):
                    continue
                await session.copy_to_table(
                    table.name,
                    schema_name="jetgate_store",
                    columns=table.columns,
                    format="text",
                    source=self._rows(table, ahead),
                )
        await session.fetchval(
            "select setval('jetgate_store.stream_number', max(stream)) from jetgate_store.stream"
            " having count(*) > 0"
        )
        return Epoch(int(highest))

    async def _rows(self, table: Table, ahead: "_Ahead") -> AsyncIterator[bytes]:
        if table.name.startswith(_MESSAGES):
            async for lines in ahead.rows():
                if kept := self.checker.check_rows(lines):
                    yield b"\n".join(kept) + b"\n"
            return
        at = None if table.name == _REMOTE else table.columns.index("stream")
        known = {b"%d" % number for number in self.checker.found}
        async for lines in ahead.rows():
            kept = [line for line in lines if at is None or line.split(b"\t")[at] in known]
            if kept:
                yield b"\n".join(kept) + b"\n"


class _Ahead:
    """Reads the tables of an archive one after the other, and the rows of each."""

    def __init__(self, items: AsyncIterator[Item]) -> None:
        self._items = items
        self._next: Table | None = None
        self._error: OperatorError | None = None

    async def table(self) -> Table | None:
        """Return the next table, or None at the end. Skip rows of the last one not yet read.

        Raises OperatorError when the archive cannot be read.
        """
        async for _ in self.rows():
            pass
        if self._error is not None:
            raise self._error
        table, self._next = self._next, None
        return table

    async def rows(self) -> AsyncIterator[list[bytes]]:
        """Yield the rows of the last table returned by `table`.

        An error of the archive ends the rows; the next `table` raises it.
        """
        while self._next is None and self._error is None:
            try:
                item = await anext(self._items, None)
            except OperatorError as error:
                self._error = error
                return
            if item is None:
                return
            if isinstance(item, Table):
                self._next = item
            else:
                yield item


async def adopt(connector: Connector, clock: Clock) -> int:
    """Set new times of creation in a database that was restored by other means, such as PITR.

    See `core.storage.postgres.backup.incarnations` for the reason.

    Returns:
        The number of streams.

    Raises:
        OperatorError: A node leads streams of the database, or PostgreSQL cannot be used.
    """
    try:
        session = await connector.open(Purpose.ADMIN)
    except DATABASE_ERRORS as error:
        text = f"cannot use PostgreSQL at {connector.address}: {reason_of(error)}"
        raise OperatorError(text) from error
    try:
        await session.execute(_BEGIN)
        await lock_heads(session)
        await require_no_leader(connector)
        count = await renew(session, clock)
        await session.execute("commit")
        return count
    except DATABASE_ERRORS as error:
        text = f"cannot renew the streams of {connector.address}: {reason_of(error)}"
        raise OperatorError(text) from error
    finally:
        session.terminate()


async def require_no_leader(connector: Connector) -> None:
    """Check that no node owns a lease group of a database, so that no node writes to it.

    Raises OperatorError, with the name of the node, if one does.
    """
    leases = PostgresLeases(connector)
    await leases.open()
    try:
        holders = await leases.holders(ALL_LEASE_GROUPS)
    finally:
        leases.close()
    for holder in holders.values():
        raise OperatorError(f"{_called(holder)} leads in {connector.address}: stop it first")


def _called(holder: Holder) -> str:
    place = f" at {holder.nats}" if holder.nats else ""
    return f"{holder.node or f'session {holder.pid}'}{place}"


def label(account: str, name: str) -> str:
    """Return the display name of a stream: `account/name`, or the name alone in account $G."""
    return name if account == "$G" else f"{account}/{name}"


def changed_files(archive: Path, wanted: Manifest) -> list[Difference]:
    """Return a difference for each file of a backup whose SHA-256 differs from its manifest.

    Raises OperatorError if the archive cannot be read.
    """
    try:
        found = manifest.digests(archive)
    except OSError as error:
        raise OperatorError(f"cannot read {archive}: {(error.strerror or '').lower()}") from error
    names = sorted(name for name, digest in wanted.files.items() if found.get(name) != digest)
    return [
        Difference("", 0, f"{archive / name if name else archive} is not as it was written")
        for name in names
    ]


async def beyond_the_end(session: Any) -> list[Difference]:
    """Return a difference for each consumer that is beyond the end of its stream.

    Consumers with `opt_start_seq` are left out: they may start at a future sequence.
    """
    rows = await session.fetch(
        """
        select s.account, s.name, c.name, h.last_seq,
               greatest(c.delivered_stream_seq, c.ack_floor_stream_seq)
          from jetgate_store.consumer c
          join jetgate_store.stream s using (stream) join jetgate_store.head h using (stream)
         where greatest(c.delivered_stream_seq, c.ack_floor_stream_seq) > h.last_seq
           and position('"opt_start_seq"' in c.config) = 0
         order by 1, 2, 3
        """
    )
    return [
        Difference(label(a, s), at, f"consumer {c} stands at {at}, and the stream ends at {last}")
        for a, s, c, last, at in rows
    ]


def _require_revision(archive: Path, found: Manifest) -> None:
    if found.revision != migrations.HEAD:
        raise OperatorError(
            f"{archive} has revision {found.revision} of the schema, and this release restores"
            f" {migrations.HEAD}: restore it with jetgate {found.jetgate}, then jetgate migrate"
        )


def _require_names(found: Manifest, names: Mapping[Name, str]) -> None:
    there = {(stream.account, stream.name) for stream in found.streams}
    for account, name in names:
        if (account, name) not in there:
            raise OperatorError(f"--rename {name}: the backup has no stream {name}")
    result = [(s.account, names.get((s.account, s.name), s.name)) for s in found.streams]
    twice = next((name for name in result if result.count(name) > 1), None)
    if twice is not None:
        raise OperatorError(f"--rename: two streams would be named {twice[1]}")
