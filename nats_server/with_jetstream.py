"""What `jetgate-nats-server` serves with JetStream: a node over a PostgreSQL in its store."""

import asyncio
import contextlib
import logging
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.auth.users import Users
from core.cluster.leadership import Leadership
from core.errors import Fenced, OperatorError, Unavailable
from core.node import Node, NodeOptions
from core.pubsub.server import Hub
from core.remote.settings import Remote
from core.runtime.clock import Clock
from core.runtime.nuid import nuid
from core.runtime.tasks import spawn, stop
from core.storage.leases import NodeRow
from core.storage.postgres.connect import Connector
from core.storage.postgres.embedded import EmbeddedPostgres
from core.storage.postgres.leases import PostgresLeases
from core.storage.postgres.migrate import migrate
from nats_server.config.advertise import advertised
from nats_server.config.options import Options
from nats_server.config.websocket import websocket_of, websocket_users

log = logging.getLogger("jetgate.server")

_RETRY_S = 0.5
# Many such servers share one machine; each has a small share of its memory.
_SETTINGS = {"shared_buffers": "64MB", "wal_buffers": "16MB", "min_wal_size": "80MB"}


class JetStreamServing:
    """A node; when it loses its leadership it is made anew on the same port."""

    def __init__(self, options: Options, users: Users | None, clock: Clock) -> None:
        self._options = options
        self._users = users
        self._websocket = websocket_of(options.websocket)
        self._websocket_users = websocket_users(options)
        self._clock = clock
        self._postgres = EmbeddedPostgres(self.directory, settings=_SETTINGS)
        self._connector = Connector("")
        self._keeper: asyncio.Task[None] | None = None
        self.node = self._new_node(options.server_name)

    @property
    def directory(self) -> Path:
        """Where the data are: as with nats-server, `jetstream` below the given directory."""
        given = self._options.jetstream.store_dir
        return Path(given or Path(tempfile.gettempdir()) / "nats") / "jetstream"

    @property
    def hub(self) -> Hub:
        """The hub of the present node."""
        return self.node.hub

    def _new_node(self, name: str) -> Node:
        leadership = Leadership(PostgresLeases(self._connector), self._clock, NodeRow(nuid()))
        options = NodeOptions(
            host=self._options.host,
            port=max(self._options.port, 0),
            server_name=name,
            limits=self._options.limits(),
            users=self._users,
            domain=self._options.jetstream.domain,
            strict=self._options.jetstream.strict,
            max_memory=max(self._options.jetstream.max_memory, 0),
            max_file=max(self._options.jetstream.max_file, 0),
            jetstream_limits=self._options.jetstream.limits,
            mappings=self._options.mappings or (),
            remotes=self._options.remotes,
            **self._websocket_options(),
        )
        node = Node(options, self._connector, leadership, self._clock)
        node.hub.advertised = advertised(self._options.client_advertise)
        return node

    def _websocket_options(self) -> dict[str, Any]:
        listener = self._websocket
        if listener is None:
            return {}
        return {
            "ws_host": listener.host,
            "ws_port": listener.port,
            "websocket": listener.options,
            "websocket_users": self._websocket_users,
        }

    @property
    def ws_port(self) -> int | None:
        """The port for WebSocket clients."""
        return self.node.ws_port

    async def start(self, host: str, port: int) -> None:
        """Start PostgreSQL, load everything, accept clients.

        Raises:
            OSError: the address cannot be had.
            OperatorError: JetStream cannot be started.
        """
        began = self._clock.monotonic()
        log.info("Starting JetStream")
        log.info('  Store Directory: "%s"', self.directory)
        try:
            self._connector = Connector(await self._postgres.start())
            await migrate(self._connector)
        except OperatorError as error:
            raise OperatorError(f"Can't start JetStream: {error}") from error
        name, identity = self._options.server_name, self.node.hub.server_id
        self.node = self._new_node(name or identity)
        self.node.hub.server_id = identity
        await self.node.start()
        log.info("Took %d ms to start JetStream", (self._clock.monotonic() - began) // 1_000_000)
        self._keeper = spawn(self._keep(), name="node keeper")

    async def _keep(self) -> None:
        while True:
            node = self.node
            await node.deposed.wait()
            port, ws_port, identity = node.hub.port, node.ws_port, node.hub.server_id
            await node.stop()
            while True:
                self.node = self._new_node(node.hub.server_name)
                self.node.hub.server_id = identity
                self.node.options = replace(self.node.options, port=port, ws_port=ws_port)
                self.node.ws_port = ws_port
                try:
                    await self.node.start()
                    break
                except (Unavailable, Fenced, OSError) as error:
                    log.warning("%s; trying again", error)
                    with contextlib.suppress(Unavailable):
                        await self.node.stop()
                    await asyncio.sleep(_RETRY_S)

    def admit_only(self, users: Users | None, over_websocket: Users | None) -> None:
        """Let others in from now on, and those out that may no longer be here."""
        self._users, self._websocket_users = users, over_websocket
        self.hub.use_users(users, over_websocket)

    def attach(self, remotes: tuple[Remote, ...]) -> None:
        """Offer the JetStream of these systems, and of no others, from now on."""
        self._options.remotes = remotes
        self.node.remotes.configure(remotes)

    def advertise(self, text: str) -> None:
        """Tell clients another address from now on. Raises OperatorError."""
        self.hub.advertised = advertised(text)
        self._options.client_advertise = text

    def limit(self, limits: dict[str, int]) -> None:
        """Hold the configurations of streams and consumers to these limits from now on."""
        self._options.jetstream.limits = limits
        self.node.options = replace(self.node.options, jetstream_limits=limits)

    async def retire(self) -> None:
        """Accept nobody any more, end JetStream."""
        log.info("Initiating JetStream Shutdown...")
        await stop(self._keeper)
        await self.node.retire()
        log.info("JetStream Shutdown")

    async def stop(self) -> None:
        """Close every connection, stop PostgreSQL."""
        await stop(self._keeper)
        await self.node.stop()
        await self._postgres.stop()
