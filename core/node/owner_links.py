"""Lookup of the owner of a lease group: this node, or a peer with the link to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.node.ownership.dispatch import Dispatch
from core.units import LeaseGroup

if TYPE_CHECKING:
    from core.pubsub.receivers import ServerLink
    from core.route.database_mesh import DatabaseMesh
    from core.route.link import RouteLink

_READ_S = 0.5


class OwnerLinks:
    """The owners of lease groups that this node knows (`core.api.request_routing.GroupOwners`).

    A lease group is a set of streams that one node serves.

    Args:
        dispatch: The ownership of this node.
        mesh: The links to other nodes; None if there are no others.
    """

    def __init__(self, dispatch: Dispatch[RouteLink], mesh: DatabaseMesh | None) -> None:
        self._ownership, self._mesh = dispatch.ownership, mesh

    @property
    def leads(self) -> bool:
        """True if this node owns a lease group."""
        return bool(self._ownership.owned)

    def link(self, group: LeaseGroup) -> ServerLink | None:
        """Return the link to the peer that owns a lease group.

        None if this node owns it, or no owner is known.
        """
        return self._ownership.owners.get(group)

    def nodes(self) -> dict[str, ServerLink]:
        """Return the links to the other nodes, by node name."""
        peers = () if self._mesh is None else self._mesh.nodes
        return {link.info.server_name: link for link in peers}

    def owner_name(self, group: LeaseGroup) -> str:
        """Return the name of the node that owns a lease group; empty if none is known."""
        if self._mesh is None:
            return ""
        if group in self._ownership.owned:
            return self._mesh.hub.server_name
        link = self._ownership.owners.get(group)
        return "" if link is None else link.info.server_name

    @property
    def has_peers(self) -> bool:
        """True if another linked node could own this node's groups: it is not in lame duck mode."""
        peers = () if self._mesh is None else self._mesh.nodes
        return any(not link.info.ldm for link in peers)

    @property
    def is_beginning(self) -> bool:
        """True if a peer has announced that it is about to own more lease groups."""
        return self._mesh is not None and self._mesh.is_beginning

    def begin(self) -> None:
        """Announce to peers that this node is about to send subscriptions of more lease groups."""
        if self._mesh is not None:
            self._mesh.begin()

    def leave(self) -> None:
        """Announce to peers that this node leaves, so that none transfers a lease group to it."""
        if self._mesh is not None:
            self._mesh.leave()

    async def drained(self) -> None:
        """Return once all data that peers sent before this call is read, or after 0.5 s."""
        if self._mesh is not None:
            await self._mesh.read(_READ_S)
