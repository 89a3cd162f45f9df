"""The façade over HTTP in the process of `jetgate dev` and `jetgate serve`.

What it imports takes longer than the rest of a start: a process imports it while clients of NATS
are served already.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from core.client import Client, Options, attach, connect
from core.node.server import Server
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


@dataclass(frozen=True, slots=True)
class NodeClock:
    """The database's time: as the present runtime has it, else as it was measured last."""

    node: Node

    def now(self) -> int:
        """Nanoseconds since the Unix epoch."""
        runtime, time = self.node.runtime, self.node.health.time
        return time.now() if runtime is None else runtime.leases.clock.now()

    def monotonic(self) -> int:
        """Nanoseconds of the machine's monotonic clock."""
        return self.node.clock.monotonic()


class Facade:
    """Life cycle: `serve`, `stop`. Runtimes come and go beneath it.

    Attributes:
        is_answering: whether requests are answered; else they wait until `serve` is called.
    """

    def __init__(self, start: HttpStart, server: Server, node: Node, settings: Settings) -> None:
        self.is_answering = False
        self._http = HttpServer(start, settings, server.hub.descriptors)
        self._hub = server.hub
        self._node = node
        self._metrics = Metrics(partial(snapshot, node))
        self._link = attach(partial(connect_loopback, self._hub))
        self._clients: list[Client] = []
        self._door: Door | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._settings = settings

    async def serve(self, ack_key: bytes) -> None:
        """Answer requests from now on; `ack_key` signs ack tokens, on all nodes the same."""
        # Where users are configured every request has a connection of its own identity.
        client = Client(self._link, Options()) if self._knows_users else await connect(self._link)
        self._clients.append(client)
        lookups = None
        if self._knows_users:
            lookups = await connect(attach(partial(connect_trusted, self._hub)))
            self._clients.append(lookups)
        app = create_app(
            replace(self._settings, ack_key=ack_key),
            client,
            login=login_to(self._hub) if self._knows_users else None,
            rights=rights_in(self._hub),
            server=lookups,
            observe=self._observe,
            metrics=self._metrics,
            trouble=self._node.trouble,
            clock=NodeClock(self._node),
        )
        self._door = app.state.door
        self._unsubscribe = self._hub.users_changed.subscribe(app.state.door.users_changed)
        self._http.use(app)
        self.is_answering = True

    @property
    def _knows_users(self) -> bool:
        return self._hub.authenticator is not None

    def _observe(self, observation: Observation) -> None:
        if isinstance(observation, RequestFailed):
            text = "request %s failed"
            log.error(text, observation.operation, exc_info=observation.error)
        elif isinstance(observation, SignInFailed):
            self._hub.endings.failed_over_http(observation.address, observation.user)

    async def stop(self) -> None:
        """Close the port, and end everything."""
        await self._http.stop()
        self._unsubscribe()
        if self._door is not None:
            await self._door.close()
        for client in self._clients:
            await client.close()
