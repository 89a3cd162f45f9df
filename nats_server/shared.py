"""A PostgreSQL that is given, `jetstream { dsn }`, and may be that of several servers.

Each leads a part of the streams. Over routes, with `cluster {}`, each serves its clients what the
others lead; one that has none stands by, or leads what nobody else does. Links between such servers
begin with a proof that both know a secret of the database (`core.route.database_mesh`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import core
from core.config.secret_files import secret_of
from core.database import Database, link_secret
from core.errors import OperatorError
from core.front import Front
from core.route.neighbours import Neighbours
from core.runtime.threads import imported
from core.server import Server
from core.storage.leases import NodeRow
from nats_server.config.options import JetStreamOptions
from nats_server.ports_file import join

if TYPE_CHECKING:
    from core.cluster.following import CatalogueFollower
    from core.storage.postgres.connect import Connector

log = logging.getLogger("jetgate.server")

_MODULES = (
    "core.storage.postgres.preflight",
    "core.storage.postgres.migrate",
    "core.campaign",
    "core.term",
)
_UNREACHED_S = 10.0
"""How long a leader without a route is waited for, in seconds, before that is told."""
_NAME_S, _LOOK_S = 10.0, 0.5
_SECOND = 1_000_000_000


class Shared:
    """Life cycle: `open`, `start`, `follow`, `stop`.

    Attributes:
        row: what other servers of the database see of this one.
        neighbours: told of them with each heartbeat.
        on_change: called when all streams are led, or no longer are.
    """

    def __init__(self, server: Server, options: JetStreamOptions) -> None:
        self._server = server
        self._options = options
        self._front: Front
        self.row = NodeRow(server.hub.server_name, version=core.__version__, tags=server.hub.tags)
        self.row.server_id = server.hub.server_id
        self.neighbours = Neighbours(server.links)
        self.on_change: Callable[[], None] = lambda: None
        self._known: CatalogueFollower | None = None
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
        return connector

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

    async def follow(self, connector: Connector, front: Front) -> None:
        """Serve through those that lead, where there are routes."""
        from core.api.leaderless import Leaderless  # imported by now
        from core.jetstream.direct.stored_get import StoredGet
        from core.storage.postgres.stored_messages import PostgresMessages

        hub, self._front = self._server.hub, front
        self.row.nats = f"nats://{join(hub.host, hub.port)}"
        front.on_change = self._leader_changed
        patience = _UNREACHED_S if self._server.links is not None else _LOOK_S
        self._patience = asyncio.get_running_loop().call_later(patience, self._look)
        if self._server.links is not None:
            await self._server.join(await link_secret(connector))
        account, clock = hub.default_account(), self._server.clock
        stored_get = StoredGet(account, PostgresMessages(connector, None, clock), clock)
        front.refuse_by(Leaderless(account, self.known(connector).catalogue, stored_get))

    def known(self, connector: Connector) -> CatalogueFollower:
        """What this server knows of the streams of all; it follows them from then on."""
        from core.cluster.following import CatalogueFollower  # imported by now
        from core.storage.postgres.catalogue_source import PostgresCatalogueSource

        if self._known is None:
            self._known = CatalogueFollower(PostgresCatalogueSource(connector))
            self.neighbours.follow(self._known)
        return self._known

    def _look(self) -> None:
        """Say once that nobody who leads is reached."""
        if not self._front.is_led:
            log.warning(
                "JetStream is not available here: another server leads over the database, and there"
                " is no route to it; both need cluster {} with one name, and routes"
            )

    def _leader_changed(self) -> None:
        if self._front.is_led:
            log.info("JetStream is served: all streams are led")
        else:
            log.info("No JetStream leader is reachable: publishes wait")
        self.on_change()

    async def stop(self) -> None:
        """Leave the database as it is."""
        if self._patience is not None:
            self._patience.cancel()
        if self._known is not None:
            await self._known.close()
