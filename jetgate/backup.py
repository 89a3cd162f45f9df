"""`jetgate backup`, `restore` and `verify`: backups of a database, with checksums of messages."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TextIO

import typer

from core.errors import OperatorError
from core.node.database import Database
from core.runtime.clock import SystemClock
from core.runtime.standard_streams import print_line
from core.runtime.tasks import spawn, stop
from core.storage.postgres.backup.dump import Wanted, create_backup
from core.storage.postgres.backup.load import Damaged, Restore, adopt
from core.storage.postgres.backup.sums import Difference
from core.storage.postgres.backup.verify import Verification, Verified
from core.storage.postgres.connect import Connector
from core.storage.postgres.migrate import migrate
from jetgate.config import DATA_DIRECTORY, directory_of
from jetgate.database import (
    Data,
    Dsn,
    DsnFile,
    DsnPasswordFile,
    connector_of,
    given,
    open_database,
)
from jetgate.run import run

_EVERY_S = 2.0
_MEGABYTE = 1e6
_DIFFERENCES_SHOWN = 100

Archive = Annotated[Path, typer.Argument(help="The backup: a file, or a directory.")]


def backup_command(
    archive: Archive,
    jobs: Annotated[
        int, typer.Option(help="Tables written at a time; from 2 on into a directory.", min=1)
    ] = 1,
    compress: Annotated[
        str, typer.Option(help="Compression as in pg_dump: 0 to 9, zstd, ...")
    ] = "",
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Back up all streams and consumers, as of one moment, while servers run.

    The archive is one of pg_dump, with checksums of the messages; pg_dump and
    pg_restore have to be installed.

    [bold]Examples[/bold]

      jetgate backup monday.jgb --dsn postgresql://jetgate@db.example/jetgate

      jetgate backup monday --jobs 4 --dsn-file /etc/jetgate/dsn
    """

    async def work() -> None:
        connector = await connector_of(given(dsn, dsn_file, dsn_password_file), data)
        wanted = Wanted(archive, jobs, compress)
        async with _printed(lambda: f"{wanted.written() / _MEGABYTE:.1f} MB written"):
            found = await create_backup(connector, wanted, SystemClock())
        rows = sum(stream.rows for stream in found.streams)
        print(f"{archive}: {len(found.streams)} streams, {rows} messages, as of {found.taken}")

    run(work)


def restore_command(
    archive: Annotated[Path | None, typer.Argument(help="The backup.")] = None,
    rename: Annotated[
        list[str],
        typer.Option(help="OLD=NEW, or ACCOUNT/OLD=NEW: another name; subjects stay."),
    ] = [],  # noqa: B006 (typer copies it)
    damaged: Annotated[
        bool, typer.Option("--damaged", help="Restore the readable part of a damaged backup.")
    ] = False,
    adopt_there: Annotated[
        bool, typer.Option("--adopt", help="Read no backup: PostgreSQL itself was restored.")
    ] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Annotated[
        str | None, typer.Option(help="Data directory of a stopped jetgate dev.")
    ] = None,
) -> None:
    """Restore a backup into a database without streams, while no server runs there.

    Every stream gets a new incarnation, by which readers notice the restore.
    After pg_restore or a recovery to a point in time, [bold]--adopt[/bold] gives
    new incarnations to the streams that are there.

    [bold]Examples[/bold]

      jetgate restore monday.jgb --dsn postgresql://jetgate@db.example/new

      jetgate restore monday.jgb --rename ORDERS=MONDAY --dsn-file FILE

      jetgate restore --adopt --dsn postgresql://jetgate@db.example/jetgate
    """
    if (archive is None) != adopt_there:
        raise typer.BadParameter("name a backup, or use --adopt")
    if adopt_there and (rename or damaged):
        raise typer.BadParameter("--adopt excludes --rename and --damaged")
    names = dict(map(_renaming, rename))

    async def work() -> None:
        # An explicit data directory overrides a database in the environment.
        database = given(dsn, dsn_file, dsn_password_file) if data is None else None
        place = None if data is None else directory_of(data)
        async with _target(database, place) as connector:
            if archive is not None:
                return await _restore(archive, connector, names, damaged)
            (await open_database(connector)).terminate()
            count = await adopt(connector, SystemClock())
            print(f"{count} streams of {connector.address} have a new incarnation")

    run(work)


@contextlib.asynccontextmanager
async def _target(database: Database | None, data: Path | None) -> AsyncIterator[Connector]:
    """Yield the database to restore into: that of the flags, or that of a stopped `jetgate dev`.

    The latter runs only during the `with` block. Raises OperatorError if neither is named.
    """
    if database is not None:
        connector = database.connector()
        await database.checked(connector, SystemClock())
        yield connector
    elif data is not None:
        # Imported late: other commands do not need it
        from core.storage.postgres.embedded import EmbeddedPostgres

        postgres = EmbeddedPostgres(data)
        await postgres.start()
        try:
            yield postgres.connector
        finally:
            await postgres.stop()
    else:
        raise OperatorError("name a database with --dsn or --dsn-file, or --data of a jetgate dev")


