"""The nodes of one database as infos show them: leaders, replicas, and possible leaders.

Lease groups of streams are spread over the nodes, and each node could own any. `ClusterView` is
queried about one stream, or one consumer, at a time (`Group`). Rendezvous hashing selects the nodes
that are shown as its replicas: every leader shows the same, and few change when a node comes or
goes. PostgreSQL replicates the data; a replica is a node that could lead.

A node is known by its row, with the last heartbeat as this node read it, and by its link.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from core.cluster.membership import SILENT
from core.cluster.replica_groups import Group
from core.cluster.tags import NO_TAGS, NOT, unsuited
from core.model.api_errors import api_error
from core.model.cluster import ClusterInfo, MetaCluster, PeerInfo, Placement
from core.model.names import short_hash
from core.model.tags import clean_tag
from core.runtime.clock import Clock
from core.storage.leases import PeerRow
from core.units import LeaseGroup, Nanos

REPLICAS_MAX = 5
_OFFLINE = 4_000_000_000
_SYSTEM_ACCOUNT = "$SYS"
_DIRECTORY = LeaseGroup(0)
"""The lease group whose owner counts as the leader of the cluster."""


def peer_id(node: str) -> str:
    """Return the eight characters by which nats-server names a peer."""
    return short_hash(node).decode()


class Alone:
    """The nodes of a process without links: only itself."""

    own = "-"
    is_evacuated = False

    def responsive(self) -> set[str]:
        """Return this node."""
        return {self.own}

    def able(self) -> set[str]:
        """Return no other node."""
        return set()

    def leader(self, group: LeaseGroup) -> str:
        """Return no leader."""
        return ""

    def tags(self) -> dict[str, frozenset[str]]:
        """Return no tags: there is no other node to choose."""
        return {}


class NodeLinks(Protocol):
    """The links and the lease groups of this node (`core.node.peers.Peers`)."""

    @property
    def own(self) -> str:
        """Name of this node."""
        ...

    @property
    def cluster_name(self) -> str:
        """Name of the cluster."""
        ...

    def owner_name(self, group: LeaseGroup) -> str:
        """Return the name of the owner of a lease group; empty if none is known."""
        ...

    def owned_since(self) -> Mapping[LeaseGroup, Nanos]:
        """Return the load time of each group of this node, in nanoseconds since the Unix epoch."""
        ...

    def linked(self) -> Collection[str]:
        """Return the ids of linked servers that are not in lame duck mode."""
        ...

    def evacuated(self) -> Collection[str]:
        """Return the ids of the linked servers that are to own nothing."""
        ...

    def announce_evacuated(self, is_evacuated: bool) -> None:
        """Announce to peers whether this node is to own nothing."""
        ...

    def step_down(self, groups: Collection[LeaseGroup], successor: str) -> None:
        """Transfer groups of this node to the node named `successor`; empty: to any."""
        ...

    async def delete(self, node: str) -> None:
        """Delete the row of a node that is gone. Raises Unavailable."""
        ...


class ClusterView:
    """The nodes of a database, as one of them sees them.

    Args:
        nodes: The links and the lease groups of this node.
        clock: The clock of its machine.

    Attributes:
        own: Name of this node.
    """

    def __init__(self, nodes: NodeLinks, clock: Clock) -> None:
        self.own = nodes.own
        self._nodes = nodes
        self._members_then = frozenset[str]()
        self._clock = clock
        self._rows: dict[str, PeerRow] = {}
        self._tags: dict[str, frozenset[str]] = {}
        self._read = 0
        self._left: dict[tuple[int, str], set[str]] = {}

    @property
    def name(self) -> str:
        """Name of the cluster."""
        return self._nodes.cluster_name

    @property
    def leads(self) -> bool:
        """True if this node leads the stream directory."""
        return self.leader(_DIRECTORY) == self.own

    def leader(self, group: LeaseGroup) -> str:
        """Return the name of the owner of a lease group; empty if none is known."""
        return self._nodes.owner_name(group)

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Apply the rows of all nodes, this one included."""
        self._rows = {row.node: row for row in rows}
        self._tags = {row.node: frozenset(row.tags) for row in rows}
        self._read = self._clock.monotonic()

    # -- one stream --------------------------------------------------------------------------

    def info(self, group: Group) -> ClusterInfo:
        """Return the cluster info of a group; with one replica only the leader, as nats-server."""
        if group.replicas <= 1:
            return ClusterInfo(name=self.name, leader=self.own)
        return ClusterInfo(
            name=self.name,
            raft_group=group.name,
            leader=self.own,
            leader_since=self._nodes.owned_since().get(group.lease_group, 0),
            system_account=True,
            traffic_account=_SYSTEM_ACCOUNT,
            replicas=tuple(self._shown(name) for name in self._other_peers(group)),
        )

    def peers(self, group: Group) -> tuple[PeerInfo, ...]:
        """Return all nodes of a group, the leader included, for advisories."""
        return tuple(self._shown(name) for name in sorted((self.own, *self._other_peers(group))))

    def members(self) -> tuple[PeerInfo, ...]:
        """Return all nodes with a heartbeat in the last 10 s."""
        return tuple(self._shown(name) for name in sorted(self.present()))

    def leave(self, group: Group, peer: str) -> None:
        """Replace a replica by another node, given by name or peer id; a leader steps down.

        The replacement of a consumer's replica is a replica of its stream.

        Raises:
            ApiError: JSClusterPeerNotMember if the node is no replica; JSPeerRemap if there is no
                other node.
        """
        members = {self.own, *self._other_peers(group)}
        name = next((each for each in members if peer in (each, peer_id(each))), "")
        if not name:
            raise api_error("JSClusterPeerNotMember")
        others = self._suited(group)
        if group.consumer:
            others = {self.own, *self._in_order(others, group.stream, "")[: group.within - 1]}
        if others <= members:
            raise api_error("JSPeerRemap")
        if name == self.own:
            self.transfer((group.lease_group,), "")
        else:
            self._left.setdefault((group.stream, group.consumer), set()).add(name)

    def _other_peers(self, group: Group) -> list[str]:
        """Return the names of the replicas other than the leader, sorted."""
        able: Collection[str] = self._suited(group)
        if group.consumer:
            able = self._in_order(able, group.stream, "")[: max(group.within - 1, 0)]
        able = self._in_order(able, group.stream, group.consumer)
        return sorted(able[: max(group.replicas - 1, 0)])

    def _in_order(self, nodes: Collection[str], stream: int, consumer: str) -> list[str]:
        """Return some nodes, without this one, in order of preference as replicas."""
        left = self._left.get((stream, consumer), ())

        def place(name: str) -> tuple[bool, bytes]:
            return name in left, sha256(f"{stream} {name}".encode()).digest()

        return sorted((name for name in nodes if name != self.own), key=place)

    def _suited(self, group: Group) -> set[str]:
        """Return the present nodes with the tags of a group; all present nodes if none has them."""
        living = self.present()
        suited = {name for name in living if unsuited(self._of(name), group.tags) is None}
        return suited or living

    def _of(self, name: str) -> frozenset[str]:
        return self._tags.get(name, NO_TAGS)

    # -- tags --------------------------------------------------------------------------------

    def tags(self) -> Mapping[str, frozenset[str]]:
        """Return the tags of all nodes, by name."""
        return self._tags

    def check(self, placement: Placement | None) -> None:
        """Refuse a placement in another cluster, or with tags that no node satisfies.

        With one node every placement is accepted. Both as nats-server. Raises ApiError
        JSClusterNoPeers.
        """
        living = self.responsive()
        if placement is None or len(living) == 1:
            return
        err = "no suitable peers for placement"
        if placement.cluster not in ("", self.name):
            raise api_error("JSClusterNoPeers", err=err)
        wanted = placement.tags or ()
        first = {unsuited(self._of(name), wanted) for name in living}
        if None in first:
            return
        named = [tag for tag in dict.fromkeys(wanted) if tag in first]
        lacked = ", ".join(f"'{tag}'" for tag in named if not tag.startswith(NOT))
        excluded = ", ".join(f"'{tag[1:]}'" for tag in named if tag.startswith(NOT))
        err += f", tags not matched [{lacked}]" if lacked else ""
        err += f", tags excluded [{excluded}]" if excluded else ""
        raise api_error("JSClusterNoPeers", err=err)

    # -- all nodes ---------------------------------------------------------------------------

    def successor(self, placement: Placement | None, within: Group | None = None) -> str:
        """Return the name of the next leader; empty: any node.

        Args:
            placement: The requested placement; None: any node.
            within: The group whose replicas may be named; None: every node.

        Raises:
            ApiError: JSClusterNoPeers if no node satisfies the request.
        """
        if placement is None:
            return ""
        if placement.preferred:
            return self._preferred(placement.preferred, within)
        able, tags = self.able(), set(map(clean_tag, placement.tags or ()))
        if tags:
            able &= {name for name in self._among(within) if tags <= self._of(name)}
        if placement.cluster not in ("", self.name) or not able:
            raise api_error("JSClusterNoPeers", err="no replacement peer connected")
        return min(able) if tags else ""

    def _preferred(self, wanted: str, within: Group | None) -> str:
        if wanted == self.own:
            err = f'preferred server "{wanted}" is already leader'
            raise api_error("JSClusterNoPeers", err=err)
        known = self.able() & self._among(within)
        if wanted not in known:
            raise api_error("JSClusterNoPeers", err=f'preferred server "{wanted}" not known')
        return wanted

    def _among(self, within: Group | None) -> set[str]:
        """Return the nodes that may be requested as next leader: replicas, if there are several."""
        if within is None or within.replicas <= 1:
            return self.present()
        return set(self._other_peers(within))

    def member(self, name: str, peer: str) -> str:
        """Return the name of a node, by its peer id if given, else by name; empty if unknown."""
        for node in {self.own, *self._rows}:
            if peer_id(node) == peer if peer else node == name:
                return node
        return ""

    def lives(self, node: str) -> bool:
        """Return whether a node had a heartbeat in the last 10 s."""
        return node in self.present()

    async def remove(self, node: str) -> None:
        """Remove a node that is gone. Raises Unavailable."""
        await self._nodes.delete(node)
        self._rows.pop(node, None)

    def transfer(self, groups: Collection[LeaseGroup], successor: str) -> None:
        """Transfer groups to the node of a name, or (empty) to any; alone, keep them."""
        if self.able():
            self._nodes.step_down(groups, successor)

    def meta(self) -> MetaCluster:
        """Return the meta group for /jsz; nodes that are gone count until they are removed."""
        leader = self.leader(_DIRECTORY)
        names = {self.own, *self._rows}
        return MetaCluster(
            name=self.name,
            leader=leader,
            peer=peer_id(leader) if leader else "",
            replicas=tuple(self._shown(name) for name in sorted(names - {leader})),
            cluster_size=len(names),
            quorum_needed=1,
        )

    def responsive(self) -> set[str]:
        """Return the names of the nodes with a heartbeat in the last 4 s.

        The placement uses these: after 4 s without a heartbeat a node's leases may be acquired.
        """
        now = self._clock.monotonic()
        there = {name for name, row in self._rows.items() if self._active(row, now) < _OFFLINE}
        return {self.own, *there}

    def able(self) -> set[str]:
        """Return the names of the other nodes that could lead, and serve clients of this one."""
        able = set(self._nodes.linked()) - set(self._nodes.evacuated())
        return {n for n in self.present() - {self.own} if self._rows[n].server_id in able}

    def evacuate(self) -> None:
        """Transfer all groups, and own none until nodes come or go; alone, keep them."""
        if self.able():
            self._members_then = frozenset(self.responsive())
            self._nodes.announce_evacuated(True)
            self.transfer(tuple(self._nodes.owned_since()), "")

    @property
    def is_evacuated(self) -> bool:
        """True while this node is to own nothing."""
        if self._members_then and self._members_then != self.responsive():
            self._members_then = frozenset()
            self._nodes.announce_evacuated(False)
        return bool(self._members_then)

    def present(self) -> set[str]:
        """Return the names of the nodes with a heartbeat in the last 10 s.

        Infos and replicas use these: a node that restarts stays a replica.
        """
        now = self._clock.monotonic()
        there = {name for name, row in self._rows.items() if self._active(row, now) < SILENT}
        return {self.own, *there}

    def _active(self, row: PeerRow, now: Nanos) -> int:
        return max(row.silence, 0) + now - self._read

    def _shown(self, name: str) -> PeerInfo:
        row = self._rows.get(name)
        if row is None or name == self.own:
            return PeerInfo(name=name, current=True, peer=peer_id(name))
        active = self._active(row, self._clock.monotonic())
        is_offline = active >= _OFFLINE
        is_current = not is_offline and row.server_id in self._nodes.linked()
        return PeerInfo(
            name=name,
            current=is_current,
            offline=is_offline,
            active=active,
            peer=peer_id(name),
        )
