"""Secret keys that all nodes share: generated with the schema and stored in it."""

from core.errors import OperatorError
from core.storage.postgres.connect import Connector, Purpose


async def secret(connector: Connector, name: str) -> bytes:
    """Return the key of a name.

    Raises:
        OperatorError: there is no such key.
    """
    connection = await connector.open(Purpose.READ)
    try:
        value = await connection.fetchval(
            "select value from jetgate_store.secret where name = $1", name
        )
    finally:
        await connection.close()
    if value is None:
        raise OperatorError(f"the key {name} is missing from jetgate_store.secret")
    return bytes(value)
