"""Rows of nodes that are gone."""

from typing import Any

from core.errors import Unavailable
from core.storage.postgres.connect import DATABASE_ERRORS, trouble

_DELETE = """
    delete from jetgate_store.node
     where node = $1 and seen < clock_timestamp() - interval '10 seconds'
"""


async def delete_node(pool: Any, node: str) -> None:
    """Delete the row of a node, unless it was seen lately. Raises Unavailable."""
    try:
        await pool.execute(_DELETE, node)
    except DATABASE_ERRORS as error:
        raise Unavailable(trouble(error)) from error
