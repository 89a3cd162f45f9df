"""What the front of a node does with publishes while its own leadership ends."""

import asyncio
from collections.abc import Callable, Collection
from typing import cast

from core.front import Front
from core.protocol.holding import Held
from core.pubsub.server import Hub
from core.route.database_mesh import DatabaseMesh
from core.runtime.turn import Turn
from core.server import Server
from tests.support.mesh import Mesh
from tests.support.sessions import ManualClock, Only


class _Server:
    """What the front uses of a server."""

    def __init__(self) -> None:
        self.hub = Hub(Turn(), ManualClock())

    def close_clients(self, reason: str) -> None:
        raise AssertionError(reason)


class _Refusals:
    """Notes whether it refuses."""

    is_known = True
    is_refusing = False
    refusable: set[int]
    on_learned: Callable[[], None]

    def groups(self) -> Collection[int]:
        return (0, 7)

    def answer(self, groups: Collection[int], *, requests: bool) -> None:
        self.is_refusing = bool(groups)

    def held(self, groups: Collection[int], refusable: Collection[int]) -> Held:
        self.refusable = set(refusable)
        return Only(*(str(group).encode() for group in groups))

    async def close(self) -> None:
        self.is_refusing = False


def test_nothing_is_refused_while_a_term_that_ends_still_stores_it() -> None:
    """Else a publish on its way to the leader would be both: refused, and there."""

    async def play() -> None:
        server, refusals = _Server(), _Refusals()
        front = Front(cast(Server, server))
        front.hold()
        front.refuse_by(refusals)
        assert (refusals.is_refusing, server.hub.is_holding) == (True, True)

        front.claim({0: 5, 7: 5})
        assert (refusals.is_refusing, server.hub.is_holding) == (False, False)

        front.claim({0: 5}, ending=(7,))
        assert (refusals.is_refusing, server.hub.is_holding) == (False, True)
        assert refusals.refusable == set()

        front.claim({0: 5})
        assert refusals.refusable == {7}
        assert (refusals.is_refusing, server.hub.is_holding) == (True, True)
        assert (server.hub.is_held(b"7"), server.hub.is_held(b"6")) == (True, False)
        await front.close()

    asyncio.run(play())


def test_groups_that_a_peer_leads_from_now_on_are_told_once() -> None:
    async def play() -> list[set[int]]:
        told: list[set[int]] = []
        mesh = Mesh()
        front = Front(cast(Server, _Server()), cast(DatabaseMesh, mesh))
        front.on_led = lambda groups: told.append(set(groups))
        mesh.led(one=[0, 7])
        mesh.led(one=[0, 7])
        mesh.led(one=[0], two=[7, 8])
        mesh.led(one=[0])
        mesh.led(one=[0, 8])
        await front.close()
        return told

    assert asyncio.run(play()) == [{0, 7}, {7, 8}, {8}]
