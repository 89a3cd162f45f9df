"""The mesh of the nodes of one database: who leads among them, and who else may join.

A link between two nodes begins with a proof on both sides. All have JetStream; the one that leads
says so on each link, behind its interest: who reads that may send it publishes. It says so too when
its time is over, and again once its locks are free.

Without a name in the settings the mesh is that of the nodes alone: they find each other in the
database (`core.cluster.membership`), so nobody is made known by gossip, and who proves nothing is
refused. With one, nodes are members of that cluster: they are found as any member is, and servers
without JetStream are members too. Those prove nothing, and reach the JetStream of whoever leads by
the interest that it tells them.

What a node itself subscribes to is what it leads. It is told only while the node leads, and all of
it at once, between two INFO: who refuses publishes because nobody leads holds them from the first
to the second, so that none is both refused and stored. Who leads no more takes it back at once,
though it still ends what is under way.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from msgspec.structs import replace

from core.pubsub.server import Hub
from core.route.handshake import RouteInfo, encode_info
from core.route.interest import LocalInterest
from core.route.link import RouteLink
from core.route.mesh import Mesh
from core.route.proof import Proving, cluster_name
from core.route.settings import ClusterSettings
from core.route.versions import Versions

log = logging.getLogger("jetgate.route")

_NO_GOSSIP = 1
_EACH_NODE = b"$SYS."
"""The beginning of what every node answers for itself, whether it leads or not."""


class DatabaseMesh(Mesh):
    """The links of one node. Life cycle: `join`, then as any mesh.

    Attributes:
        on_leader: called when the leader among the peers may be another one, or none.
        on_succession: called when a peer that leads no longer has named another node to lead next.
        versions: what of the catalogue this node and the others have read.
        on_released: called when a peer that has led no longer does, and its locks are free.
    """

    holds_messages = False

    def __init__(self, hub: Hub, settings: ClusterSettings) -> None:
        super().__init__(hub, settings)
        self.on_leader: Callable[[], None] = lambda: None
        self.on_succession: Callable[[], None] = lambda: None
        self.on_released: Callable[[], None] = lambda: None
        self._secret = b""
        self._leads = 0
        self._has_released = False
        self._successor = ""
        self._services = LocalInterest()
        self.takes_others = bool(settings.name)
        self.versions = Versions(self.peers, self.announce)

    def join(self, secret: bytes) -> None:
        """Belong to the nodes that know a secret, from before `listen` on."""
        self._secret = secret
        if not self.takes_others:
            self.name = cluster_name(secret)

    @property
    def nodes(self) -> tuple[RouteLink, ...]:
        """The links to nodes of the same database."""
        return tuple(link for link in self.peers.values() if link.is_proved)

    # -- leading -----------------------------------------------------------------------------

    @property
    def leader(self) -> RouteLink | None:
        """The link to the peer that leads and serves now."""
        leading = (link for link in self.peers.values() if link.info.leads)
        return max(leading, key=lambda link: link.info.leads, default=None)

    def leader_name(self) -> str:
        """Return the name of the node that leads; empty: none is known."""
        if self._leads:
            return self.hub.server_name
        return "" if (leader := self.leader) is None else leader.info.server_name

    def lead(self, epoch: int) -> None:
        """Tell peers that this node leads, and serves what they send it."""
        self._begin_interest(self.say_to_all)
        self._leads, self._has_released, self._successor = epoch, False, ""
        self.say_to_all(self.interest.take(self._services))
        self.take_acks()
        self.announce()

    def lead_no_more(self, successor: str = "") -> None:
        """Tell peers that they should send this node nothing more for streams.

        `successor`: the name of the one that is to lead next; empty: whoever does first.
        """
        if self._leads:
            self._leads, self._successor = 0, successor
            self.announce()
            self.say_to_all(self.interest.drop(self._services))
            self.take_no_acks()

    def released(self) -> None:
        """Tell peers that they may lead."""
        self._has_released = True
        self.announce()

    @property
    def is_beginning(self) -> bool:
        """Whether a peer is about to say that it leads."""
        return any(link.info.begins for link in self.peers.values())

    def _begin_interest(self, say: Callable[[bytes], None]) -> None:
        say(encode_info(replace(self.own_info(), begins=True, leads=0)))

    def overtake(self, epoch: int) -> None:
        """Close the links to who still says that it leads, under an epoch before this one."""
        for link in self.nodes:
            if 0 < link.info.leads < epoch:
                log.warning("%s - %s led before, and has not said yet", link, link.info.server_name)
                link.close("Leads No More")

    async def read(self, within: float) -> None:
        """Return when the peers have read what they were sent, or that takes too long: seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asyncio.gather(*(link.read() for link in list(self.peers.values())))

    # -- what links ask ----------------------------------------------------------------------

    def own_info(self) -> RouteInfo:
        """Return what this node says of itself."""
        info = replace(
            super().own_info(),
            leads=self._leads,
            released=self._has_released,
            successor=self._successor,
            catalogue=self.versions.own,
        )
        return info if self.takes_others else replace(info, gossip_mode=_NO_GOSSIP)

    def proving(self, *, has_dialled: bool) -> Proving:
        """Return the proofs of a new link."""
        return Proving(self._secret, self.hub.server_id, has_dialled=has_dialled)

    def count_interest(
        self, key: tuple[bytes, bytes, bytes], *, is_new: bool, is_ours: bool
    ) -> bytes:
        """Count a subscription; what this node leads is told while it does."""
        if is_ours and not key[1].startswith(_EACH_NODE):
            _ = self._services.add(*key) if is_new else self._services.remove(*key)
            if not self._leads:
                return b""
        return super().count_interest(key, is_new=is_new, is_ours=is_ours)

    def joining(self, link: RouteLink) -> None:
        """Say that the interest of who leads is to come."""
        if self._leads:
            self._begin_interest(link.say)

    def joined(self, link: RouteLink) -> None:
        """Say that this node leads, behind its interest, and what it has read since its INFO."""
        self.versions.hear(link)
        if self._leads or self.versions.own:
            link.say(encode_info(self.own_info()))

    def met(self, info: RouteInfo) -> None:
        """Dial a server that another one knows, unless nodes are found in the database."""
        if self.takes_others:
            super().met(info)

    def changed(self, link: RouteLink, before: RouteInfo) -> None:
        """Take note of who leads; whoever still says so under an epoch that is over is left."""
        self.versions.hear(link)
        if replace(before, catalogue=link.info.catalogue) == link.info:
            return
        super().changed(link, before)
        if link.info.leads:
            self._successor = ""  # whoever was named has had its time
            leads = [peer.info.leads for peer in self.peers.values()]
            self.overtake(max(self._leads, *leads))
        elif link.info.successor not in ("", self.hub.server_name):
            self.on_succession()
        elif link.info.released:
            self.on_released()
        self.on_leader()

    def gone(self, link: RouteLink) -> None:
        """Take a closed link out, and with it perhaps the leader."""
        super().gone(link)
        self.versions.look()
        if link.info.leads or link.info.begins:
            self.on_released()
            self.on_leader()
