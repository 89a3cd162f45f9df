"""The campaign of a process that would lead over a database.

It needs little beside the driver of PostgreSQL: what is led, and takes long to import, `core.term`
loads once the campaign is won.
"""

from collections.abc import Callable

from core.cluster.leadership import Leadership
from core.runtime.clock import Clock
from core.runtime.nuid import nuid
from core.storage.health import StorageHealth
from core.storage.leases import NodeRow
from core.storage.postgres.connect import Connector
from core.storage.postgres.leases import PostgresLeases


async def campaign(
    connector: Connector,
    clock: Clock,
    *,
    name: str = "",
    health: StorageHealth | None = None,
    standing_by: Callable[[], None] | None = None,
    obstacle: Callable[[], str] = lambda: "",
) -> Leadership:
    """Wait until this process leads the nodes of a database.

    `name` is what other nodes call this one; `standing_by` is called when it does not lead at once;
    the others are told of, and asked, as `Leadership` says. Cancelled, this leaves nothing.
    """
    leadership = Leadership(
        PostgresLeases(connector),
        clock,
        NodeRow(name or nuid()),
        health=health,
        standing_by=standing_by,
        obstacle=obstacle,
    )
    try:
        await leadership.acquire()
    except BaseException:
        await leadership.release()
        raise
    return leadership
