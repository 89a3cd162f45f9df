"""The façade over HTTP in the process of `jetgate dev` and `jetgate serve`.

What it imports takes longer than the rest of a start: a process imports it while clients of NATS
are served already.
"""

import logging
import socket
from functools import partial

from core.client import Client, Options, attach, connect
from core.runtime.clock import Clock
from core.runtime.stalls import StallWatch
from core.server import Server
from core.storage.postgres.connect import Connector
from core.storage.postgres.secrets import secret
from core.term import Term
from core.transport.loopback import connect_loopback
from gateway.app import create_app
from gateway.http_server import HttpServer, standby
from gateway.identities import Identities
from gateway.observations import Observation, RequestFailed
from gateway.settings import Settings
from jetgate.login import login_to
from jetgate.server_numbers import snapshot

log = logging.getLogger("jetgate")


class Facade:
    """Life cycle: `start`, `serve` and `stand_by` in turns, `stop`."""

    def __init__(self, listening: socket.socket, server: Server, clock: Clock) -> None:
        self._http = HttpServer(listening)
        self._server = server
        self._clock = clock
        self._client: Client | None = None
        self._identities: Identities | None = None

    def start(self) -> None:
        """Answer from now on that this process is starting."""
        self._http.start()

    async def serve(self, term: Term, connector: Connector, stalls: StallWatch) -> None:
        """Serve everything that a term has."""
        hub = self._server.hub
        link = attach(partial(connect_loopback, hub))
        # Where users are configured every request has a connection of its own identity.
        self._client = Client(link, Options()) if hub.authenticator else await connect(link)
        settings = Settings(ack_key=await secret(connector, "ack-tokens"))
        app = create_app(
            settings,
            self._client,
            login=login_to(hub) if hub.authenticator else None,
            observe=_observe,
            snapshot=partial(snapshot, hub, term, stalls),
            clock=self._clock,
        )
        self._identities = app.state.identities
        self._http.use(app)

    def stand_by(self) -> None:
        """Answer that this process does not lead."""
        self._http.use(standby)

    async def step_down(self) -> None:
        """End what `serve` began; what answers is somebody else's decision."""
        if self._identities is not None:
            await self._identities.close()
            self._identities = None
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def stop(self) -> None:
        """Close the port."""
        await self._http.stop()


def _observe(observation: Observation) -> None:
    if isinstance(observation, RequestFailed):
        log.error("request %s failed", observation.operation, exc_info=observation.error)
