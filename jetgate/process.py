"""The process of `jetgate dev` and `jetgate serve`: NATS server, PostgreSQL, and HTTP gateway.

`dev` starts an embedded PostgreSQL; `serve` uses an existing one, shared with other nodes.
`core.node.lifecycle` defines the phases of the process. The slow imports run while the embedded
PostgreSQL starts, or with an existing PostgreSQL after the first connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import core
from core.config.addresses import listen, probe, refusal
from core.errors import OperatorError
from core.node.bootstrap import Bootstrap
from core.node.database import Database, ack_secret, link_secret, told
from core.node.lifecycle import Candidacy, Lifecycle
from core.node.server import Server, ServerOptions
from core.pubsub.server import SYSTEM_ACCOUNT
from core.route.settings import ClusterSettings
from core.runtime.clock import SystemClock
from core.runtime.garbage import FullCollections
from core.runtime.listening import WILDCARDS
from core.runtime.nuid import nuid
from core.runtime.service_manager import ServiceManager
from core.runtime.stalls import StallWatch
from core.runtime.standard_streams import write_text
from core.runtime.tasks import spawn, stop
from core.runtime.threads import imported
from core.storage.health import StorageHealth, waits
from core.storage.leases import NodeRow
from gateway.http.startup import StartupServer
from jetgate.banner import ready
from jetgate.config import Config
from jetgate.http_tls import tls_of
from jetgate.ports_file import PortsFile, url

if TYPE_CHECKING:
    from core.monitor.system import SystemServices
    from core.node.peers import Peers
    from core.node.runtime import JetStreamRuntime, RuntimeOptions
    from core.route.database_mesh import DatabaseMesh
    from core.storage.postgres.connect import Connector
    from core.storage.postgres.embedded import EmbeddedPostgres
    from jetgate.facade import Facade
    from jetgate.server_numbers import Node

log = logging.getLogger(__name__)

T = TypeVar("T")

# Modules imported before the process has a session with PostgreSQL.
_CAMPAIGN = (
    "core.storage.postgres.preflight",
    "core.storage.postgres.migrate",
    "core.node.campaign",
)
# Modules imported during the start of PostgreSQL, or after the first attempt to acquire leases.
# Their import takes more CPU time than all others together, and would delay the session.
_FACADE, _RUNTIME = "jetgate.facade", "core.node.runtime"


class Process:
    """A server process; `core.node.lifecycle.Lifecycle` calls its methods.

    Order: `open`, `listening`, `prepare`; then `serve` and `step_down` for each runtime
    (`core.node.runtime`, the streams in memory between two losses of PostgreSQL); `leave`, `close`.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._clock = SystemClock()
        name = f"{socket.gethostname()}-{nuid()[-6:]}"
        self._server = Server(
            ServerOptions(
                host=config.host,
                port=config.nats_port,
                server_name=name if config.database is not None else "",
                users=config.users,
                ws_port=config.ws_port,
                mappings=config.mappings,
                tags=config.tags,
                author_connection_types=config.author_permissions.doors,
                links=_links(config),
            ),
            self._clock,
        )
        self._life = Lifecycle(self._server, self)
        self._row = NodeRow(name, version=core.__version__, tags=config.tags)
        self._health = StorageHealth(self._clock)
        self._stalls = StallWatch(self._clock)
        self._collections = FullCollections(self._clock)
        self._ports = PortsFile(config.data)
        self._manager = ServiceManager()
        self._addresses: dict[str, str] = {}
        self._connector: Connector
        self._standby: Connector | None = None
        self._postgres: EmbeddedPostgres | None = None
        self._http_start: StartupServer | None = None
        self._http_port = 0
        self._lock = -1
        self._facade: Facade | None = None
        self._node: Node | None = None
        self._peers: Peers | None = None
        self._system: SystemServices | None = None
        self._bootstrap: Bootstrap | None = None
        self._imports: asyncio.Task[None] | None = None
        self._answering = asyncio.Lock()
        self._changed: Callable[[], None] | None = None
        self._was_ready = False

    async def run(self) -> None:
        """Serve until SIGINT or SIGTERM; a second signal ends the process at once.

        Raises:
            OperatorError: The start failed.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_asked, number)
        waits.addFilter(self._health.may_log)
        try:
            await self._life.run()
        finally:
            waits.removeFilter(self._health.may_log)
            self._health.close()
        log.info("stopped")

    def _stop_asked(self, number: signal.Signals) -> None:
        log.info("stopping (%s)", signal.Signals(number).name)
        self._manager.stopping()
        self._life.stop()
        # A second signal ends the process at once.
        asyncio.get_running_loop().remove_signal_handler(number)

    # -- the whole life ----------------------------------------------------------------------

    async def open(self) -> bool:
        """Open the HTTP port, and lock the data directory of an embedded PostgreSQL.

        Returns True: this process serves JetStream. Raises OperatorError if a port or the directory
        is in use, ConfigError if the TLS files are unusable.
        """
        config = self._config
        if config.database is None:
            self._lock = self._lock_data_directory()
        probe(config.host, config.nats_port, "NATS")  # before any port accepts a connection
        if config.ws_port:
            probe(config.host, config.ws_port, "WS")
        tls = tls_of(config.http_tls_cert, config.http_tls_key)
        self._http_start = StartupServer(listen(config.host, config.http_port, "HTTP"), tls=tls)
        self._http_port = self._http_start.port
        await self._http_start.start()
        if config.is_exposed and config.users is None:
            log.warning(
                "listening on %s without users: every client that connects may read and write",
                config.host,
            )
        return True

    def _lock_data_directory(self) -> int:
        """Lock the data directory; return the lock's descriptor. Raises OperatorError if it is in
        use.
        """
        if sys.platform == "win32":
            raise OperatorError("embedded PostgreSQL does not run on Windows: use serve --dsn")
        from core.storage.directory_lock import (
            lock_directory,  # imported late: not available on every platform
        )

        assert self._config.data is not None
        return lock_directory(Path(os.path.abspath(self._config.data)))

    def listening(self) -> None:
        """Write `ports.json`; called when the NATS port is open.

        At this time requests for streams may still have to wait for a leader.
        """
        self._addresses = self._found_addresses()
        self._row.nats, self._row.http = self._addresses["nats"], self._addresses["http"]
        self._ports.write(self._addresses)

    async def prepare(self) -> Candidacy:
        """Open the database, migrate its schema, and start links to the other nodes.

        Returns the functions by which the process acquires leases and loads streams.
        """
        if (database := self._config.database) is not None:
            is_migrated = await self._open_given(database)
        else:
            is_migrated = await self._open_embedded()
        if is_migrated:
            log.info("migrated the schema in %s to this release", self._connector.address)
        if (standby := self._config.standby) is not None:
            check = partial(standby.checked_standby, self._connector)
            self._standby = await told("which database it is", check)
        if self._server.links is not None:
            await self._join(self._server.links)
        self._bootstrap = Bootstrap(
            self._server,
            self._life.gate,
            self._connector,
            self._health,
            self._options,
            row=self._row,
            peers=self._peers,
            imports=lambda: asyncio.shield(self._rest()),
        )
        return self._bootstrap.candidacy

    async def _open_given(self, database: Database) -> bool:
        """Open the database of the flags; return True if its schema was migrated."""
        await imported(*_CAMPAIGN)
        self._connector = database.connector()
        self._manager.starting(f"connecting to PostgreSQL at {self._connector.address}")
        return await database.migrated(self._connector, self._clock)

    async def _open_embedded(self) -> bool:
        """Start the embedded PostgreSQL; return True if its schema was migrated."""
        embedded = await imported(*_CAMPAIGN, "core.storage.postgres.embedded")
        self._postgres = postgres = embedded.EmbeddedPostgres(self._config.data, lock=self._lock)
        self._rest()
        await postgres.start()
        self._connector = postgres.connector
        from core.storage.postgres.migrate import migrate  # imported before, in a thread

        return await migrate(self._connector)

    async def _join(self, links: DatabaseMesh) -> None:
        """Accept links of other nodes, and add the address for links to this node's row."""
        from core.node.peers import Peers  # imported late: a single node does not need them
        from core.storage.postgres.nodes import delete_node

        try:
            await self._server.join(await link_secret(self._connector))
        except OSError as error:
            host, port = links.address
            raise refusal(host, port, "cluster", error, flag="--cluster-listen") from error
        host, port = links.address
        if self._config.cluster_advertise is not None:
            host, port = self._config.cluster_advertise
        self._row.server_id = self._server.hub.server_id
        self._row.route_host = "" if host in WILDCARDS else host
        self._row.route_port = port
        self._peers = Peers(self._server, partial(delete_node, self._connector))
        cluster = self._peers.cluster
        if SYSTEM_ACCOUNT in self._server.hub.accounts and cluster is not None:
            # Imported late: most nodes have no users of the system account
            from core.monitor.system import SystemServices

            server = self._server
            self._system = SystemServices(server.hub, server.clock, server.mesh, cluster)
            self._system.start()

    def _rest(self) -> asyncio.Task[None]:
        """Return the task that imports the gateway and the runtime; the first call starts it."""
        if self._imports is None:
            self._imports = spawn(self._import_rest(), name="imports")
        return self._imports

    async def _import_rest(self) -> None:
        """Import the HTTP gateway, then the JetStream runtime.

        The gateway is first, because it may have to answer that no leader is reachable.
        """
        await imported(_FACADE)
        from jetgate.facade import Facade  # imported before, in a thread
        from jetgate.server_numbers import Node

        assert self._http_start is not None, "opened first"
        settings = self._config.http
        if not (settings.hosts or settings.trusted_proxies or self._config.is_exposed):
            # Protects against DNS rebinding: no other name may reach this port
            settings = replace(settings, hosts=("localhost",))
        server = self._server
        node = Node(server.hub, self._health, self._stalls, self._clock, self._life.gate, server)
        self._node = node
        self._facade = Facade(self._http_start, server, node, settings)
        await imported(_RUNTIME)
        if self._config.database is not None:
            assert self._bootstrap is not None, "the database comes first"
            self._bootstrap.refuse_without_owner(self._standby)

    def _owners_changed(self) -> None:
        row = self._row
        if self._life.gate.is_open:
            log.info("serving as %s: %s; all streams are led", row.node, row.shown)
            self._manager.ready(f"serving: {row.shown}")
            self._say_ready()
        elif not self._life.is_stopping:
            log.info("some streams have no reachable leader: publishes to them wait")

    async def _answer(self) -> None:
        """Start to answer HTTP requests; do nothing if they are answered already."""
        async with self._answering:
            await asyncio.shield(self._rest())
            assert self._facade is not None
            if not self._facade.is_answering:
                await self._facade.serve(await ack_secret(self._connector))

    def _options(self) -> RuntimeOptions:
        """Return the options of the next JetStream runtime."""
        from core.node.runtime import RuntimeOptions  # imported before, in a thread

        peers = self._peers
        return RuntimeOptions(
            remotes=self._config.remotes,
            cluster=None if peers is None else peers.cluster,
            gate=self._life.gate,
        )

    async def leave(self) -> None:
        """Begin to stop: send clients to other nodes (lame duck), and close the HTTP port."""
        self._ports.remove()
        self._server.begin_lame_duck()
        await self._close_http()

    async def close(self) -> None:
        """Close the NATS port and the links to other nodes, and stop an embedded PostgreSQL."""
        await stop(self._imports)
        await self._close_http()
        if self._system is not None:
            await self._system.stop()
        await self._server.close()
        if self._bootstrap is not None:
            await self._bootstrap.close()
        if self._postgres is not None:
            await self._postgres.stop()
        self._stalls.stop()
        self._collections.stop()

    async def _close_http(self) -> None:
        if self._facade is not None:
            await self._facade.stop()
        elif self._http_start is not None:
            self._http_start.stop()

    def cannot_listen(self, error: OSError) -> Exception:
        """Return the OperatorError for a NATS or WebSocket port that cannot be opened."""
        if self._server.hub.port:  # the NATS port was available
            return refusal(self._config.host, self._server.ws_port or 0, "WS", error)
        return refusal(self._config.host, self._server.port, "NATS", error)

    # -- one runtime ----------------------------------------------------------------------------

    async def serve(self, runtime: JetStreamRuntime | None) -> None:
        """Answer HTTP requests with a new runtime (`core.node.runtime`), the streams in memory.

        If every stream has a reachable leader, announce that the node is ready; else wait for the
        leaders.
        """
        assert runtime is not None
        await self._answer()
        assert self._node is not None
        self._node.runtime = runtime
        if self._system is not None:
            from core.monitor.source import JetStreamSource

            self._system.show(JetStreamSource(registry=runtime.registry, api=runtime.api))
        gate = self._life.gate
        if self._changed is None:
            self._changed = gate.changed.subscribe(self._owners_changed)
        if gate.is_open:
            self._owners_changed()
        else:
            self._manager.starting("looking for the nodes that lead")

    def step_down(self) -> None:
        """Remove the runtime from HTTP and monitoring; called just before it is stopped.

        A runtime (`core.node.runtime`) is the streams in memory; the process continues.
        """
        if self._node is not None:
            self._node.runtime = None
        if self._system is not None:
            self._system.show(None)

    def _found_addresses(self) -> dict[str, str]:
        host, ws_port = self._config.host, self._server.ws_port
        found = {
            "nats": url("nats", host, self._server.port),
            "http": url("https" if self._config.http_tls_cert else "http", host, self._http_port),
        }
        return found | ({"ws": url("ws", host, ws_port)} if ws_port is not None else {})

    def _say_ready(self) -> None:
        """Print the addresses, once, when clients are served."""
        self._collections.start()
        if self._was_ready:
            return
        self._was_ready = True
        self._stalls.start()
        embedded, addresses = self._postgres is not None, self._addresses
        text = ready(
            addresses["nats"],
            addresses["http"],
            ws=addresses.get("ws", ""),
            where=f"data in {self._config.data}" if embedded else self._connector.address,
            psql=_psql(),
            dsn=f"'{self._connector.parts.url()}'",
        )
        write_text(text, sys.stdout)


def _links(config: Config) -> ClusterSettings | None:
    """Return the settings of links to other nodes; None for an embedded database."""
    if config.database is None:
        return None
    host, port = config.cluster_listen or (config.host, 0)
    return ClusterSettings(name="", host=host, port=port)


def _psql() -> str:
    """Return `psql`, or the path of the embedded PostgreSQL's psql if there is no other."""
    if shutil.which("psql") is None:
        with contextlib.suppress(OperatorError, ImportError):
            from core.storage.postgres.embedded.installation import find_installation

            return str(find_installation().binary("psql"))
    return "psql"
