"""The NATS side of one process: its accounts, its clients and its client ports.

A `Server` lives as long as the process. Without a runtime it offers publish, subscribe and request,
and needs no storage. A runtime (`core.node.runtime`) adds JetStream to one of its accounts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.auth.users import Users
from core.node.owner_links import OwnerLinks
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.state import Command, Released, Step
from core.protocol.upgrade import WebSocketOptions
from core.pubsub.limits import Limits
from core.pubsub.server import AUTHORS_OVER_HTTP, Hub
from core.runtime.clock import Clock
from core.runtime.loop_tick import LoopTick
from core.transport.listener import Listener

if TYPE_CHECKING:
    from core.pubsub.mappings import Mapping  # a start without mappings does not import it
    from core.route.database_mesh import DatabaseMesh
    from core.route.link import RouteLink
    from core.route.mesh import Mesh
    from core.route.settings import ClusterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of a server. Port 0 means any free port.

    Attributes:
        host: Address to listen on for clients.
        port: Port to listen on for clients.
        server_name: Server name in INFO; empty: the server's id.
        limits: Limits of connections and messages.
        users: Users that may connect; None: everyone.
        ws_port: Port for NATS over WebSocket; None: no WebSocket.
        ws_host: Address for WebSocket; empty: that of `host`.
        websocket: Options of WebSocket.
        websocket_users: Users that may connect over WebSocket; None: all users.
        mappings: Subject mappings, applied to publishes of clients.
        jetstream: True if INFO announces JetStream.
        domain: JetStream domain; empty: none.
        tags: Tags of the server, as configured.
        author_connection_types: Types of connections on which authors of messages are checked
            (`Hub.author_connection_types`).
        cluster: Settings of a cluster of nats-servers; None: no cluster.
        links: Settings of links to the other nodes of the same database; None: no links. If they
            have a cluster name, members of that cluster may connect too.
    """

    host: str = "127.0.0.1"
    port: int = 4222
    server_name: str = ""
    limits: Limits = field(default_factory=Limits)
    users: Users | None = None
    ws_port: int | None = None
    ws_host: str = ""
    websocket: WebSocketOptions = field(default_factory=WebSocketOptions)
    websocket_users: Users | None = None
    mappings: tuple[Mapping, ...] = ()
    jetstream: bool = True
    domain: str = ""
    tags: tuple[str, ...] = ()
    author_connection_types: frozenset[str] = AUTHORS_OVER_HTTP
    cluster: ClusterSettings | None = None
    links: ClusterSettings | None = None


