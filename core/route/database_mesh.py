"""The mesh of the nodes of one database: which node owns which lease groups, and which may join.

A link between two nodes begins with a proof on both sides. All nodes have JetStream. Each announces
on every link the lease groups that it owns and serves (`core.cluster.token_masks`), so that peers
send publishes and requests for these streams to it. A node announces groups after the interest of
their streams, and withdraws them before it ends operations in progress.

Without a cluster name in the settings the mesh consists of the nodes alone. They find each other in
the database (`core.cluster.membership`), so there is no gossip, and a server that proves nothing is
refused. With a name, the nodes are members of that cluster: they are found as any member is, and
servers without JetStream are members too. Those prove nothing, and reach JetStream by interest
alone: the owner of a stream's group announces the interest of the stream, the owner of the stream
directory that of the API.

A node that acquires groups sends their interest between two INFO. A peer that refuses publishes
because no node owns the group holds them from the first INFO to the second. So no publish is both
refused and stored.
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
    """The ownership of lease groups (`core.node.ownership.dispatch.Dispatch`)."""

    def fencing_tokens(self) -> Mapping[LeaseGroup, int]:
        """Return the fencing token of each lease group that this node serves."""
        ...

    def stale_peers(self) -> Collection[RouteLink]:
        """Return the peers that claim a lease group which another node has acquired later."""
        ...

    def peer_announced(self, peer: RouteLink, fencing_tokens: Mapping[LeaseGroup, int]) -> None:
        """Apply the fencing tokens of a peer, by lease group."""
        ...

    def peer_released(self, groups: frozenset[LeaseGroup], to: str, *, is_requested: bool) -> None:
        """Apply the release of lease groups by a peer for the node named `to`.

        `is_requested`: a client requested the transfer.
        """
        ...


class DatabaseMesh(Mesh):
    """The links of one node. Life cycle: `join`, then as any mesh.

    Args:
        hub: The connections of this node.
        settings: Where routes are accepted.
        ownership: Receives the fencing tokens of peers, and supplies those of this node.

    Attributes:
        reached: Called when another node becomes reachable or unreachable, or when its INFO changes
            otherwise than in the directory version.
        linked: Called when another node is linked.
        versions: The directory versions that this node and its peers have read.
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
        """Set the secret that the nodes of this database share; call it before `listen`."""
        self._secret = secret
        if not self.accepts_members:
            self.name = cluster_name(secret)

    @property
    def nodes(self) -> tuple[RouteLink, ...]:
        """The links to nodes of the same database."""
        return tuple(link for link in self.peers.values() if link.is_proved)

    # -- ownership of lease groups -----------------------------------------------------------

    def begin(self) -> None:
        """Announce to peers that the interest of more lease groups follows."""
        self._begin_interest(self.write_to_all)

    def announce_ownership(
        self,
        offers: Mapping[str, Collection[LeaseGroup]] | None = None,
        *,
        is_requested: bool = False,
    ) -> None:
        """Announce to peers the lease groups that this node serves.

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
        """Announce to peers that this node is to own no lease groups, or that it may again."""
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
        """True while a peer is about to claim lease groups."""
        return any(link.info.begins for link in self.peers.values())

    def _begin_interest(self, write: Callable[[bytes], None]) -> None:
        write(encode_info(replace(self.own_info(), begins=True)))

    def _apply_tokens(self, link: RouteLink) -> None:
        """Apply the fencing tokens in a peer's INFO. Raises ValueError if they are malformed."""
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
        """Wait until the peers have read everything sent to them, at most `within` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asyncio.gather(*(link.read() for link in list(self.peers.values())))

    # -- calls of links ----------------------------------------------------------------------

    def own_info(self) -> RouteInfo:
        """Return the INFO of this node, with its fencing tokens and its directory version."""
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
        """Return the proofs of a new link."""
        return LinkProof(self._secret, self.hub.server_id, has_dialled=has_dialled)

    def count_interest(
        self, key: tuple[bytes, bytes, bytes], *, is_new: bool, is_ours: bool
    ) -> bytes:
        """Count a subscription; announce `MEMBERS_GROUP` only to members that are not nodes.

        Arguments and result are those of `Mesh.count_interest`.
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
        """Announce that the interest of owned lease groups follows, if there are any."""
        if self._ownership.fencing_tokens():
            self._begin_interest(link.write_line)

    def joined(self, link: RouteLink) -> None:
        """Announce fencing tokens after the interest, and the directory version."""
        self.versions.apply(link)
        if link.is_proved:
            self.linked()
        else:
            link.write_line(self._members_interest.all_lines())
        if self._ownership.fencing_tokens() or self.versions.own or self._is_evacuated:
            link.write_line(encode_info(self.own_info()))

    def met(self, info: RouteInfo) -> None:
        """Dial a server announced by a peer; do nothing if the database lists the nodes."""
        if self.accepts_members:
            super().met(info)

    def changed(self, link: RouteLink, before: RouteInfo) -> None:
        """Apply the fencing tokens, offers and directory version of a peer's later INFO.

        Raises ProtocolError if the tokens or offers are malformed.
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
        """Remove a closed link and the fencing tokens of its peer."""
        super().gone(link)
        self.versions.wake()
        self._ownership.peer_announced(link, {})
        if link.info.fencing_tokens or link.info.begins:
            self.reached()
