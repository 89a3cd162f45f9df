"""Checks at the start of a node that no running node has the same name.

Two nodes of one name would overwrite each other's rows. The drop-in (`dropin.shared`) waits up to
ten seconds for the other node to end, and then fails.
"""

import asyncio
from contextlib import suppress

from core.errors import Unavailable
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, trouble

_TIMEOUT_S = 5.0
# A killed node keeps its row for a while, but has no session any more.
_TAKEN = """
    select exists (
        select 1 from jetgate_store.node n join pg_stat_activity a on a.pid = n.session_pid
         where n.node = $1 and n.seen >= a.backend_start
           and n.seen > clock_timestamp() - interval '10 seconds')
"""


async def is_taken(connector: Connector, name: str) -> bool:
    """Return whether a node of this name runs: its session exists and its last heartbeat is recent.

    "Recent" is less than 10 seconds ago. Raises Unavailable if PostgreSQL does not answer within 5
    seconds.
    """
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            connection = await connector.open(Purpose.READ)
            try:
                found = bool(await connection.fetchval(_TAKEN, name))
                with suppress(*DATABASE_ERRORS):  # the result is there already
                    await connection.close()
            finally:
                connection.terminate()
    except DATABASE_ERRORS as error:
        raise Unavailable(trouble(error)) from error
    return found
