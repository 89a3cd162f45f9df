"""Secret keys that all nodes share: generated with the schema and stored in it."""

import asyncio
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
    """Return the key of a name.

    Raises:
        OperatorError: there is no such key.
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
        with suppress(*DATABASE_ERRORS):  # what it was opened for is there
            await connection.close()
        return value
    finally:
        connection.terminate()
