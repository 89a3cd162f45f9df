"""Tracking of the other nodes of the database: their rows, links and directory versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from core.cluster.membership import SILENT, Membership
from core.cluster.view import ClusterView
from core.node.ownership.state import StepDownRequested
from core.units import LeaseGroup, Nanos

if TYPE_CHECKING:
    from core.cluster.directory_follower import DirectoryFollower
    from core.node.server import Server
    from core.storage.leases import PeerRow


class Peers:
    """Keeps links to all other nodes (implements `core.node.lease_session.PeerFollower`).

    Args:
        server: The server with the links. Without links this node is only a standby.
        delete: Deletes the row of a stopped node; raises Unavailable if PostgreSQL does not answer.

    Attributes:
        own: Name of this node.
        cluster: The view of the nodes for stream infos and placement; None without links.
    """

    def __init__(self, server: Server, delete: Callable[[str], Awaitable[None]]) -> None:
        self.own = server.hub.server_name
        self._dispatch, self._owner_links, self._mesh = (
            server.ownership,
            server.owner_links,
            server.links,
        )
        self._delete = delete
        self._membership = Membership(server.hub.server_id)
        self._known: DirectoryFollower | None = None
        self._has_peers = False
        self.cluster = None if self._mesh is None else ClusterView(self, server.hub.clock)

    # -- the cluster view --------------------------------------------------------------------

    @property
    def cluster_name(self) -> str:
        """Name of the NATS cluster; empty without links."""
        return "" if self._mesh is None else self._mesh.name

    def owner_name(self, group: LeaseGroup) -> str:
        """Return the name of the node that owns a lease group; empty if none is known."""
        return self._owner_links.owner_name(group)

    def owned_since(self) -> Mapping[LeaseGroup, Nanos]:
        """Return the time at which this node loaded each of its lease groups.

        In nanoseconds since the Unix epoch.
        """
        return self._dispatch.ownership.owned_since

    def linked(self) -> Collection[str]:
        """Return the server ids of linked nodes that are not in lame duck mode."""
        nodes = () if self._mesh is None else self._mesh.nodes
        return {link.info.server_id for link in nodes if not link.info.ldm}

    def evacuated(self) -> Collection[str]:
        """Return the server ids of linked nodes that a client has asked to own no lease group."""
        nodes = () if self._mesh is None else self._mesh.nodes
        return {link.info.server_id for link in nodes if link.info.evacuated}

    def announce_evacuated(self, is_evacuated: bool) -> None:
        """Announce to peers whether this node is evacuated.

        An evacuated node owns no lease group, at the request of a client.
        """
        if self._mesh is not None:
            self._mesh.evacuate(is_evacuated)

    def step_down(self, groups: Collection[LeaseGroup], successor: str) -> None:
        """Transfer lease groups to the node named `successor`; empty: to any node.

        Groups that this node does not own are left out. Does not wait for the transfer.
        """
        owned = frozenset(groups) & self._dispatch.ownership.owned
        self._dispatch.post(StepDownRequested(owned, successor))

    async def delete(self, node: str) -> None:
        """Delete the row of a stopped node. Raises Unavailable if PostgreSQL does not answer."""
        await self._delete(node)

    # -- following ---------------------------------------------------------------------------

    def follow(self, known: DirectoryFollower) -> None:
        """Connect the stream directory of this node with its links.

        Peers learn each version that this node has read, and a higher version of a peer makes this
        node read the directory. Without links it does nothing.
        """
        self._known = known
        mesh = self._mesh
        if mesh is None:
            return  # without links a node reads changes when it acquires a group
        directory, versions = known.directory, mesh.versions
        directory.changed.subscribe(lambda _changes: versions.read(directory.version))
        versions.on_higher.subscribe(known.on_version)
        known.on_version(0)

    @property
    def has_peers(self) -> bool:
        """True if other nodes exist, which could have changed the stream directory."""
        return self._has_peers or (self._mesh is not None and bool(self._mesh.nodes))

    async def shared(self, version: int) -> None:
        """Return once all linked nodes have read this version of the stream directory.

        Returns after 0.25 s at the latest.
        """
        if self._mesh is not None:
            await self._mesh.versions.read_by_all(version)

    def on_joined(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` whenever a link to another node is established.

        Returns a function that ends the subscription.
        """
        return (lambda: None) if self._mesh is None else self._mesh.linked.subscribe(call)

    def links(self) -> tuple[str, ...]:
        """Return the names of the linked nodes, sorted."""
        return tuple(sorted(self._owner_links.nodes()))

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Process the rows of all nodes: connect to new nodes, drop those without a heartbeat."""
        if self.cluster is not None:
            self.cluster.met(rows)
        mesh = self._mesh
        if mesh is None:
            return
        own = mesh.hub.server_id
        self._has_peers = any(row.server_id != own and row.silence < SILENT for row in rows)
        if rows and self._known is not None:
            self._known.on_version(rows[0].directory_version)
        if mesh.is_leaving or mesh.accepts_members:
            return  # members of a cluster are found by their routes
        changes = self._membership.follow(rows, mesh.peers, mesh.hub.clock.monotonic())
        for address in changes.drop:
            mesh.dial_no_more(*address)
        for address in changes.dial:
            mesh.dial(*address)
