"""The routes between the nodes of one database, over which each announces its lease groups.

Each stream belongs to a lease group; the node that owns a group leads its streams. A route between
two nodes begins with a proof on both sides that they share a database. Each node announces on every
route the lease groups that it owns and serves (`core.cluster.token_masks`), so that the others send
publishes and requests for these streams to it. A node announces a group after the subscriptions of
its streams, and withdraws it before it ends operations in progress.

*Members.* Without a cluster name in the settings the mesh consists of the nodes alone. They find
each other in the database (`core.cluster.membership`), so there is no gossip, and a server without
a proof is refused. With a name, the nodes are members of that cluster: they are found as any member
is, and servers without JetStream may be members too. These give no proof, and reach JetStream by
subscriptions alone: the owner of a stream's group announces the subjects of the stream, the owner
of the stream directory those of the API.

*Acquiring groups.* A node that acquires groups sends their subscriptions between two INFO. Another
node that refuses publishes because no node owns the group holds them from the first INFO to the
second. So no publish is both refused and stored.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from msgspec.structs import replace

from core.cluster.token_masks import decode_tokens, encode_tokens, groups_of, mask_of
from core.errors import ProtocolError
from core.pubsub.receivers import MEMBERS_GROUP
from core.pubsub.server import Hub
from core.route.handshake import RouteInfo, encode_info
from core.route.interest import LocalInterest
from core.route.link import RouteLink
from core.route.mesh import Mesh
from core.route.proof import LinkProof, cluster_name
from core.route.settings import ClusterSettings
from core.route.versions import DirectoryVersions
from core.runtime.subscribers import Subscribers
from core.units import LeaseGroup

log = logging.getLogger(__name__)

_NO_GOSSIP = 1
_DIRECTORY = LeaseGroup(0)


class GroupOwnership(Protocol):
    """The lease groups that this node and the other nodes own, for the mesh.

    A lease group is a set of streams that one node leads. Implemented by
    `core.node.ownership.dispatch.Dispatch`.
    """

    def fencing_tokens(self) -> Mapping[LeaseGroup, int]:
        """Return the fencing token of each lease group that this node owns and serves."""
        ...

    def stale_peers(self) -> Collection[RouteLink]:
        """Return the routes to nodes whose announced lease groups other nodes have acquired
        since.
        """
        ...

    def peer_announced(self, peer: RouteLink, fencing_tokens: Mapping[LeaseGroup, int]) -> None:
        """Record the lease groups that another node owns, with their fencing tokens."""
        ...

    def peer_released(self, groups: frozenset[LeaseGroup], to: str, *, is_requested: bool) -> None:
        """Record that a node has released lease groups for the node named `to` to acquire.

        `is_requested`: a client requested the transfer.
        """
        ...


class DatabaseMesh(Mesh):
    """The routes of one node to the other nodes of its database.

    Life cycle: `join`, then as `core.route.mesh.Mesh`.

    Args:
        hub: The connections of this node.
        settings: The address on which routes are accepted, and the name of the cluster.
        ownership: Is called with the lease groups of other nodes, and supplies those of this node.

    Attributes:
        reached: Called when another node becomes reachable or unreachable, or when its INFO changes
            in more than the directory version.
        linked: Called when the handshake with another node is complete.
        versions: The versions of the stream directory that this node and the others have read.
    """

    holds_messages = False

    def __init__(self, hub: Hub, settings: ClusterSettings, ownership: GroupOwnership) -> None:
        super().__init__(hub, settings)
        self.reached: Subscribers[[]] = Subscribers()
        self.linked: Subscribers[[]] = Subscribers()
        self._ownership = ownership
        self._offers: tuple[tuple[str, str], ...] = ()
        self._is_asked = False
        self._secret = b""
        self._is_evacuated = False
        self._api, self._members_interest = LocalInterest(), LocalInterest()
        self._takes_acks = self._takes_requests = False
        self.accepts_members = bool(settings.name)
        self.versions = DirectoryVersions(self.peers, self.announce)

    def join(self, secret: bytes) -> None:
        """Set the secret that the nodes of this database share, for the proofs.

        Call it before `listen`.
        """
        self._secret = secret
        if not self.accepts_members:
            self.name = cluster_name(secret)

    @property
    def nodes(self) -> tuple[RouteLink, ...]:
        """The routes to nodes of the same database whose handshake is complete."""
        return tuple(link for link in self.peers.values() if link.is_proved)

    # -- ownership of lease groups -----------------------------------------------------------

    def begin(self) -> None:
        """Announce to the other nodes that subscriptions of newly owned lease groups are sent next.

        They hold publishes to these groups until `announce_ownership`.
        """
        self._begin_interest(self.write_to_all)

    def announce_ownership(
        self,
        offers: Mapping[str, Collection[LeaseGroup]] | None = None,
        *,
        is_requested: bool = False,
    ) -> None:
        """Announce to the other nodes the lease groups (sets of streams) that this node owns and
        serves.

        Args:
            offers: The groups just released, by the name of the node that is to own them.
            is_requested: True if a client requested the transfer.
        """
        tokens = self._ownership.fencing_tokens()
        self._announce_api(is_leading=_DIRECTORY in tokens)
        named = ((name, groups) for name, groups in (offers or {}).items() if name)
        self._offers = tuple((name, mask_of(groups)) for name, groups in named)
        self._is_asked = is_requested
        self._announce_acks_to_members(is_leading=bool(tokens))
        self.announce()
        self._close_stale()

    def evacuate(self, is_evacuated: bool) -> None:
        """Announce to the other nodes whether this node is to own no lease groups.

        `is_evacuated` False: it may own groups again.
        """
        self._is_evacuated = is_evacuated
        self.announce()

    def _announce_api(self, *, is_leading: bool) -> None:
        """Announce or withdraw the interest in API requests to members that are not nodes."""
        if is_leading != self._takes_requests:
            self._takes_requests = is_leading
            change = (
                self._members_interest.add_all if is_leading else self._members_interest.remove_all
            )
            self._write_to_members(change(self._api))

    def _announce_acks_to_members(self, *, is_leading: bool) -> None:
        """Announce or withdraw the interest in acknowledgements to members that are not nodes."""
        if is_leading != self._takes_acks:
            self._takes_acks = is_leading
            change = self._members_interest.add if is_leading else self._members_interest.remove
            self._write_to_members(change(*self._acks))

    def _write_to_members(self, line: bytes) -> None:
        for link in self.peers.values():
            if not link.is_proved:
                link.write_line(line)

    @property
    def is_beginning(self) -> bool:
        """True while another node has announced that it will own more lease groups."""
        return any(link.info.begins for link in self.peers.values())

    def _begin_interest(self, write: Callable[[bytes], None]) -> None:
        write(encode_info(replace(self.own_info(), begins=True)))

    def _apply_tokens(self, link: RouteLink) -> None:
        """Apply the lease groups in another node's INFO.

        Raises ValueError if they are malformed.
        """
        self._ownership.peer_announced(
            link, decode_tokens(link.info.fencing_tokens) if link.is_proved else {}
        )
        self._close_stale()

    def _close_stale(self) -> None:
        for link in self._ownership.stale_peers():
            log.warning(
                "%s - %s led before, and has not announced the change", link, link.info.server_name
            )
            link.close("Leads No More")

    async def read(self, within: float) -> None:
        """Wait at most `within` seconds until other servers have read all that was sent."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asyncio.gather(*(link.read() for link in list(self.peers.values())))

    # -- calls of links ----------------------------------------------------------------------

    def own_info(self) -> RouteInfo:
        """Return the INFO of this node, with its lease groups and directory version."""
        info = replace(
            super().own_info(),
            fencing_tokens=tuple(encode_tokens(self._ownership.fencing_tokens())),
            offers=self._offers,
            asked=self._is_asked,
            directory_version=self.versions.own,
            evacuated=self._is_evacuated,
        )
        return info if self.accepts_members else replace(info, gossip_mode=_NO_GOSSIP)

    def proving(self, *, has_dialled: bool) -> LinkProof:
        """Return the object that proves to the other server that both share a database."""
        return LinkProof(self._secret, self.hub.server_id, has_dialled=has_dialled)

    def count_interest(
        self, key: tuple[bytes, bytes, bytes], *, is_new: bool, is_ours: bool
    ) -> bytes:
        """Count a subscription of this server; return the line to send to other servers.

        Subscriptions in the queue group `MEMBERS_GROUP` are announced only to members that are not
        nodes. Arguments and result are those of `Mesh.count_interest`.
        """
        if key[2] != MEMBERS_GROUP:
            return super().count_interest(key, is_new=is_new, is_ours=is_ours)
        for interest in (
            (self._api, self._members_interest) if self._takes_requests else (self._api,)
        ):
            line = (interest.add if is_new else interest.remove)(*key)
            if interest is self._members_interest:
                self._write_to_members(line)
        return b""

    def joining(self, link: RouteLink) -> None:
        """Called when a handshake is complete, before the subscriptions of this server are sent.

        Announces that subscriptions of owned lease groups are sent next, if this node owns any.
        """
        if self._ownership.fencing_tokens():
            self._begin_interest(link.write_line)

    def joined(self, link: RouteLink) -> None:
        """Called when a handshake is complete and the subscriptions were sent.

        Announces the owned lease groups and the directory version that this node has read.
        """
        self.versions.apply(link)
        if link.is_proved:
            self.linked()
        else:
            link.write_line(self._members_interest.all_lines())
        if self._ownership.fencing_tokens() or self.versions.own or self._is_evacuated:
            link.write_line(encode_info(self.own_info()))

    def met(self, info: RouteInfo) -> None:
        """Connect to a server that another server has announced.

        Without a cluster name nothing is done, since the nodes find each other in the database.
        """
        if self.accepts_members:
            super().met(info)

    def changed(self, link: RouteLink, before: RouteInfo) -> None:
        """Apply the lease groups, releases and directory version in a later INFO of another node.

        Raises ProtocolError if they are malformed.
        """
        self.versions.apply(link)
        if replace(before, directory_version=link.info.directory_version) == link.info:
            return
        super().changed(link, before)
        try:
            offers = {name: groups_of(mask) for name, mask in link.info.offers}
            self._apply_tokens(link)
        except ValueError as error:
            raise ProtocolError(reason=f"bad INFO: {error}") from error
        if link.info.offers != before.offers:
            for name, groups in offers.items():
                self._ownership.peer_released(groups, name, is_requested=link.info.asked)
        self.reached()

    def gone(self, link: RouteLink) -> None:
        """Remove a closed route and the lease groups that its node has announced."""
        super().gone(link)
        self.versions.wake()
        self._ownership.peer_announced(link, {})
        if link.info.fencing_tokens or link.info.begins:
            self.reached()
