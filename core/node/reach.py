"""Where the streams of a lease group are served from: here, or over the link to a peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.node.ownership.dispatch import Dispatch

if TYPE_CHECKING:
    from core.pubsub.route import Link
    from core.route.database_mesh import DatabaseMesh
    from core.route.link import RouteLink

_READ_S = 0.5


class Reach:
    """The owners that clients of this node can be served by (`core.api.places.Leaders`).

    Args:
        dispatch: the ownership of this node.
        mesh: the links to other nodes; None: there are no others.
    """

    def __init__(self, dispatch: Dispatch[RouteLink], mesh: DatabaseMesh | None) -> None:
        self._ownership, self._mesh = dispatch.ownership, mesh

    @property
    def leads(self) -> bool:
        """Whether this node owns anything."""
        return bool(self._ownership.owned)

    def link(self, group: int) -> Link | None:
        """Return the link to the peer that owns a group; None: this node does, or nobody."""
        return self._ownership.owners.get(group)

    def nodes(self) -> dict[str, Link]:
        """Return the links to the other nodes, by the names of these."""
        peers = () if self._mesh is None else self._mesh.nodes
        return {link.info.server_name: link for link in peers}

    def owner_name(self, group: int) -> str:
        """Return the name of the node that owns a group; empty: none is known."""
        if self._mesh is None:
            return ""
        if group in self._ownership.owned:
            return self._mesh.hub.server_name
        link = self._ownership.owners.get(group)
        return "" if link is None else link.info.server_name

    @property
    def has_peers(self) -> bool:
        """Whether there are other nodes, which could own groups in the place of this one."""
        peers = () if self._mesh is None else self._mesh.nodes
        return any(not link.info.ldm for link in peers)

    @property
    def is_beginning(self) -> bool:
        """Whether a peer is about to say that it owns more."""
        return self._mesh is not None and self._mesh.is_beginning

    def begin(self) -> None:
        """Tell peers that the interest of more groups follows."""
        if self._mesh is not None:
            self._mesh.begin()

    def leave(self) -> None:
        """Tell peers that this node goes, so that none transfers anything to it."""
        if self._mesh is not None:
            self._mesh.leave()

    async def drained(self) -> None:
        """Return when peers send nothing more for what this node serves no longer, or 0.5 s on."""
        if self._mesh is not None:
            await self._mesh.read(_READ_S)
