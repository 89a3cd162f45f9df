"""What a node does about the other nodes of its database while it leads or would lead."""

from collections.abc import Callable, Sequence

from core.cluster.following import CatalogueFollower
from core.cluster.members import Cluster
from core.cluster.membership import SILENT, Membership
from core.route.database_mesh import DatabaseMesh
from core.storage.leases import PeerRow


class Neighbours:
    """The `core.cluster.leadership.Follower` of a node: it keeps links to all others.

    Args:
        mesh: its links; None: it has none, and only stands by.

    Attributes:
        cluster: the nodes as infos show them; None: it has no links.
        on_joined: called when another node is linked, which may have come since `met`.
    """

    def __init__(self, mesh: DatabaseMesh | None) -> None:
        self._on_version: Callable[[int], None] = lambda _version: None
        self.on_joined: Callable[[], None] = lambda: None
        self._has_others = False
        self._mesh = mesh
        self.cluster: Cluster | None = None
        if mesh is not None:
            mesh.on_joined = lambda: self.on_joined()
            self._membership = Membership(mesh.hub.server_id)
            self.cluster = Cluster(
                mesh.hub.server_name,
                mesh.hub.clock,
                name=lambda: mesh.name,
                leader=mesh.leader_name,
                linked=lambda: {link.info.server_id for link in mesh.nodes if not link.info.ldm},
                evacuated=lambda: {
                    link.info.server_id for link in mesh.nodes if link.info.evacuated
                },
            )
            self.cluster.tell_evacuated = mesh.evacuate

    def follow(self, known: CatalogueFollower) -> None:
        """Have what a node knows of the catalogue follow what the others change, and tell them."""
        mesh = self._mesh
        if mesh is None:
            return  # it has no links: what others do it finds out when it leads
        catalogue, versions = known.catalogue, mesh.versions
        catalogue.on_change.append(lambda _changes: versions.read(catalogue.version))
        known.shared = versions.read_by_all
        known.has_peers = lambda: self._has_others or bool(mesh.nodes)
        versions.on_heard = self._on_version = known.heard
        known.heard(0)

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
