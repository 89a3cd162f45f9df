"""Helpers for lease sessions, which hold the leases of a node in PostgreSQL."""

import contextlib

from core.errors import Unavailable
from core.node.lease_session import LeaseSession
from core.node.lease_times import LeaseTimes
from core.units import Nanos
from tests.support.eventually import observed


async def lead_again(leases: LeaseSession) -> None:
    """Renew leases after an outage: repeat until PostgreSQL has ended the previous session.

    Raises AssertionError after 30 seconds.
    """

    async def leads() -> bool:
        with contextlib.suppress(Unavailable):
            await leases.renew()
            return True
        return False

    await observed(leads)


def lease_times(**nanos: int) -> LeaseTimes:
    """Return the default `LeaseTimes`, with the given ones (in nanoseconds) replaced."""
    return LeaseTimes(**{name: Nanos(value) for name, value in nanos.items()})
