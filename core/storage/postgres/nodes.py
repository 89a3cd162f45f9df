"""Deletes the rows of nodes that do not run any more."""

from core.errors import Unavailable
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, trouble

_DELETE = """
    delete from jetgate_store.node
     where node = $1 and seen < clock_timestamp() - interval '10 seconds'
"""


async def delete_node(connector: Connector, node: str) -> None:
    """Delete the row of a node, unless its last heartbeat is less than ten seconds ago.

    Raises Unavailable if PostgreSQL does not answer.
    """
    try:
        connection = await connector.open(Purpose.WRITE)
        try:
            await connection.execute(_DELETE, node)
            await connection.close()
        finally:
            connection.terminate()
    except DATABASE_ERRORS as error:
        raise Unavailable(trouble(error)) from error
