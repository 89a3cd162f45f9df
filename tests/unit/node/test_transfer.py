"""Acquiring lease groups: an outage in the middle leaves nothing behind that is done later."""

import asyncio
from collections.abc import Collection
from typing import Any, cast

import pytest

from core.errors import Unavailable
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.state import LeasesTaken, State
from core.node.ownership.transfer import Transfers


class Locks:
    """Locks of a database that is away for the first request."""

    def __init__(self, dispatch: Dispatch[str]) -> None:
        self.asked: list[frozenset[int]] = []
        self._dispatch = dispatch

    async def take(self, groups: Collection[int]) -> frozenset[int]:
        self.asked.append(frozenset(groups))
        if len(self.asked) == 1:
            raise Unavailable("away")
        self._dispatch.post(LeasesTaken(dict.fromkeys(groups, 7)))
        return frozenset(groups)

    async def give(self, groups: Collection[int]) -> None:
        """Nothing is held."""


class Halted(Exception):
    """The load is reached: it is not part of this test."""


def test_an_outage_leaves_no_request_for_leases_behind() -> None:
    dispatch: Dispatch[str] = Dispatch()
    dispatch.peer_told("peer", {97: 3})  # groups that are free, and led by a peer, are two steps
    locks = Locks(dispatch)
    unused = cast(Any, None)
    transfers = Transfers(
        cast(Any, dispatch), unused, locks, unused, unused, unused, unused, unused, unused
    )
    loads: list[frozenset[int]] = []

    async def load(groups: frozenset[int]) -> None:
        loads.append(groups)
        raise Halted

    async def scenario() -> None:
        with pytest.raises(Unavailable):
            await transfers.acquire({96, 97})
        with pytest.raises(Halted):
            await transfers.acquire({96, 97})

    transfers._load_and_serve = load  # type: ignore[method-assign]
    asyncio.run(scenario())

    assert sorted(map(sorted, locks.asked[1:])) == [[96], [97]]
    assert len(loads) == 1
    assert dispatch.ownership.within(State.LOADING) == {96, 97}
