"""The façade over HTTP in the process of `jetgate dev` and `jetgate serve`.

What it imports takes longer than the rest of a start: a process imports it while clients of NATS
are served already.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from secrets import token_bytes

from starlette.applications import Starlette

from core.client import Client, Options, attach, connect
from core.runtime.clock import Clock
from core.server import Server
from core.storage.postgres.connect import Connector
from core.storage.postgres.secrets import secret
from core.term import Term
from core.transport.loopback import connect_loopback, connect_trusted
from gateway.app import create_app
from gateway.door import Door
from gateway.http_server import HttpServer
from gateway.http_start import HttpStart
from gateway.metrics import Metrics
from gateway.observations import Observation, RequestFailed, SignInFailed
from gateway.settings import Settings
from jetgate.login import login_to, rights_in
from jetgate.server_numbers import Node, snapshot

log = logging.getLogger("jetgate")


class Facade:
    """Life cycle: `serve` and `stand_by` in turns, `stop`.

    Attributes:
        is_answering: whether requests are answered; else they wait until one of the two is called.
    """

    def __init__(self, start: HttpStart, server: Server, node: Node, settings: Settings) -> None:
        self.is_answering = False
        self._http = HttpServer(start, settings, server.hub.descriptors)
        self._hub = server.hub
        self._node = node
        self._metrics = Metrics(partial(snapshot, node))
        self._link = attach(partial(connect_loopback, self._hub))
        self._clients: list[Client] = []
        self._doors: list[Door] = []
        self._settings = settings

    async def serve(self, term: Term, connector: Connector) -> None:
        """Serve everything that a term has."""
        # Where users are configured every request has a connection of its own identity.
        client = Client(self._link, Options()) if self._knows_users else await connect(self._link)
        self._clients.append(client)
        lookups = None
        if self._knows_users:
            lookups = await connect(attach(partial(connect_trusted, self._hub)))
            self._clients.append(lookups)
        settings = replace(self._settings, ack_key=await secret(connector, "ack-tokens"))
        former, self._doors = self._doors, []
        self._node.term = term
        self._answer(self._app(settings, client, lookups, clock=term.leadership.clock))
        self._hub.on_users = self._doors[0].users_changed
        for door in former:
            await door.close()

    def stand_by(self, why: Callable[[], str]) -> None:
        """Answer that this process does not lead; `why` returns what is known of that."""
        self._node.term = None
        nobody = Client(self._link, Options())
        self._clients.append(nobody)
        settings = replace(self._settings, ack_key=token_bytes(32))  # it makes no ack tokens
        self._answer(self._app(settings, nobody, None, why))

    def _app(
        self,
        settings: Settings,
        client: Client,
        lookups: Client | None,
        standing_by: Callable[[], str] | None = None,
        clock: Clock | None = None,
    ) -> Starlette:
        return create_app(
            settings,
            client,
            login=login_to(self._hub) if self._knows_users else None,
            rights=rights_in(self._hub),
            server=lookups,
            observe=self._observe,
            metrics=self._metrics,
            trouble=lambda: self._node.health.trouble,
            standing_by=standing_by,
            clock=clock or self._node.clock,
        )

    @property
    def _knows_users(self) -> bool:
        return self._hub.authenticator is not None

    def _answer(self, app: Starlette) -> None:
        self.is_answering = True
        self._doors.append(app.state.door)
        self._http.use(app)

    async def step_down(self) -> None:
        """End what `serve` began; after `stand_by`, what that began goes on."""
        self._hub.on_users = None
        former, self._doors = self._doors[:-1], self._doors[-1:]
        for door in former:
            await door.close()
        clients, self._clients = self._clients[:-1], self._clients[-1:]
        for client in clients:
            await client.close()

    def _observe(self, observation: Observation) -> None:
        if isinstance(observation, RequestFailed):
            text = "request %s failed"
            log.error(text, observation.operation, exc_info=observation.error)
        elif isinstance(observation, SignInFailed):
            self._hub.endings.failed_over_http(observation.address, observation.user)

    async def stop(self) -> None:
        """Close the port, and end everything."""
        await self._http.stop()
        self._hub.on_users = None
        for door in self._doors:
            await door.close()
        for client in self._clients:
            await client.close()
