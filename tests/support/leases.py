"""Lease sessions in tests."""

import contextlib

from core.errors import Unavailable
from core.node.lease_session import LeaseSession
from tests.support.eventually import observed


async def lead_again(leases: LeaseSession) -> None:
    """Renew leases after an outage, once PostgreSQL has noticed the end of the session before."""

    async def leads() -> bool:
        with contextlib.suppress(Unavailable):
            await leases.renew()
            return True
        return False

    await observed(leads)
