"""The database of a command: that of `--dsn` or `--dsn-file`, or of a `jetgate dev` that runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import ConfigError, OperatorError, Unavailable, Unreachable
from core.runtime.clock import Clock
from jetgate.secret_files import secret_of

if TYPE_CHECKING:  # what serves imports the driver of PostgreSQL after its ports are open
    from core.storage.postgres.connect import Connector

log = logging.getLogger("jetgate.database")

# How long, in seconds, a server that has just been started is waited for.
_START_S, _POLL_S = 10.0, 0.05
# While a database is waited for: seconds between two attempts, and between two lines of the log.
_RETRY_S, _REMIND_S = 0.5, 10.0
_SECOND = 1_000_000_000

Dsn = Annotated[
    str | None,
    typer.Option(
        envvar="JETGATE_DSN", help="Database, as libpq reads it: postgresql://user@host/name"
    ),
]
DsnFile = Annotated[
    str, typer.Option(envvar="JETGATE_DSN_FILE", help="File that holds what --dsn would say.")
]
DsnPasswordFile = Annotated[
    str,
    typer.Option(
        envvar="JETGATE_DSN_PASSWORD_FILE",
        help="File that is the password of the database's role; read for every connection.",
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
    typer.Option(envvar="JETGATE_READ_DSN_FILE", help="File that holds what --read-dsn would say."),
]
WaitForDb = Annotated[
    float,
    typer.Option(
        envvar="JETGATE_WAIT_FOR_DB",
        help="Seconds to wait for a PostgreSQL that does not answer yet.",
        min=0,
    ),
]
Data = Annotated[Path, typer.Option(help="Data directory of a jetgate dev that runs.")]


@dataclass(frozen=True, slots=True)
class Database:
    """What the flags of a command say about its database.

    Attributes:
        dsn: a connection string.
        place: the flag that it comes from.
        password_file: a file that is the password; empty: not given.
        wait_seconds: how long a database that does not answer is waited for.
    """

    dsn: str = field(repr=False)
    place: str = "--dsn"
    password_file: str = ""
    wait_seconds: float = 0

    def connector(self) -> Connector:
        """Return what opens sessions. Raises ConfigError for a connection string of no use."""
        from core.storage.postgres.connect import Connector

        return Connector(self.dsn, place=self.place, password_file=self.password_file)

    async def checked_standby(self, primary: Connector) -> Connector:
        """Return what opens sessions with this standby of a database.

        Raises:
            ConfigError: it is a standby of none, or of another one.
            Unavailable: the primary is away.
        """
        from core.storage.postgres.standby import check_standby

        standby = self.connector()
        await check_standby(primary, standby, self.place)
        return standby

    async def checked(self, connector: Connector, clock: Clock) -> None:
        """Check the database, once it answers.

        Raises:
            OperatorError: it does not answer in time, or must not be used.
        """
        from core.storage.postgres.preflight import preflight

        began, told = clock.monotonic(), -1.0
        while True:
            try:
                replication = await preflight(connector)
                break
            except Unreachable as error:
                waited = (clock.monotonic() - began) / _SECOND
                if waited >= self.wait_seconds:
                    after = f" (waited {waited:.0f} s)" if self.wait_seconds else ""
                    raise OperatorError(f"{error}{after}") from error
                if told < 0 or waited - told >= _REMIND_S:
                    log.warning("%s; waiting, %.0f s more", error, self.wait_seconds - waited)
                    told = waited
            await asyncio.sleep(min(_RETRY_S, self.wait_seconds))
        if told >= 0:
            waited = (clock.monotonic() - began) / _SECOND
            log.info("PostgreSQL at %s answers after %.1f s", connector.address, waited)
        if replication.cost:
            log.warning("%s: %s", replication.found, replication.cost)


def given(
    dsn: str | None, file: str, password_file: str, wait_seconds: float = 0
) -> Database | None:
    """Return what flags say about a database; None if they name none.

    Raises:
        ConfigError: they exclude each other, or a file cannot be used.
    """
    if dsn is None and not file:
        if password_file:
            raise ConfigError("--dsn-password-file", "needs --dsn or --dsn-file")
        return None
    place = "--dsn-file" if file else "--dsn"
    return Database(secret_of("--dsn", dsn or "", file), place, password_file, wait_seconds)


def standby(dsn: str | None, file: str, password_file: str) -> Database | None:
    """Return what flags say about a standby; None if they name none. Raises ConfigError."""
    if dsn is None and not file:
        return None
    place = "--read-dsn-file" if file else "--read-dsn"
    return Database(secret_of("--read-dsn", dsn or "", file), place, password_file)


def required(dsn: str | None, file: str, password_file: str, wait_seconds: float = 0) -> Database:
    """Return what flags say about a database, of which there must be one. Raises ConfigError."""
    found = given(dsn, file, password_file, wait_seconds)
    if found is None:
        raise typer.BadParameter("name a database with --dsn or --dsn-file")
    return found


async def connector_of(database: Database | None, data: Path) -> Connector:
    """Return the database of flags, or of a `jetgate dev`, which may be starting.

    Raises OperatorError when nothing runs there.
    """
    if database is not None:
        return database.connector()
    from core.storage.claims import is_claimed
    from core.storage.postgres.connect import Connector
    from core.storage.postgres.embedded.running import running_dsn

    for _ in range(round(_START_S / _POLL_S)):
        try:
            await _check(found := Connector(running_dsn(data), environment={}))
            return found
        except (OperatorError, Unavailable):
            if not is_claimed(data):
                raise
        await asyncio.sleep(_POLL_S)
    return Connector(running_dsn(data), environment={})


async def open_database(connector: Connector) -> Any:
    """Open a session. Raises OperatorError when it cannot be reached or is not ours."""
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
    """A session with the database of flags, or of a `jetgate dev`.

    Raises OperatorError when it cannot be reached, is not ours, or fails within the block.
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
