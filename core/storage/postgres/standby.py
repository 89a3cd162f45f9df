"""Checks that what nodes are to read from is a standby of their database."""

import asyncio
import logging

import asyncpg

from core.errors import ConfigError, OperatorError, Unavailable
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.secrets import secret

log = logging.getLogger("jetgate.storage")

_KEY = "routes"
_ATTEMPTS, _PAUSE_S = 20, 0.25
"""A standby may have to catch up with a schema that was created just now."""


async def check_standby(primary: Connector, standby: Connector, flag: str) -> None:
    """Compare a secret that each database has of its own; one that is away passes.

    Raises:
        ConfigError: it is another database.
        OperatorError: the primary is away.
    """
    try:
        wanted = await secret(primary, _KEY)
    except Unavailable as error:
        raise OperatorError(f"{flag} cannot be checked: {error}") from error
    reason = "has no schema of this release"
    for _ in range(_ATTEMPTS):
        try:
            found = await secret(standby, _KEY, Purpose.STANDBY)
        except Unavailable as error:
            if not isinstance(error.__cause__, (asyncpg.UndefinedTableError,)):
                log.warning("not reading from the standby at %s: %s", standby.address, error)
                return
        except OperatorError:  # there is no such key
            pass
        else:
            if found == wanted:
                return
            reason = "holds another database than that of --dsn"
            break
        await asyncio.sleep(_PAUSE_S)
    raise ConfigError(flag, f"PostgreSQL at {standby.address} {reason}, expected a standby of it")
