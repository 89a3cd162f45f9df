"""The façade over HTTP in the process of `jetgate dev` and `jetgate serve`.

What it imports takes longer than the rest of a start: a process imports it while clients of NATS
are served already.
"""

import logging
from dataclasses import replace
from functools import partial

from starlette.types import ASGIApp

from core.client import Client, Options, attach, connect
from core.runtime.clock import Clock
from core.runtime.stalls import StallWatch
from core.server import Server
from core.storage.postgres.connect import Connector
from core.storage.postgres.secrets import secret
from core.term import Term
from core.transport.loopback import connect_loopback, connect_trusted
from gateway.app import create_app
from gateway.door import Door
from gateway.http_server import HttpServer, standby
from gateway.http_start import HttpStart
from gateway.observations import Observation, RequestFailed
from gateway.settings import Settings
from jetgate.login import login_to, rights_in
from jetgate.server_numbers import snapshot

log = logging.getLogger("jetgate")


class Facade:
    """Life cycle: `serve` and `stand_by` in turns, `stop`.

    Attributes:
        is_answering: whether requests are answered; else they wait until one of the two is called.
    """

    def __init__(self, start: HttpStart, server: Server, clock: Clock, settings: Settings) -> None:
        self.is_answering = False
        self._http = HttpServer(start, settings)
        self._server = server
        self._clock = clock
        self._clients: list[Client] = []
        self._door: Door | None = None
        self._settings = settings

    async def serve(self, term: Term, connector: Connector, stalls: StallWatch) -> None:
        """Serve everything that a term has."""
        hub = self._server.hub
        link = attach(partial(connect_loopback, hub))
        knows_users = hub.authenticator is not None
        # Where users are configured every request has a connection of its own identity.
        client = Client(link, Options()) if knows_users else await connect(link)
        lookups = await connect(attach(partial(connect_trusted, hub))) if knows_users else None
        self._clients = [client] if lookups is None else [client, lookups]
        app = create_app(
            replace(self._settings, ack_key=await secret(connector, "ack-tokens")),
            client,
            login=login_to(hub) if knows_users else None,
            rights=rights_in(hub),
            server=lookups,
            observe=_observe,
            snapshot=partial(snapshot, hub, term, stalls),
            clock=self._clock,
        )
        self._door = app.state.door
        hub.on_users = self._door.users_changed
        self._answer(app)

    def stand_by(self) -> None:
        """Answer that this process does not lead."""
        self._answer(standby)

    def _answer(self, app: ASGIApp) -> None:
        self.is_answering = True
        self._http.use(app)

    async def step_down(self) -> None:
        """End what `serve` began; what answers is somebody else's decision."""
        self._server.hub.on_users = None
        if self._door is not None:
            await self._door.close()
            self._door = None
        clients, self._clients = self._clients, []
        for client in clients:
            await client.close()

    async def stop(self) -> None:
        """Close the port."""
        await self._http.stop()


def _observe(observation: Observation) -> None:
    if isinstance(observation, RequestFailed):
        log.error("request %s failed", observation.operation, exc_info=observation.error)
