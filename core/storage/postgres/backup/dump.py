"""Takes a backup while nodes serve: pg_dump and checksums of messages, from one snapshot.

The snapshot contains every message that was acknowledged before it. A transaction is in the backup
as a whole or not at all.
"""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import core
import migrations
from core.errors import OperatorError
from core.runtime.clock import Clock
from core.runtime.tasks import outcome, spawn, stop
from core.runtime.threads import in_thread
from core.storage.postgres.backup import manifest
from core.storage.postgres.backup.manifest import Manifest, StreamSums
from core.storage.postgres.backup.programs import environment, find_dump, running
from core.storage.postgres.backup.sums import SPANS
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, reason_of
from core.storage.postgres.migrate import revision
from core.units import NANOS_PER_SECOND

# Tables with rows of this database only: its nodes, its keys, the grants of roles.
_LEFT_OUT = ("node", "secret", "reader_grant")
_STREAMS = """
    select s.stream, s.account, s.name, h.first_seq, h.last_seq, h.msgs
      from jetgate_store.stream s join jetgate_store.head h using (stream)
     where not s.dropped order by s.stream
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a backup.

    Attributes:
        target: The file to write or, with several jobs, the directory. It must not exist.
        jobs: Number of tables dumped in parallel; more than one needs a directory as target.
        compress: Value of pg_dump's --compress; empty: pg_dump's default.
    """

    target: Path
    jobs: int = 1
    compress: str = ""

    @property
    def partial(self) -> Path:
        """Path at which the backup is written; it is renamed to `target` when it is complete."""
        return self.target.with_name(f"{self.target.name}.partial")

    def written(self) -> int:
        """Return the number of bytes written so far to `partial`, to display the progress."""
        paths = self.partial.iterdir() if self.partial.is_dir() else [self.partial]
        with contextlib.suppress(FileNotFoundError):
            return sum(path.stat().st_size for path in paths)
        return 0


async def create_backup(connector: Connector, wanted: Wanted, clock: Clock) -> Manifest:
    """Back up a database into `wanted.target`; return the manifest of the backup.

    Raises:
        OperatorError: The target exists, or the backup failed. A failed backup leaves no files.
    """
    if wanted.target.exists():
        raise OperatorError(f"{wanted.target} is there already")
    _create(wanted)
    try:
        async with _snapshot(connector) as (session, snapshot):
            dump = _dump(connector, session, snapshot, wanted)
            dumping = spawn(outcome(dump), name="pg_dump")
            try:
                found = await _read_manifest(session, clock)
                if (error := await asyncio.shield(dumping)) is not None:
                    raise error
            finally:
                await stop(dumping)
        return await in_thread(partial(_finish, wanted, found), name="backup")
    except DATABASE_ERRORS as error:
        text = f"cannot back up PostgreSQL at {connector.address}: {reason_of(error)}"
        raise OperatorError(text) from error
    finally:
        _remove(wanted.partial)


def _create(wanted: Wanted) -> None:
    """Create the file or directory for pg_dump, readable by this user alone.

    Raises OperatorError when it exists or cannot be created.
    """
    try:
        if wanted.jobs > 1:
            wanted.partial.mkdir(mode=0o700)
        else:
            os.close(os.open(wanted.partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        text = f"{wanted.partial} is there: another backup writes it, or one was killed; remove it"
        raise OperatorError(text) from error
    except OSError as error:
        raise OperatorError(f"cannot write {wanted.partial}: {_reason(error)}") from error


@contextlib.asynccontextmanager
async def _snapshot(connector: Connector) -> AsyncIterator[tuple[Any, str]]:
    """Open a session in a snapshot; yield both the session and the id of the exported snapshot.

    Raises OperatorError when PostgreSQL cannot be used or has another revision of the schema.
    """
    try:
        session = await connector.open(Purpose.ADMIN)
    except DATABASE_ERRORS as error:
        text = f"cannot use PostgreSQL at {connector.address}: {reason_of(error)}"
        raise OperatorError(text) from error
    try:
        found = await revision(session)
        if found != migrations.HEAD:
            raise OperatorError(
                f"{connector.address} has {f'revision {found}' if found else 'no schema'},"
                f" and this release backs up {migrations.HEAD}: jetgate migrate --dsn ..."
            )
        await session.execute("begin isolation level repeatable read, read only")
        yield session, await session.fetchval("select pg_export_snapshot()")
    finally:
        session.terminate()


async def _dump(connector: Connector, session: Any, snapshot: str, wanted: Wanted) -> None:
    major = session.get_server_version().major
    is_directory = wanted.jobs > 1
    command = [
        str(await find_dump(major)),
        f"--format={'directory' if is_directory else 'custom'}",
        f"--file={wanted.partial}",
        f"--snapshot={snapshot}",
        *(f"--schema={name}" for name in migrations.SCHEMAS),
        *(f"--exclude-table-data=jetgate_store.{name}" for name in _LEFT_OUT),
        "--no-owner",
        "--no-privileges",
        *([f"--jobs={wanted.jobs}"] if is_directory else []),
        *([f"--compress={wanted.compress}"] if wanted.compress else []),
    ]
    host = connector.answered or connector.parts.hosts[0]
    async with running(command, environment(connector, host)) as process:
        assert process.stdout is not None, "it is a pipe"
        await process.stdout.read()


async def _read_manifest(session: Any, clock: Clock) -> Manifest:
    """Return the manifest of the snapshot, without the digests of files."""
    spans: dict[int, list[tuple[int, int, int]]] = {}
    streams = await session.fetch(_STREAMS)
    for stream, *span in await session.fetch(SPANS):
        spans.setdefault(stream, []).append((span[0], span[1], span[2]))
    sums = [
        StreamSums(
            **row,
            rows=sum(rows for _, rows, _ in spans.get(row["stream"], ())),
            spans=spans.get(row["stream"], []),
        )
        for row in streams
    ]
    taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock.now() // NANOS_PER_SECOND))
    version = str(await session.fetchval("show server_version"))
    return Manifest(migrations.HEAD, core.__version__, version, taken, sums, {})


def _finish(wanted: Wanted, found: Manifest) -> Manifest:
    """Write the manifest, fsync the archive, and rename it to the target."""
    unfinished = wanted.partial
    try:
        whole = Manifest(
            found.revision,
            found.jetgate,
            found.postgresql,
            found.taken,
            found.streams,
            manifest.digests(unfinished),
        )
        manifest.write(whole, unfinished)
        for path in [*(unfinished.iterdir() if unfinished.is_dir() else ()), unfinished]:
            _fsync(path)
        unfinished.rename(wanted.target)
        _fsync(wanted.target.absolute().parent)
    except OSError as error:
        raise OperatorError(f"cannot write {wanted.target}: {_reason(error)}") from error
    return whole


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
