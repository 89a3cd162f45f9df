"""What a node does about the other nodes of its database while it leads or would lead."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from core.cluster.members import Cluster
from core.cluster.membership import Membership
from core.route.database_mesh import DatabaseMesh
from core.storage.leases import PeerRow

_SUCCESSION = 1_500_000_000
"""Nanoseconds for which a node leaves it to the one that was named to lead; publishes wait."""
_SECOND = 1_000_000_000
_LOOK_S = 0.05


class Neighbours:
    """The `core.cluster.leadership.Follower` of a node: it keeps links to all others.

    Attributes:
        cluster: the nodes as infos show them.
        on_standing_by: called after each attempt to lead that has failed.
    """

    def __init__(self, mesh: DatabaseMesh) -> None:
        self.on_standing_by: Callable[[], None] = lambda: None
        self._mesh = mesh
        self.cluster = Cluster(
            mesh.hub.server_name,
            mesh.hub.clock,
            name=lambda: mesh.name,
            leader=mesh.leader_name,
            linked=lambda: mesh.peers.keys(),
        )
        self._membership = Membership(mesh.hub.server_id)
        self._hurry = asyncio.Event()
        self._waits_until = 0
        mesh.on_released = self._hasten
        mesh.on_succession = self._leave_it

    def stands_by(self) -> None:
        """Hear that another node leads, or none."""
        self.on_standing_by()

    def links(self) -> tuple[str, ...]:
        """Return the names of the nodes to which there are links."""
        return tuple(sorted(link.info.server_name for link in self._mesh.peers.values()))

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Dial those that are new."""
        self.cluster.met(rows)
        mesh = self._mesh
        if mesh.is_leaving:
            return
        changes = self._membership.follow(rows, mesh.peers, mesh.hub.clock.monotonic())
        for address in changes.drop:
            mesh.dial_no_more(*address)
        for address in changes.dial:
            mesh.dial(*address)

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until the leader says that it has let go, or is lost.

        Where that one has named another node, wait until it leads, or took too long.
        """
        await self._hurried(seconds)
        while self._waits > 0 and self._mesh.leader is None:
            await self._hurried(min(self._waits, _LOOK_S))

    async def _hurried(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        self._hurry.clear()

    @property
    def _waits(self) -> float:
        """For how long this node leaves it to another one to lead, seconds."""
        return (self._waits_until - self._mesh.hub.clock.monotonic()) / _SECOND

    def _hasten(self) -> None:
        """Try at once: the leader has let go, and names nobody else."""
        self._waits_until = 0
        self._hurry.set()

    def _leave_it(self) -> None:
        """Leave it to another node to lead next."""
        self._waits_until = self._mesh.hub.clock.monotonic() + _SUCCESSION
