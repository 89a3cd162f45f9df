"""The campaign of a process that would lead over a database.

It needs little beside the driver of PostgreSQL: what is led, and takes long to import, `core.term`
loads once the campaign is won.
"""

from core.cluster.leadership import Follower, Leadership
from core.runtime.clock import Clock
from core.runtime.nuid import nuid
from core.storage.health import StorageHealth
from core.storage.leases import NodeRow
from core.storage.postgres.connect import Connector
from core.storage.postgres.leases import PostgresLeases
from core.storage.postgres.locks import LEASE_GROUPS


async def campaign(
    connector: Connector,
    clock: Clock,
    *,
    row: NodeRow | None = None,
    health: StorageHealth | None = None,
    follower: Follower | None = None,
) -> Leadership:
    """Wait until this process leads the nodes of a database.

    `row` is what other nodes see of this one, `follower` is told of them. Cancelled, this leaves
    nothing.
    """
    leadership = Leadership(
        PostgresLeases(connector),
        clock,
        row or NodeRow(nuid()),
        range(LEASE_GROUPS),
        health=health,
        follower=follower,
    )
    try:
        await leadership.acquire()
    except BaseException:
        await leadership.release()
        raise
    return leadership
