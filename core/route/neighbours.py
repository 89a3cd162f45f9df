"""What a node does about the other nodes of its database while it leads or would lead."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from core.cluster.following import CatalogueFollower
from core.cluster.members import Cluster
from core.cluster.membership import SILENT, Membership
from core.route.database_mesh import DatabaseMesh
from core.storage.leases import PeerRow

_SUCCESSION = 1_500_000_000
"""Nanoseconds for which a node leaves it to the one that was named to lead; publishes wait."""
_SECOND = 1_000_000_000
_LOOK_S = 0.05


class Neighbours:
    """The `core.cluster.leadership.Follower` of a node: it keeps links to all others.

    Args:
        mesh: its links; None: it has none, and only stands by.

    Attributes:
        cluster: the nodes as infos show them; None: it has no links.
        on_standing_by: called after each attempt to lead that has failed.
    """

    def __init__(self, mesh: DatabaseMesh | None) -> None:
        self.on_standing_by: Callable[[], None] = lambda: None
        self._on_version: Callable[[int], None] = lambda _version: None
        self._has_others = False
        self._mesh = mesh
        self.cluster: Cluster | None = None
        self._hurry = asyncio.Event()
        self._waits_until = 0
        if mesh is not None:
            self._membership = Membership(mesh.hub.server_id)
            self.cluster = Cluster(
                mesh.hub.server_name,
                mesh.hub.clock,
                name=lambda: mesh.name,
                leader=mesh.leader_name,
                linked=lambda: mesh.peers.keys(),
            )
            mesh.on_released = self._hasten
            mesh.on_succession = self._leave_it

    def follow(self, known: CatalogueFollower) -> None:
        """Have what a node knows of the catalogue follow what the others change, and tell them."""
        mesh = self._mesh
        if mesh is None:
            return  # it has no links: what others do it finds out when it leads
        catalogue, versions = known.catalogue, mesh.versions
        catalogue.on_change.append(lambda: versions.read(catalogue.version))
        known.shared = versions.read_by_all
        known.has_peers = lambda: self._has_others or bool(mesh.nodes)
        versions.on_heard = self._on_version = known.heard
        known.heard(0)

    def stands_by(self) -> None:
        """Hear that another node leads, or none."""
        self.on_standing_by()

    def links(self) -> tuple[str, ...]:
        """Return the names of the nodes to which there are links."""
        nodes = () if self._mesh is None else self._mesh.nodes
        return tuple(sorted(link.info.server_name for link in nodes))

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Dial those that are new."""
        if self.cluster is not None:
            self.cluster.met(rows)
        mesh = self._mesh
        if mesh is None:
            return
        own = mesh.hub.server_id
        self._has_others = any(row.server_id != own and row.silence < SILENT for row in rows)
        if rows:
            self._on_version(rows[0].catalogue)
        if mesh.is_leaving or mesh.takes_others:
            return  # members of a cluster are found by their routes
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
        if self._mesh is not None:
            await self._left(self._mesh)

    async def _left(self, mesh: DatabaseMesh) -> None:
        """Return when nobody else is to be left to lead, or leads."""
        clock = mesh.hub.clock
        while (waits := (self._waits_until - clock.monotonic()) / _SECOND) > 0:
            if mesh.leader is not None:
                return
            await self._hurried(min(waits, _LOOK_S))

    async def _hurried(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        self._hurry.clear()

    def _hasten(self) -> None:
        """Try at once: the leader has let go, and names nobody else."""
        self._waits_until = 0
        self._hurry.set()

    def _leave_it(self) -> None:
        """Leave it to another node to lead next."""
        assert self._mesh is not None, "it has told"
        self._waits_until = self._mesh.hub.clock.monotonic() + _SUCCESSION
