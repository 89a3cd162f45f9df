"""What a node does about the other nodes of its database while it leads or would lead."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from core.cluster.membership import Membership
from core.route.database_mesh import DatabaseMesh
from core.storage.leases import PeerRow


class Neighbours:
    """The `core.cluster.leadership.Follower` of a node: it keeps links to all others.

    Args:
        mesh: its links; None: it has none, and only stands by.

    Attributes:
        on_standing_by: called after each attempt to lead that has failed.
    """

    def __init__(self, mesh: DatabaseMesh | None) -> None:
        self.on_standing_by: Callable[[], None] = lambda: None
        self._mesh = mesh
        self._hurry = asyncio.Event()
        if mesh is not None:
            self._membership = Membership(mesh.hub.server_id)
            mesh.on_released = self._hurry.set

    def stands_by(self) -> None:
        """Hear that another node leads, or none."""
        self.on_standing_by()

    def links(self) -> tuple[str, ...]:
        """Return the names of the nodes to which there are links."""
        nodes = () if self._mesh is None else self._mesh.nodes
        return tuple(sorted(link.info.server_name for link in nodes))

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Dial those that are new."""
        mesh = self._mesh
        if mesh is None or mesh.is_leaving or mesh.takes_others:
            return  # members of a cluster are found by their routes
        changes = self._membership.follow(rows, mesh.peers, mesh.hub.clock.monotonic())
        for address in changes.drop:
            mesh.dial_no_more(*address)
        for address in changes.dial:
            mesh.dial(*address)

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until the leader says that it has let go, or is lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        self._hurry.clear()
