"""A PostgreSQL that is given, `jetstream { dsn }`, and may be that of several servers.

Each leads a part of the streams. Over routes, with `cluster {}`, each serves its clients what the
others lead; one that has none stands by, or leads what nobody else does. Links between such servers
begin with a proof that both know a secret of the database (`core.route.database_mesh`).
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
from nats_server.config.options import JetStreamOptions
from nats_server.ports_file import join

if TYPE_CHECKING:
    from core.storage.postgres.connect import Connector

log = logging.getLogger("jetgate.server")

_MODULES = (
    "core.storage.postgres.preflight",
    "core.storage.postgres.migrate",
    "core.node.campaign",
    "core.node.runtime",
)
_UNREACHED_S = 10.0
"""How long a leader without a route is waited for, in seconds, before that is told."""
_NAME_S, _LOOK_S = 10.0, 0.5
_SECOND = 1_000_000_000


class Shared:
    """Life cycle: `open`, `start`, `follow`, `stop`.

    Attributes:
        row: what other servers of the database see of this one.
        peers: told of them with each heartbeat.
        changed: called when all streams are led, or no longer are.
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
        self._patience: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Nothing has to be claimed: the database is told of this server later."""

    async def start(self) -> Connector:
        """Return what opens sessions, with a schema of this release. Raises OperatorError."""
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
            log.info("The schema in %s is now that of this release", connector.address)
        await self._claim_name(connector)
        self._connector = connector
        return connector

    async def _delete(self, node: str) -> None:
        """Delete the row of a node that is gone. Raises Unavailable."""
        from core.storage.postgres.nodes import delete_node  # imported by now

        assert self._connector is not None, "asked once it has started"
        await delete_node(self._connector, node)

    async def _claim_name(self, connector: Connector) -> None:
        """Wait until no other server of the database has the name. Raises OperatorError."""
        from core.storage.postgres.node_names import is_taken  # imported by now

        clock, name = self._server.clock, self.row.node
        began = clock.monotonic()
        while await is_taken(connector, name):
            if clock.monotonic() - began > _NAME_S * _SECOND:
                place = connector.address
                raise OperatorError(f'another server over {place} has the server_name "{name}"')
            await asyncio.sleep(_LOOK_S)

    async def follow(self, connector: Connector, gate: PublishGate) -> None:
        """Serve through the servers that own streams, where there are routes."""
        hub, self._gate = self._server.hub, gate
        self.row.nats = f"nats://{join(hub.host, hub.port)}"
        gate.changed.subscribe(self._owners_changed)
        patience = _UNREACHED_S if self._server.links is not None else _LOOK_S
        self._patience = asyncio.get_running_loop().call_later(patience, self._look)
        if self._server.links is not None:
            await self._server.join(await link_secret(connector))

    def _look(self) -> None:
        """Say once that nobody who leads is reached."""
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
        """Leave the database as it is."""
        if self._patience is not None:
            self._patience.cancel()
