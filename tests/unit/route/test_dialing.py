"""Dialling that ends while its socket opens."""

# Subject: routes

import asyncio
from collections.abc import Callable

import pytest

from core.pubsub.server import Hub
from core.route.dialing import Dialer
from core.route.link import RouteLink
from core.route.mesh import Mesh
from core.route.settings import ClusterSettings, RouteUrl
from core.runtime.loop_tick import LoopTick
from tests.support.sessions import ManualClock, Socket


@pytest.mark.parametrize("comes", [True, False], ids=["with a socket", "without"])
def test_nothing_is_left_of_a_link_whose_dialling_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    """uvloop closes the socket then, and does not tell its protocol."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        made: list[RouteLink] = []
        dialled = asyncio.Event()

        async def create_connection(make: Callable[[], RouteLink], *_: object) -> None:
            made.append(make())
            if comes:
                made[0].connection_made(Socket())
            dialled.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(loop, "create_connection", create_connection)
        hub = Hub(LoopTick(), ManualClock(), jetstream=False)
        mesh = Mesh(hub, ClusterSettings(name="test"))
        dialer = Dialer(mesh)
        dialer.keep(RouteUrl(host="127.0.0.1", port=1), is_configured=True)
        await dialled.wait()
        assert mesh.is_open(made[0]) == comes

        await dialer.close()

        assert not mesh.is_open(made[0])
        assert made[0].closed == made[0].ended.is_set() == comes

    asyncio.run(scenario())
