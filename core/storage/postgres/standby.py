"""Checks that the server of option `--read-dsn` is a standby of the nodes' database."""

import asyncio
import logging
from typing import Any

import asyncpg

from core.errors import ConfigError, Unavailable
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, trouble

log = logging.getLogger(__name__)

# A copy made by `create database ... template` or `pg_dump` has the same key, but another oid or
# another system identifier.
_IDENTITY = """
    select s.value, c.system_identifier, d.oid
      from jetgate_store.secret s, pg_control_system() c, pg_database d
     where s.name = 'routes' and d.datname = current_database()
"""
_TIMEOUT_S = 5.0
_ATTEMPTS, _PAUSE_S = 20, 0.25
"""Attempts and pause in seconds: a standby may still lack a schema that was just created."""


async def check_standby(primary: Connector, standby: Connector, flag: str) -> None:
    """Check that `standby` is a replica of the database of `primary`.

    Accept it if it does not answer. `flag` names the option of the standby, for the error.

    Raises:
        ConfigError: The standby belongs to another database.
        Unavailable: The primary does not answer.
    """
    wanted = await _identity(primary, Purpose.GET)
    found = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            await asyncio.sleep(_PAUSE_S)
        try:
            found = await _identity(standby, Purpose.STANDBY)
        except Unavailable as error:
            log.warning("not reading from the standby at %s: %s", standby.address, error)
            return
        if found is not None:
            break
    if found != wanted:
        what = "has no schema of this release" if found is None else "holds another database"
        text = f"PostgreSQL at {standby.address} {what}, expected a standby of {primary.address}"
        raise ConfigError(flag, text)


async def _identity(connector: Connector, purpose: Purpose) -> tuple[object, ...] | None:
    """Return (shared key, system identifier, oid) of a database; None if it has no schema yet.

    Raises Unavailable if PostgreSQL does not answer within 5 seconds.
    """
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            connection: Any = await connector.open(purpose)
            try:
                row = await connection.fetchrow(_IDENTITY)
            except asyncpg.UndefinedTableError:
                row = None
            finally:
                connection.terminate()
    except DATABASE_ERRORS as error:
        raise Unavailable(trouble(error)) from error
    return None if row is None else tuple(row)
