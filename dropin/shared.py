"""An existing PostgreSQL (`jetstream { dsn }`), which several servers may share.

Each server owns a part of the streams. Servers with routes (`cluster {}`) give their clients access
to the streams that peers own. A server without routes serves only streams that no peer owns. A link
between such servers begins with a proof that both know a secret in the database
(`core.route.database_mesh`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import core
from core.config.secret_files import secret_of
from core.errors import OperatorError
from core.node.database import Database, link_secret
from core.node.peers import Peers
from core.node.publish_gate import PublishGate
from core.node.server import Server
from core.runtime.subscribers import Subscribers
from core.runtime.threads import imported
from core.storage.leases import NodeRow
from core.units import NANOS_PER_SECOND
from dropin.config.options import JetStreamOptions
from dropin.ports_file import join

if TYPE_CHECKING:
    from core.storage.postgres.connect import Connector

log = logging.getLogger(__name__)

_MODULES = (
    "core.storage.postgres.preflight",
    "core.storage.postgres.migrate",
    "core.node.campaign",
    "core.node.runtime",
)
_UNREACHED_S = 10.0
"""Seconds after which a warning is logged if no owner of streams is reachable."""
_NAME_S, _RETRY_S = 10.0, 0.5


class Shared:
    """The shared database of a server. Life cycle: `open`, `start`, `follow`, `stop`.

    Attributes:
        row: This server's row in the table of nodes, which its peers read.
        peers: The other servers of the database, updated with each heartbeat.
        changed: Callbacks; called when the last stream without a reachable owner gets one, and when
            a stream loses its reachable owner again.
    """

    def __init__(self, server: Server, options: JetStreamOptions) -> None:
        self._server = server
        self._options = options
        self._gate: PublishGate
        self.row = NodeRow(server.hub.server_name, version=core.__version__, tags=server.hub.tags)
        self.row.server_id = server.hub.server_id
        self.peers = Peers(server, self._delete)
        self.changed: Subscribers[[]] = Subscribers()
        self._connector: Connector | None = None
        self._reach_timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Do nothing: only an embedded database has a directory to lock."""

    async def start(self) -> Connector:
        """Connect to the database, migrate its schema to this release, and return a connector.

        Raises OperatorError if the database cannot be used, or a server with this name runs over
        it.
        """
        await imported(*_MODULES)
        options = self._options
        database = Database(
            secret_of("--dsn", options.dsn, options.dsn_file),
            "jetstream dsn_file" if options.dsn_file else "jetstream dsn",
            options.dsn_password_file,
            options.wait_for_db,
        )
        connector = database.connector()
        is_migrated = await database.migrated(connector, self._server.clock)
        log.info("  Database: %s", connector.address)
        if is_migrated:
            log.info("Migrated the schema in %s to this release", connector.address)
        await self._await_free_name(connector)
        self._connector = connector
        return connector

    async def _delete(self, node: str) -> None:
        """Delete the row of a node that has ended. Raises Unavailable if PostgreSQL does not
        answer.
        """
        from core.storage.postgres.nodes import delete_node  # imported before, in a thread

        assert self._connector is not None, "asked once it has started"
        await delete_node(self._connector, node)

    async def _await_free_name(self, connector: Connector) -> None:
        """Wait up to 10 seconds until no other server has this name. Raises OperatorError after
        that.
        """
        from core.storage.postgres.node_names import is_taken  # imported before, in a thread

        clock, name = self._server.clock, self.row.node
        began = clock.monotonic()
        while await is_taken(connector, name):
            if clock.monotonic() - began > _NAME_S * NANOS_PER_SECOND:
                place = connector.address
                raise OperatorError(f'another server over {place} has the server_name "{name}"')
            await asyncio.sleep(_RETRY_S)

    async def follow(self, connector: Connector, gate: PublishGate) -> None:
        """Link this server to its peers, if it has routes; log whether streams have owners.

        Args:
            connector: Connector to the database.
            gate: Knows whether each stream has a reachable owner.
        """
        hub, self._gate = self._server.hub, gate
        self.row.nats = f"nats://{join(hub.host, hub.port)}"
        gate.changed.subscribe(self._owners_changed)
        delay = _UNREACHED_S if self._server.links is not None else _RETRY_S
        self._reach_timer = asyncio.get_running_loop().call_later(delay, self._check_reached)
        if self._server.links is not None:
            await self._server.join(await link_secret(connector))

    def _check_reached(self) -> None:
        """Log a warning if a stream has no reachable owner."""
        if not self._gate.is_open:
            log.warning(
                "JetStream is not available here: another server leads over the database, and there"
                " is no route to it; both need cluster {} with one name, and routes"
            )

    def _owners_changed(self) -> None:
        if self._gate.is_open:
            log.info("JetStream is served: all streams are led")
        else:
            log.info("No JetStream leader is reachable: publishes wait")
        self.changed()

    async def stop(self) -> None:
        """Cancel the pending warning about unreachable owners. The database keeps running."""
        if self._reach_timer is not None:
            self._reach_timer.cancel()