class Server:
    """The accounts, client connections and listening sockets of a process.

    The ports are open from `listen` until `close_ports`. Members of its cluster are linked from
    `listen` on, nodes of its database from `join` on, until `close`.

    Attributes:
        clock: The clock of the machine.
        loop_tick: One pass of the event loop, at whose end outputs are flushed.
        hub: State shared by all connections.
        port: Port for clients; 0 until a free port is bound.
        ws_port: Port for WebSocket; None: no WebSocket.
        ownership: The lease groups of this node and of its peers.
        owner_links: Finds the owner of a lease group.
        mesh: Links to the other servers of its cluster; None without a cluster.
        links: The same mesh if it connects the nodes of one database; else None.
    """

    def __init__(self, options: ServerOptions, clock: Clock) -> None:
        self.clock = clock
        self.loop_tick = LoopTick()
        self.hub = Hub(
            self.loop_tick,
            clock,
            limits=options.limits,
            server_name=options.server_name,
            jetstream=options.jetstream,
            users=options.users,
        )
        self.hub.domain, self.hub.tags = options.domain, options.tags
        self.hub.author_connection_types = options.author_connection_types
        self.port = options.port
        self.ws_port = options.ws_port
        self._options = options
        self._websocket_users = options.websocket_users
        self._listener: Listener | None = None
        self.ownership: Dispatch[RouteLink] = Dispatch()
        self.mesh: Mesh | None = None
        self.links: DatabaseMesh | None = None
        if options.links is not None:
            from core.route.database_mesh import DatabaseMesh

            self.mesh = self.links = DatabaseMesh(self.hub, options.links, self.ownership)
            self.ownership.subscribe({Command.ANNOUNCE: self._announce_ownership})
            self.mesh.changed_peers.subscribe(self._announce_cluster)
            self.hub.cluster = options.links.name
        elif options.cluster is not None:
            from core.route.mesh import Mesh  # a start without a cluster does not wait for it

            self.mesh = Mesh(self.hub, options.cluster)
            self.mesh.changed_peers.subscribe(self._announce_cluster)
            self.hub.cluster = self.mesh.name
        self.owner_links = OwnerLinks(self.ownership, self.links)
        self.hub.default_account().use_mappings(options.mappings)

    @property
    def nats_address(self) -> str:
        """Address for clients, as `nats://host:port`."""
        return f"nats://{self.hub.host}:{self.hub.port}"

    @property
    def is_listening(self) -> bool:
        """True from `listen` until `disconnect`, even if the ports are closed to new clients."""
        return self._listener is not None

    async def listen(self) -> None:
        """Open the ports for clients, and the port for a cluster of nats-servers.

        Raises OSError if an address cannot be bound.
        """
        options = self._options
        self._listener = Listener(self.hub)
        _, self.port = await self._listener.start(options.host, self.port)
        if self.ws_port is not None:
            _, self.ws_port = await self._listener.start_websocket(
                options.ws_host or options.host,
                self.ws_port,
                options.websocket,
                self._websocket_users,
            )
            self.hub.ws_address = options.ws_host or options.host, self.ws_port
        if self.links is not None and self.links.accepts_members:
            self.links.bind()  # a configured address: announced and dialled before the secret
        elif self.mesh is not None and self.links is None:
            await self.mesh.listen()
            self.mesh.start()

    async def join(self, secret: bytes) -> None:
        """Open the port for links, and connect to the nodes of the database that share `secret`.

        Raises OSError if the address cannot be bound.
        """
        assert self.links is not None, "asked for in the options"
        self.links.join(secret)
        await self.links.listen()
        self.links.start()
        self._announce_cluster()

    def announce(self) -> None:
        """Send the present addresses of this server to other servers, and to clients by INFO."""
        if self.mesh is not None:
            self.mesh.announce()
            self._announce_cluster()

    def _announce_ownership(self, step: Step) -> None:
        """Announce to peers the groups that this node serves, and offer groups just released."""
        assert self.links is not None, "subscribed for them"
        event = step.event
        if isinstance(event, Released):
            transfer = event.transfer
            self.links.announce_ownership(transfer.to, is_requested=transfer.is_requested)
        else:
            self.links.announce_ownership()

    def _announce_cluster(self) -> None:
        """Announce to clients (INFO) the addresses of all servers, once another server is known."""
        assert self.mesh is not None
        others = self.mesh.connect_urls()
        here = self.mesh.own_connect_urls() if others or self.hub.connect_urls else ()
        over = self.mesh.connect_urls(over_websocket=True)
        is_told = over or self.hub.ws_connect_urls
        own = self.mesh.own_connect_urls(over_websocket=True) if is_told else ()
        self.hub.use_cluster(self.mesh.name, (*here, *others), (*own, *over))

    def use_users(self, users: Users | None, over_websocket: Users | None) -> None:
        """Replace the users that may connect, over TCP and over WebSocket (see `Hub.use_users`)."""
        self._websocket_users = over_websocket
        self.hub.use_users(users, over_websocket)

    def close_ports(self) -> None:
        """Accept no more clients; existing connections stay."""
        if self._listener is not None:
            self._listener.stop_accepting()

    def close_clients(self, reason: str) -> None:
        """Close every client connection with the error `reason`; clients then reconnect."""
        if self._listener is not None:
            self._listener.close_clients(reason)

    async def disconnect(self) -> None:
        """Close the ports, flush the outputs, and close every client connection."""
        self.loop_tick.run()
        if self._listener is not None:
            await self._listener.stop()
            self._listener = None

    def begin_lame_duck(self) -> None:
        """Announce lame duck mode to other servers and to clients, with alternative addresses."""
        if self.mesh is not None:
            self.mesh.retire()
            self.hub.begin_lame_duck(tuple(self.mesh.connect_urls()))

    async def close(self) -> None:
        """Close the ports and every connection, links to other servers included."""
        await self.disconnect()
        if self.mesh is not None:
            await self.mesh.close()
