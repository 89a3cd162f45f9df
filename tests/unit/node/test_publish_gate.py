"""The publish gate of a node while its groups are transferred."""

# Subject: leadership

import asyncio
from collections.abc import Collection
from typing import Any, cast

from core.node.owner_links import OwnerLinks
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.state import Drained, Released, TransferRequested
from core.node.publish_gate import PublishGate
from core.node.server import Server
from core.protocol.publish_hold import HoldRule
from core.pubsub.server import Hub
from core.runtime.loop_tick import LoopTick
from core.runtime.subscribers import Subscribers
from core.units import LeaseGroup
from tests.support.lease_groups import by_group, lease_groups
from tests.support.ownership import own
from tests.support.sessions import ManualClock, Only


class _Server:
    """What the front uses of a server."""

    def __init__(self) -> None:
        self.hub = Hub(LoopTick(), ManualClock())
        self.ownership: Dispatch[Any] = Dispatch()
        self.links = None
        self.owner_links = OwnerLinks(self.ownership, None)

    def close_clients(self, reason: str) -> None:
        raise AssertionError(reason)


class _Refusals:
    """Notes whether it refuses."""

    is_known = True
    is_refusing = False
    refusable: set[LeaseGroup]

    def __init__(self) -> None:
        self.learned: Subscribers[[]] = Subscribers()

    def groups(self) -> Collection[LeaseGroup]:
        return lease_groups(0, 7)

    def answer(self, groups: Collection[LeaseGroup], *, requests: bool) -> None:
        self.is_refusing = bool(groups)

    def held(self, groups: Collection[LeaseGroup], refusable: Collection[LeaseGroup]) -> HoldRule:
        self.refusable = set(refusable)
        return Only(*(str(group).encode() for group in groups))

    async def close(self) -> None:
        self.is_refusing = False


def test_nothing_is_refused_while_a_term_that_ends_still_stores_it() -> None:
    """Else a publish on its way to the leader would be both: refused, and there."""

    async def play() -> None:
        server, refusals, asked = _Server(), _Refusals(), TransferRequested({"": lease_groups(7)})
        gate = PublishGate(cast(Server, server))
        gate.hold()
        gate.refuse_by(refusals)
        assert (refusals.is_refusing, server.hub.is_holding) == (True, True)

        own(server.ownership, by_group({0: 5, 7: 5}))
        assert (refusals.is_refusing, server.hub.is_holding) == (False, False)

        server.ownership.post(asked)
        assert (refusals.is_refusing, server.hub.is_holding) == (False, True)
        assert refusals.refusable == set()

        server.ownership.post(Drained(asked))
        server.ownership.post(Released(asked))
        assert refusals.refusable == {7}
        assert (refusals.is_refusing, server.hub.is_holding) == (True, True)
        assert (server.hub.is_held(b"7"), server.hub.is_held(b"6")) == (True, False)
        await gate.close()

    asyncio.run(play())
