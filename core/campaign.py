"""How a process comes to a session with which it can lead.

It needs little beside the driver of PostgreSQL: what is led, and takes long to import, `core.term`
loads once there is a session.
"""

import asyncio

from core.cluster.leadership import Follower, Leadership
from core.errors import Unavailable
from core.runtime.clock import Clock
from core.runtime.nuid import nuid
from core.storage.health import SESSION, StorageHealth
from core.storage.leases import NodeRow
from core.storage.postgres.connect import Connector
from core.storage.postgres.leases import PostgresLeases

_RETRY_S = 0.25


async def campaign(
    connector: Connector,
    clock: Clock,
    *,
    row: NodeRow | None = None,
    health: StorageHealth | None = None,
    follower: Follower | None = None,
) -> Leadership:
    """Wait until this process has a session with a database, and leads nothing yet.

    `row` is what other nodes see of this one, `follower` is told of them. Cancelled, this leaves
    nothing.
    """
    store, node = PostgresLeases(connector), row or NodeRow(nuid())
    leadership = Leadership(store, clock, node, health=health, follower=follower)
    while True:
        try:
            await leadership.open()
            return leadership
        except Unavailable as error:
            leadership.health.failed(SESSION, str(error))
        except BaseException:
            await leadership.release()
            raise
        await asyncio.sleep(_RETRY_S)
