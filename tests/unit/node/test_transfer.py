"""Acquiring lease groups: an outage in the middle leaves nothing behind that is done later."""

# Subject: placement

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.errors import Unavailable
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.state import LeasesAcquired, Loaded, State
from core.node.ownership.transfer import Transfers
from core.units import LeaseGroup, Nanos
from tests.support.lease_groups import by_group, lease_groups


class Locks:
    """Locks of a database that is away for one of the requests.

    Args:
        dispatch: The ownership of the node.
        fails: The number of the request that fails, from 1.
    """

    def __init__(self, dispatch: Dispatch[str], fails: int) -> None:
        self.asked: list[frozenset[LeaseGroup]] = []
        self.held: set[LeaseGroup] = set()
        self._dispatch = dispatch
        self._fails = fails

    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]:
        self.asked.append(frozenset(groups))
        if len(self.asked) == self._fails:
            raise Unavailable("away")
        assert not self.held & set(groups)
        self.held |= set(groups)
        self._dispatch.post(LeasesAcquired(dict.fromkeys(groups, 7)))
        return frozenset(groups)

    async def release_groups(self, groups: Collection[LeaseGroup]) -> None:
        self.held -= set(groups)


@pytest.mark.parametrize("fails", [1, 2])
def test_an_outage_leaves_no_request_for_leases_behind(fails: int) -> None:
    dispatch: Dispatch[str] = Dispatch()
    dispatch.peer_announced(
        "peer", by_group({97: 3})
    )  # groups that are free, and led by a peer, are two steps
    locks = Locks(dispatch, fails)
    unused = cast(Any, None)
    registry = cast(
        Any, SimpleNamespace(streams={}, release=None, lose=None, on_new_leaders=lambda _: None)
    )
    transfers = Transfers(
        cast(Any, dispatch), unused, locks, unused, registry, unused, unused, unused, unused
    )

    async def load(groups: frozenset[LeaseGroup]) -> None:
        dispatch.post(Loaded(groups, Nanos(1)))

    async def scenario() -> None:
        with pytest.raises(Unavailable):
            await transfers.acquire(lease_groups(96, 97))
        assert not locks.held
        assert not dispatch.ownership.within(State.LOADING)
        assert await transfers.acquire(lease_groups(96, 97)) == {96, 97}

    transfers._load_and_serve = load  # type: ignore[method-assign]
    asyncio.run(scenario())

    assert sorted(map(sorted, locks.asked[fails:])) == [[96], [97]]
    assert locks.held == {96, 97}
