"""The database that a command looks into: that of `--dsn`, or of a `jetgate dev` that runs."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import OperatorError, Unavailable
from core.storage.claims import is_claimed
from core.storage.postgres.connect import Connector, Purpose
from jetgate.config import checked_dsn

# How long, in seconds, a server that has just been started is waited for.
_START_S, _POLL_S = 10.0, 0.05

Dsn = Annotated[
    str,
    typer.Option(
        envvar="JETGATE_DSN",
        help="Database of jetgate serve; without it that of the jetgate dev in --data.",
    ),
]
Data = Annotated[Path, typer.Option(help="Data directory of a jetgate dev that runs.")]


async def dsn_of(dsn: str, data: Path) -> str:
    """Return the address of the database: `dsn`, or that of a `jetgate dev`, which may be starting.

    Raises OperatorError when nothing runs there.
    """
    if dsn:
        return checked_dsn(dsn)
    from core.storage.postgres.embedded.running import running_dsn

    for _ in range(round(_START_S / _POLL_S)):
        try:
            await _check(found := running_dsn(data))
            return found
        except (OperatorError, Unavailable):
            if not is_claimed(data):
                raise
        await asyncio.sleep(_POLL_S)
    return running_dsn(data)


async def open_database(dsn: str) -> Any:
    """Open a session. Raises OperatorError when it cannot be reached or is not ours."""
    await _check(dsn)
    return await Connector(dsn).open(Purpose.ADMIN)


async def _check(dsn: str) -> None:
    connector = Connector(dsn)
    probe = await connector.open_plain()
    found = await probe.fetchval("select to_regclass('jetgate_store.remote') is not null")
    await probe.close()
    if not found:
        raise OperatorError(
            f"{connector.address} has no schema of this release: jetgate migrate --dsn ..."
        )
