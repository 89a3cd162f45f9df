"""The source of the values on the monitoring pages.

Most values are read from other objects at each request. Only closed connections are kept here.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from core.monitor.connection import describe
from core.monitor.times import moment
from core.pubsub.account import Account
from core.pubsub.server import Connection, Hub
from core.runtime.clock import Clock
from core.transport.session import ClientSession
from core.units import Seconds

if TYPE_CHECKING:  # a server without JetStream or without routes starts without them
    from core.cluster.view import ClusterView
    from core.route.mesh import Mesh


@dataclass(slots=True, kw_only=True)
class About:
    """Settings of the server that only the monitoring pages show. Times are in seconds."""

    http_host: str = ""
    http_port: int = 0
    http_base_path: str = ""
    auth_timeout: Seconds = Seconds(2.0)
    lame_duck_duration: Seconds = Seconds(120.0)
    max_closed_clients: int = 10000
    config_digest: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    jetstream: dict[str, Any] | None = None
    """The block `config` of JetStream in /varz and /jsz; None if JetStream is off."""
    websocket: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)
    """The cluster settings of /varz without the cluster name; empty without a cluster."""


class ApiCounts(Protocol):
    """Counters of API requests: all answered ones, and those answered with an error."""

    total: int
    errors: int


@dataclass(slots=True, kw_only=True)
class JetStreamSource:
    """The streams that this node leads (`core.jetstream.registry.Registry`), and API counters."""

    registry: Any
    api: ApiCounts


@dataclass(slots=True)
class NoUsage:
    """The storage usage of a server that leads no stream: all values are 0."""

    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0


@dataclass(slots=True)
class NoRequests:
    """The API counters of a server without JetStream requests: all values are 0."""

    total: int = 0
    errors: int = 0


class LedElsewhere:
    """The stream registry of a server whose streams another server leads: it has no streams."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.streams: dict[str, Any] = {}

    def usage(self) -> NoUsage:
        """Return usage values of 0."""
        return NoUsage()


@dataclass(frozen=True, slots=True)
class ClosedConnection:
    """A closed client connection, as /connz shows it.

    Attributes:
        account: Name of its account.
        stopped: Time at which it was closed, in nanoseconds since the Unix epoch.
        shown: Its JSON object in /connz.
        user: Name of its user; empty if it had none.
    """

    account: str
    stopped: int
    shown: dict[str, Any]
    user: str


class MonitoringSource:
    """The values that the monitoring pages show, and the objects from which they are read.

    Attributes:
        about: Settings that only the pages show.
        hub: State shared by all connections.
        clock: The clock for times on the pages.
        jetstream: The streams that this node leads; None: JetStream is off.
        has_leader: Returns whether JetStream has a leader, for /healthz.
        mesh: The links to other servers; None: there is no cluster.
        cluster: The nodes of the database; None: no links.
        requests: Number of requests of each page, by path.
        started: Start of the server, in nanoseconds since the Unix epoch.
        config_loaded: Time of the last configuration load, in nanoseconds since the Unix epoch.
        closed: The closed connections, oldest first.
        cpu_seen: Monotonic time in nanoseconds and CPU time in seconds at the last measurement.
    """

    def __init__(self, about: About, hub: Hub, clock: Clock, started: int = 0) -> None:
        """Create the source; `started` is the server start, in nanoseconds since the Unix epoch.

        0: now.
        """
        self.about = about
        self.hub = hub
        self.clock = clock
        self.jetstream: JetStreamSource | None = None
        self.has_leader: Callable[[], bool] = lambda: True
        self.mesh: Mesh | None = None
        self.cluster: ClusterView | None = None
        self.requests: Counter[str] = Counter()
        self.started = started or clock.now()
        self.config_loaded = self.started
        self.closed: deque[ClosedConnection] = deque(maxlen=max(about.max_closed_clients, 1))
        self.cpu_seen: tuple[int, float] = (clock.monotonic(), sum(os.times()[:2]))

    @property
    def head(self) -> dict[str, Any]:
        """The first members of most pages: server id and time."""
        return {"server_id": self.hub.server_id, "now": moment(self.clock.now())}

    def stand_by(self) -> None:
        """Show JetStream as enabled and without streams, because another server leads them."""
        elsewhere = LedElsewhere(self.hub.default_account())
        self.jetstream = JetStreamSource(registry=elsewhere, api=NoRequests())

    def watch(self, hub: Hub) -> None:
        """Read from this hub (state of all connections) from now on.

        The connections that it closes are kept for /connz, the newest `max_closed_clients` ones.
        """
        self.hub = hub
        hub.left.subscribe(self._keep_closed)

    def _keep_closed(self, session: Connection) -> None:
        if isinstance(session, ClientSession):
            now = self.clock.now()
            shown = describe(session, now, stopped=True)
            self.closed.append(ClosedConnection(session.account.name, now, shown, session.user))
