"""Opening of a process's lease session (`core.node.lease_session`).

The module imports little beside the driver of PostgreSQL. The runtime, whose import is slow, is
imported once there is a session.
"""

import asyncio
from typing import Any

from core import retry
from core.errors import Unavailable
from core.node.lease_session import LeaseSession, PeerFollower
from core.node.ownership.dispatch import Dispatch
from core.runtime.clock import Clock
from core.runtime.nuid import nuid
from core.storage.health import SESSION, StorageHealth
from core.storage.leases import NodeRow
from core.storage.postgres.connect import Connector
from core.storage.postgres.leases import PostgresLeases


async def campaign(
    connector: Connector,
    clock: Clock,
    ownership: Dispatch[Any],
    *,
    row: NodeRow | None = None,
    health: StorageHealth | None = None,
    follower: PeerFollower | None = None,
    database_clock: Clock | None = None,
) -> LeaseSession:
    """Open a lease session and return it; retry every 0.25 s until PostgreSQL answers.

    The arguments are those of `LeaseSession`. If cancelled, the session is closed.
    """
    session = LeaseSession(
        PostgresLeases(connector),
        clock,
        row or NodeRow(nuid()),
        ownership,
        health=health,
        follower=follower,
        database_clock=database_clock,
    )
    while True:
        try:
            await session.open()
            return session
        except Unavailable as error:
            session.health.failed(SESSION, str(error))
        except BaseException:
            await session.release()
            raise
        await asyncio.sleep(retry.SESSION_S)