async def _restore(
    archive: Path, connector: Connector, names: dict[tuple[str, str], str], damaged: bool
) -> None:
    restore = Restore(archive, connector, names, SystemClock(), damaged=damaged)
    await migrate(connector)
    total = sum(stream.rows for stream in restore.manifest.streams)
    try:
        async with _printed(lambda: f"{restore.checker.rows} of {total} messages restored"):
            differences = await restore.run()
    except Damaged as error:
        _show(error.differences, sys.stderr)
        raise
    _show(differences, sys.stderr)
    rows, streams = restore.checker.rows, len(restore.manifest.streams)
    print(f"{connector.address}: {streams} streams, {rows} messages, new incarnations")


def _renaming(text: str) -> tuple[tuple[str, str], str]:
    """Parse `OLD=NEW`; return ((account, old name), new name).

    Raises typer.BadParameter if the text has another form or NEW is not a valid stream name.
    """
    old, equals, new = text.partition("=")
    account, _, name = old.rpartition("/")
    if not equals or not name or not new or set(new) & set(" .*>/\\\t\r\n"):
        raise typer.BadParameter("expected OLD=NEW, the names of streams", param_hint="--rename")
    return (account or "$G", name), new


def verify_command(
    context: typer.Context,
    archive: Annotated[
        Path | None, typer.Argument(help="Backup to verify without a database.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Backup from which the database was restored.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dsn: Dsn = None,
    dsn_file: DsnFile = "",
    dsn_password_file: DsnPasswordFile = "",
    data: Data = DATA_DIRECTORY,
) -> None:
    """Read every message of a backup or a database, and verify its checksum.

    With [bold]--against[/bold], also check that a database restored just now has
    all messages of the backup. The exit code is 1 if anything differs.

    [bold]Examples[/bold]

      jetgate verify monday.jgb

      jetgate verify --dsn postgresql://jetgate@db.example/jetgate

      jetgate verify --against monday.jgb --dsn postgresql://db.example/new
    """
    # With a backup on the command line, a database in the environment is ignored.
    sources = [context.get_parameter_source(name) for name in ("dsn", "dsn_file", "against")]
    if archive is not None and "COMMANDLINE" in [each and each.name for each in sources]:
        raise typer.BadParameter("a backup is verified without a database; --against needs one")
    verified: list[Verified] = []
    differences: list[Difference] = []

    async def work() -> None:
        verification = Verification()
        async with _printed(lambda: f"{verification.rows} of {verification.total} messages read"):
            if archive is not None:
                found = await verification.of_archive(archive)
            else:
                connector = await connector_of(given(dsn, dsn_file, dsn_password_file), data)
                found = await verification.of_database(connector, against)
        verified.extend(found[0])
        differences.extend(found[1])

    run(work)
    if as_json:
        members = {
            "streams": [asdict(each) for each in verified],
            "differences": [asdict(each) for each in differences],
        }
        print(json.dumps(members, indent=2))
    else:
        _print(verified, differences)
    if differences:
        raise typer.Exit(1)


def _print(verified: Sequence[Verified], differences: Sequence[Difference]) -> None:
    bad = {each.stream for each in differences}
    for each in verified:
        state = "differs" if each.stream in bad else "ok"
        bounds = f"{each.first_seq} to {each.last_seq}"
        print(f"{state:<7}  {each.stream}: {each.rows} messages, {bounds}")
    _show(differences, sys.stdout)


def _show(differences: Sequence[Difference], stream: TextIO) -> None:
    """Print at most 100 differences that a check of a backup or a database found, one per line."""
    for each in differences[:_DIFFERENCES_SHOWN]:
        where = f"{each.stream}: " if each.stream else ""
        print_line(f"differs  {where}{each.text}", stream)
    left = len(differences) - _DIFFERENCES_SHOWN
    if left > 0:
        print_line(f"differs  and {left} more", stream)


@contextlib.asynccontextmanager
async def _printed(progress: Callable[[], str]) -> AsyncIterator[None]:
    """Print the progress every two seconds during the `with` block.

    On SIGTERM, cancel the calling task, so that it cleans up, and exit with code 143.
    """

    async def print_progress() -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            print_line(progress(), sys.stderr)

    printing = spawn(print_progress(), name="progress")
    working, ended = asyncio.current_task(), False

    def end() -> None:
        nonlocal ended
        assert working is not None, "this is a coroutine of a task"
        ended = working.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    except asyncio.CancelledError:
        if ended:
            sys.exit(128 + signal.SIGTERM)
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        await stop(printing)
