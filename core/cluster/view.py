"""The nodes of one database as clients see them: leaders, replicas, and possible leaders.

Streams are divided into lease groups, and each group has one node as leader. `ClusterView` answers
questions about one stream or consumer at a time (`Group`). Rendezvous hashing selects the nodes
that are shown as its replicas: every leader shows the same ones, and few change when a node joins
or leaves. PostgreSQL replicates the data; a replica is only a node that could lead.

A node is known by its row, with the last heartbeat that this node has read, and by its link.
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
    """Return the peer id of a node: eight characters, computed from its name as in nats-server."""
    return short_hash(node).decode()


class Alone:
    """The view of the nodes in a process without links: there is only this node."""

    own = "-"
    is_evacuated = False

    def responsive(self) -> set[str]:
        """Return the name of this node."""
        return {self.own}

    def able(self) -> set[str]:
        """Return an empty set: no other node can lead."""
        return set()

    def leader(self, group: LeaseGroup) -> str:
        """Return an empty name: no other node leads."""
        return ""

    def tags(self) -> dict[str, frozenset[str]]:
        """Return an empty dict: without other nodes, tags do not matter."""
        return {}


class NodeLinks(Protocol):
    """The links of this node to the other nodes, and the owners of lease groups.

    Implemented by `core.node.peers.Peers`.
    """

    @property
    def own(self) -> str:
        """Name of this node."""
        ...

    @property
    def cluster_name(self) -> str:
        """Name of the NATS cluster; empty without links."""
        ...

    def owner_name(self, group: LeaseGroup) -> str:
        """Return the name of the node that owns a lease group; empty if none is known."""
        ...

    def owned_since(self) -> Mapping[LeaseGroup, Nanos]:
        """Return the time at which this node loaded each of its lease groups.

        In nanoseconds since the Unix epoch.
        """
        ...

    def linked(self) -> Collection[str]:
        """Return the server ids of linked nodes that are not in lame duck mode."""
        ...

    def evacuated(self) -> Collection[str]:
        """Return the server ids of linked nodes that a client has asked to own no lease group."""
        ...

    def announce_evacuated(self, is_evacuated: bool) -> None:
        """Announce to peers whether this node is evacuated.

        An evacuated node owns no lease group, at the request of a client.
        """
        ...

    def step_down(self, groups: Collection[LeaseGroup], successor: str) -> None:
        """Transfer lease groups of this node to the node named `successor`; empty: to any."""
        ...

    async def delete(self, node: str) -> None:
        """Delete the row of a stopped node. Raises Unavailable if PostgreSQL does not answer."""
        ...


class ClusterView:
    """The nodes of a database, as one of them sees them.

    Args:
        nodes: The links and the lease groups of this node.
        clock: The clock of the machine.

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
        """Name of the NATS cluster; empty without links."""
        return self._nodes.cluster_name

    @property
    def leads(self) -> bool:
        """True if this node leads the cluster: it owns the lease group of the stream directory."""
        return self.leader(_DIRECTORY) == self.own

    def leader(self, group: LeaseGroup) -> str:
        """Return the name of the node that owns a lease group; empty if none is known."""
        return self._nodes.owner_name(group)

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Replace the known rows of all nodes, this one included; called after each heartbeat."""
        self._rows = {row.node: row for row in rows}
        self._tags = {row.node: frozenset(row.tags) for row in rows}
        self._read = self._clock.monotonic()

    # -- one stream --------------------------------------------------------------------------

    def info(self, group: Group) -> ClusterInfo:
        """Return the cluster info of a stream or consumer that this node leads.

        With one replica it has only the leader, as in nats-server.
        """
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
        """Return all replicas of a stream or consumer, the leader included, for advisories."""
        return tuple(self._shown(name) for name in sorted((self.own, *self._other_peers(group))))

    def members(self) -> tuple[PeerInfo, ...]:
        """Return the peer infos of all nodes with a heartbeat in the last 10 s, this one too."""
        return tuple(self._shown(name) for name in sorted(self.present()))

    def leave(self, group: Group, peer: str) -> None:
        """Replace the replica `peer` (name or peer id) by another node.

        If `peer` is this node, the leader, it transfers the stream's lease group. A consumer's new
        replica is one of its stream's replicas.

        Raises:
            ApiError: JSClusterPeerNotMember if `peer` is no replica; JSPeerRemap if there is no
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
        """Return the nodes in `nodes`, without this one, in order of preference as replicas."""
        left = self._left.get((stream, consumer), ())

        def place(name: str) -> tuple[bool, bytes]:
            return name in left, sha256(f"{stream} {name}".encode()).digest()

        return sorted((name for name in nodes if name != self.own), key=place)

    def _suited(self, group: Group) -> set[str]:
        """Return the present nodes with the tags of a stream; all if none has them."""
        living = self.present()
        suited = {name for name in living if unsuited(self._of(name), group.tags) is None}
        return suited or living

    def _of(self, name: str) -> frozenset[str]:
        return self._tags.get(name, NO_TAGS)

    # -- tags --------------------------------------------------------------------------------

    def tags(self) -> Mapping[str, frozenset[str]]:
        """Return the tags of all nodes, by node name."""
        return self._tags

    def check(self, placement: Placement | None) -> None:
        """Check that a placement names this cluster, and that a node has all of its tags.

        Any placement is accepted if this is the only node, as in nats-server.

        Raises:
            ApiError: JSClusterNoPeers if the check fails.
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
        """Return the name of the node that is to lead next, after a step-down; empty: any node.

        Args:
            placement: The requested placement; None: any node.
            within: The stream or consumer whose replicas may be named; None: any node may be named.

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
        """Return the nodes that may be named as next leader: the replicas, if there are several."""
        if within is None or within.replicas <= 1:
            return self.present()
        return set(self._other_peers(within))

    def member(self, name: str, peer: str) -> str:
        """Return the name of a node, given its peer id, or its name if `peer` is empty.

        Empty if there is no such node.
        """
        for node in {self.own, *self._rows}:
            if peer_id(node) == peer if peer else node == name:
                return node
        return ""

    def lives(self, node: str) -> bool:
        """Return whether a node had a heartbeat in the last 10 s."""
        return node in self.present()

    async def remove(self, node: str) -> None:
        """Delete a stopped node from the list of nodes in the database.

        Raises Unavailable if PostgreSQL does not answer.
        """
        await self._nodes.delete(node)
        self._rows.pop(node, None)

    def transfer(self, groups: Collection[LeaseGroup], successor: str) -> None:
        """Transfer lease groups of this node to the node named `successor`; empty: to any node.

        Does nothing if no other node can lead. Does not wait for the transfer.
        """
        if self.able():
            self._nodes.step_down(groups, successor)

    def meta(self) -> MetaCluster:
        """Return the meta group for the monitoring page /jsz.

        Stopped nodes count until they are removed.
        """
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
        """Return the names of the nodes with a heartbeat in the last 4 s, this one included.

        The placement uses these: after 4 s without a heartbeat, other nodes may acquire the leases.
        """
        now = self._clock.monotonic()
        there = {name for name, row in self._rows.items() if self._active(row, now) < _OFFLINE}
        return {self.own, *there}

    def able(self) -> set[str]:
        """Return the names of the other nodes that can own lease groups.

        They have a heartbeat in the last 10 s and a link, and are neither in lame duck mode nor
        evacuated.
        """
        able = set(self._nodes.linked()) - set(self._nodes.evacuated())
        return {n for n in self.present() - {self.own} if self._rows[n].server_id in able}

    def evacuate(self) -> None:
        """Transfer all lease groups of this node, and acquire none until nodes join or leave.

        Does nothing if no other node can lead.
        """
        if self.able():
            self._members_then = frozenset(self.responsive())
            self._nodes.announce_evacuated(True)
            self.transfer(tuple(self._nodes.owned_since()), "")

    @property
    def is_evacuated(self) -> bool:
        """True while this node is evacuated: at a client's request it owns no lease group.

        The evacuation ends when the set of nodes with a heartbeat in the last 4 s changes.
        """
        if self._members_then and self._members_then != self.responsive():
            self._members_then = frozenset()
            self._nodes.announce_evacuated(False)
        return bool(self._members_then)

    def present(self) -> set[str]:
        """Return the names of the nodes with a heartbeat in the last 10 s, this one included.

        Cluster infos and replicas use these: a node that restarts stays a replica.
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
