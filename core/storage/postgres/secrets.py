"""Reads the secret keys that all nodes share.

They are generated with the schema and stored in it.
"""

import asyncio
import hmac
from contextlib import suppress

from core.errors import OperatorError, Unavailable
from core.storage.postgres.connect import (
    CONNECT_TIMEOUT_S,
    DATABASE_ERRORS,
    Connector,
    Purpose,
    trouble,
)


async def secret(connector: Connector, name: str) -> bytes:
    """Return the secret key with a name, such as `ack-tokens`.

    Raises:
        OperatorError: The key does not exist.
        Unavailable: PostgreSQL does not answer.
    """
    try:
        async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
            value = await _read(connector, name)
    except DATABASE_ERRORS as error:
        raise Unavailable(trouble(error)) from error
    if value is None:
        raise OperatorError(f"the key {name} is missing from jetgate_store.secret")
    return value


async def _read(connector: Connector, name: str) -> bytes | None:
    connection = await connector.open(Purpose.READ)
    try:
        value: bytes | None = await connection.fetchval(
            "select value from jetgate_store.secret where name = $1", name
        )
        with suppress(*DATABASE_ERRORS):  # the result is there already
            await connection.close()
        return value
    finally:
        connection.terminate()


async def link_secret(connector: Connector) -> bytes:
    """Return the key by which the nodes of this database authenticate each other.

    A copy of the database (a template, a backup restored beside it) has the same stored key. The
    result is a hash of that key and the oid of the database, so it differs.

    Raises:
        OperatorError: The stored key does not exist.
        Unavailable: PostgreSQL does not answer.
    """
    key = await secret(connector, "routes")
    try:
        async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
            number = await _number(connector)
    except DATABASE_ERRORS as error:
        raise Unavailable(trouble(error)) from error
    return hmac.digest(key, b"database %d" % number, "sha256")


async def _number(connector: Connector) -> int:
    connection = await connector.open(Purpose.READ)
    try:
        number: int = await connection.fetchval(
            "select oid::int8 from pg_database where datname = current_database()"
        )
        with suppress(*DATABASE_ERRORS):  # the result is there already
            await connection.close()
        return number
    finally:
        connection.terminate()
