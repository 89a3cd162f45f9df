"""The database of a command: that of the flags `--dsn` or `--dsn-file`, or of a `jetgate dev`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.config.secret_files import secret_of
from core.errors import ConfigError, OperatorError, Unavailable
from core.node.database import Database

if TYPE_CHECKING:  # servers import the driver of PostgreSQL only after opening their ports
    from core.storage.postgres.connect import Connector

# Seconds to wait for a `jetgate dev` that is starting, and seconds between two attempts.
_START_S, _POLL_S = 10.0, 0.05


def finite(seconds: float) -> float:
    """Return a number of seconds unchanged. Raises typer.BadParameter for NaN and infinity."""
    if not math.isfinite(seconds):
        raise typer.BadParameter("expected a number of seconds")
    return seconds


Dsn = Annotated[
    str | None,
    typer.Option(
        envvar="JETGATE_DSN", help="Connection string of libpq: postgresql://user@host/name"
    ),
]
DsnFile = Annotated[
    str, typer.Option(envvar="JETGATE_DSN_FILE", help="File with the value of --dsn.")
]
DsnPasswordFile = Annotated[
    str,
    typer.Option(
        envvar="JETGATE_DSN_PASSWORD_FILE",
        help="File with the password of the database role; read for every connection.",
    ),
]
ReadDsn = Annotated[
    str | None,
    typer.Option(
        envvar="JETGATE_READ_DSN",
        help="Standby of that database; Direct Get by sequence reads from it.",
    ),
]
ReadDsnFile = Annotated[
    str,
    typer.Option(envvar="JETGATE_READ_DSN_FILE", help="File with the value of --read-dsn."),
]
WaitForDb = Annotated[
    float,
    typer.Option(
        envvar="JETGATE_WAIT_FOR_DB",
        help="Seconds to wait until PostgreSQL answers.",
        min=0,
        callback=finite,
    ),
]
Data = Annotated[Path, typer.Option(help="Data directory of a running jetgate dev.")]


def given(
    dsn: str | None, file: str, password_file: str, wait_seconds: float = 0
) -> Database | None:
    """Return the database that the flags name; None if they name none.

    Args:
        dsn: Value of `--dsn`, a connection string.
        file: Value of `--dsn-file`.
        password_file: Value of `--dsn-password-file`.
        wait_seconds: Seconds to wait until PostgreSQL answers.

    Raises:
        ConfigError: The flags exclude each other, or a file is unusable.
    """
    if dsn is None and not file:
        if password_file:
            raise ConfigError("--dsn-password-file", "needs --dsn or --dsn-file")
        return None
    place = "--dsn-file" if file else "--dsn"
    return Database(secret_of("--dsn", dsn or "", file), place, password_file, wait_seconds)


def standby(dsn: str | None, file: str, password_file: str) -> Database | None:
    """Return the standby that the flags `--read-dsn` and `--read-dsn-file` name; None without them.

    Raises ConfigError if both are given, or a file is unusable.
    """
    if dsn is None and not file:
        return None
    place = "--read-dsn-file" if file else "--read-dsn"
    return Database(secret_of("--read-dsn", dsn or "", file), place, password_file)


def required(dsn: str | None, file: str, password_file: str, wait_seconds: float = 0) -> Database:
    """Return the database that the flags name; the arguments are those of `given`.

    Raises typer.BadParameter if they name none, ConfigError if they exclude each other or a file is
    unusable.
    """
    found = given(dsn, file, password_file, wait_seconds)
    if found is None:
        raise typer.BadParameter("name a database with --dsn or --dsn-file")
    return found


async def connector_of(database: Database | None, data: Path) -> Connector:
    """Return a connector to `database`, or if it is None, to that of the `jetgate dev` in `data`.

    Waits up to 10 seconds for a `jetgate dev` that is starting. Raises OperatorError if none runs
    in that directory.
    """
    if database is not None:
        return database.connector()
    from core.storage.directory_lock import is_locked
    from core.storage.postgres.connect import Connector
    from core.storage.postgres.embedded.running import running_dsn

    for _ in range(round(_START_S / _POLL_S)):
        try:
            await _check(found := Connector(running_dsn(data), environment={}))
            return found
        except (OperatorError, Unavailable):
            if not is_locked(data):
                raise
        await asyncio.sleep(_POLL_S)
    return Connector(running_dsn(data), environment={})


async def open_database(connector: Connector) -> Any:
    """Open an administrative PostgreSQL connection.

    Raises OperatorError if the database does not accept it, or lacks this release's schema.
    """
    from core.storage.postgres.connect import DATABASE_ERRORS, Purpose, reason_of

    await _check(connector)
    try:
        return await connector.open(Purpose.ADMIN)
    except DATABASE_ERRORS as error:
        raise OperatorError(
            f"cannot use PostgreSQL at {connector.address}: {reason_of(error)}"
        ) from error


@asynccontextmanager
async def looking(database: Database | None, data: Path) -> AsyncIterator[Any]:
    """Open a PostgreSQL connection for the `with` block, to the database that `connector_of` finds.

    Raises OperatorError if the database is unreachable, lacks this release's schema, or fails
    during the block.
    """
    from core.storage.postgres.connect import DATABASE_ERRORS, reason_of

    connector = await connector_of(database, data)
    session = await open_database(connector)
    try:
        yield session
    except DATABASE_ERRORS as error:
        text = f"cannot use PostgreSQL at {connector.address}: {reason_of(error)}"
        raise OperatorError(text) from error
    finally:
        session.terminate()


async def _check(connector: Connector) -> None:
    import migrations
    from core.storage.postgres.migrate import revision

    probe = await connector.open_plain()
    found = await revision(probe)
    await probe.close()
    if found is None or found < migrations.HEAD:
        raise OperatorError(
            f"{connector.address} has no schema of this release: jetgate migrate --dsn ..."
        )
