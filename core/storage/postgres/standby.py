"""Checks that what nodes are to read from is a standby of their database."""

import asyncio
import logging

import asyncpg

from core.errors import ConfigError, OperatorError, Unavailable
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.secrets import secret

log = logging.getLogger("jetgate.storage")

_ATTEMPTS, _PAUSE_S = 20, 0.25
"""A standby may have to catch up with a schema that was created just now."""


async def check_standby(standby: Connector, routes: bytes, flag: str) -> None:
    """Compare the key `routes`, which each database has of its own; one that is away passes.

    Raises ConfigError when it is another database.
    """
    reason = "has no schema of this release"
    for _ in range(_ATTEMPTS):
        try:
            found = await secret(standby, "routes", Purpose.STANDBY)
        except Unavailable as error:
            if not isinstance(error.__cause__, asyncpg.UndefinedTableError):
                log.warning("not reading from the standby at %s: %s", standby.address, error)
                return
        except OperatorError as error:  # there is no such key
            log.debug("%s", error)
        else:
            if found == routes:
                return
            reason = "holds another database than that of --dsn"
            break
        await asyncio.sleep(_PAUSE_S)
    raise ConfigError(flag, f"PostgreSQL at {standby.address} {reason}, expected a standby of it")
