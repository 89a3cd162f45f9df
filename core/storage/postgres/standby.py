"""Checks that what nodes are to read from is a standby of their database."""

import asyncio
import logging
from typing import Any

import asyncpg

from core.errors import ConfigError, Unavailable
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, trouble

log = logging.getLogger("jetgate.storage")

# A copy made by `create database ... template` or `pg_dump` has the key, but is another database.
_IDENTITY = """
    select s.value, c.system_identifier, d.oid
      from jetgate_store.secret s, pg_control_system() c, pg_database d
     where s.name = 'routes' and d.datname = current_database()
"""
_PATIENCE_S = 5.0
_ATTEMPTS, _PAUSE_S = 20, 0.25
"""A standby may have to catch up with a schema that was created just now."""


async def check_standby(primary: Connector, standby: Connector, flag: str) -> None:
    """Compare what is in a database and its standbys alone; a standby that is away passes.

    Raises:
        ConfigError: it is another database.
        Unavailable: the primary is away.
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
    """Return what a database has of its own; None: it has no schema yet. Raises Unavailable."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
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
