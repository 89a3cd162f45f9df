"""The HTTP gateway within the process of `jetgate dev` and `jetgate serve`.

Its imports take longer than the rest of a start. So the process imports this module when NATS
clients are already served.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from core.client import Client, Options, attach, connect
from core.node.server import Server
from core.transport.loopback import connect_loopback, connect_trusted
from core.units import Nanos
from gateway.app import create_app
from gateway.auth.authenticator import Authenticator
from gateway.http.server import HttpServer
from gateway.http.startup import StartupServer
from gateway.monitoring.events import AuthenticationFailed, OperatorEvent, RequestFailed
from gateway.monitoring.metrics import Metrics
from gateway.settings import Settings
from jetgate.login import login_to, rights_in
from jetgate.server_numbers import Node, snapshot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeClock:
    """A clock that follows the database's time.

    Its source is the runtime (`core.node.runtime`), the streams in memory. Without a runtime it
    uses the offset of the database clock that was measured last.
    """

    node: Node

    def now(self) -> Nanos:
        """Return the database's time in nanoseconds since the Unix epoch."""
        runtime, time = self.node.runtime, self.node.health.time
        return time.now() if runtime is None else runtime.leases.clock.now()

    def monotonic(self) -> Nanos:
        """Return the reading of this machine's monotonic clock in nanoseconds."""
        return self.node.clock.monotonic()


class Facade:
    """The HTTP gateway of a process, from start to end. Life cycle: `serve`, `stop`.

    Requests that arrive before `serve` wait.

    Attributes:
        is_answering: True after `serve`.
    """

    def __init__(
        self, start: StartupServer, server: Server, node: Node, settings: Settings
    ) -> None:
        self.is_answering = False
        self._http = HttpServer(start, settings, server.hub.descriptors)
        self._hub = server.hub
        self._node = node
        self._metrics = Metrics(partial(snapshot, node))
        self._link = attach(partial(connect_loopback, self._hub))
        self._clients: list[Client] = []
        self._authenticator: Authenticator | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._settings = settings

    async def serve(self, ack_key: bytes) -> None:
        """Start to answer HTTP requests.

        `ack_key` is the key that signs ack tokens, the same on all nodes of the database.
        """
        # With configured users, every request uses a connection of its own identity.
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
            report_event=self._report_event,
            metrics=self._metrics,
            trouble=self._node.trouble,
            clock=NodeClock(self._node),
        )
        self._authenticator = app.authenticator
        self._unsubscribe = self._hub.users_changed.subscribe(app.authenticator.users_changed)
        self._http.use(app)
        self.is_answering = True

    @property
    def _knows_users(self) -> bool:
        return self._hub.authenticator is not None

    def _report_event(self, observation: OperatorEvent) -> None:
        if isinstance(observation, RequestFailed):
            text = "request %s failed"
            log.error(text, observation.operation, exc_info=observation.error)
        elif isinstance(observation, AuthenticationFailed):
            self._hub.disconnect_log.failed_over_http(observation.address, observation.user)

    async def stop(self) -> None:
        """Close the HTTP port, and end all requests and the gateway's NATS connections."""
        await self._http.stop()
        self._unsubscribe()
        if self._authenticator is not None:
            await self._authenticator.close()
        for client in self._clients:
            await client.close()
