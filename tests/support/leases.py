"""Lease sessions in tests."""

import contextlib

from core.errors import Unavailable
from core.node.lease_session import LeaseSession
from core.node.lease_times import LeaseTimes
from core.units import Nanos
from tests.support.eventually import observed


async def lead_again(leases: LeaseSession) -> None:
    """Renew leases after an outage, once PostgreSQL has noticed the end of the session before."""

    async def leads() -> bool:
        with contextlib.suppress(Unavailable):
            await leases.renew()
            return True
        return False

    await observed(leads)


def lease_times(**nanos: int) -> LeaseTimes:
    """Return the intervals of leases, with some set in nanoseconds."""
    return LeaseTimes(**{name: Nanos(value) for name, value in nanos.items()})
