"""The mesh of the nodes of one database: who leads what among them, and who else may join.

A link between two nodes begins with a proof on both sides. All have JetStream; each says on every
link which lease groups it leads and serves (`core.cluster.claims`): who reads that may send it what
is for their streams. It says so behind the interest of these streams, and takes it back before it
ends what is under way.

Without a name in the settings the mesh is that of the nodes alone: they find each other in the
database (`core.cluster.membership`), so nobody is made known by gossip, and who proves nothing is
refused. With one, nodes are members of that cluster: they are found as any member is, and servers
without JetStream are members too. Those prove nothing, and reach JetStream by interest alone: that
of streams is told by who leads them, that of the API by who leads the catalogue.

What is told when groups are taken stands between two INFO: who refuses publishes because nobody
leads holds them from the first to the second, so that none is both refused and stored.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from core.cluster.claims import Offered, groups_of, heard, mask_of, told
from core.errors import ProtocolError
from core.pubsub.route import STRANGERS
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
_CATALOGUE = 0


class DatabaseMesh(Mesh):
    """The links of one node. Life cycle: `join`, then as any mesh.

    Attributes:
        on_leader: called when a group may have another leader among the peers, or none.
        on_offer: called with the name of a node, and the groups that a peer has released for it,
            and whether a client wanted that.
        on_overtaken: called with the groups of this node that a peer leads since.
        on_joined: called when another node is linked.
        versions: what of the catalogue this node and the others have read.
        own: the groups that this node has told that it leads, with their claims.
        leaders: the links to the peers that lead the other groups.
    """

    holds_messages = False

    def __init__(self, hub: Hub, settings: ClusterSettings) -> None:
        super().__init__(hub, settings)
        self.on_leader: Callable[[], None] = lambda: None
        self.on_offer: Offered = lambda _name, _groups, _is_asked: None
        self.on_overtaken: Callable[[frozenset[int]], None] = lambda _groups: None
        self.on_joined: Callable[[], None] = lambda: None
        self.own: dict[int, int] = {}
        self.leaders: dict[int, RouteLink] = {}
        self._offers: tuple[tuple[str, str], ...] = ()
        self._is_asked = False
        self._secret = b""
        self._is_evacuated = False
        self._api, self._strange = LocalInterest(), LocalInterest()
        self._takes_acks = False
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

    def leader_name(self, group: int) -> str:
        """Return the name of the node that leads a group; empty: none is known."""
        if group in self.own:
            return self.hub.server_name
        link = self.leaders.get(group)
        return "" if link is None else link.info.server_name

    def begin(self) -> None:
        """Tell peers that what is to come is the interest of more groups."""
        self._begin_interest(self.say_to_all)

    def claim(
        self,
        claims: Mapping[int, int],
        offers: Mapping[str, Collection[int]],
        *,
        is_asked: bool = False,
    ) -> None:
        """Tell peers which groups this node leads, and serves what they send it.

        `offers`: the groups that it has just released, by the name of who is to lead them.
        `is_asked`: whether a client wanted that.
        """
        self._tell_api(was=_CATALOGUE in self.own, leads=_CATALOGUE in claims)
        self.own = dict(claims)
        self._offers = tuple((name, mask_of(groups)) for name, groups in offers.items() if name)
        self._is_asked = is_asked
        self._tell_strangers(is_leading=bool(claims))
        self.announce()
        self._look()

    def evacuate(self, is_evacuated: bool) -> None:
        """Tell peers whether this node is to lead nothing."""
        self._is_evacuated = is_evacuated
        self.announce()

    def _tell_api(self, *, was: bool, leads: bool) -> None:
        """Have servers that are no nodes send requests here, or no more."""
        if leads and not was:
            self._say_to_strangers(self._strange.take(self._api))
        elif was and not leads:
            self._say_to_strangers(self._strange.drop(self._api))

    def _tell_strangers(self, *, is_leading: bool) -> None:
        """Have servers that are no nodes send acknowledgements here, or no more."""
        if is_leading != self._takes_acks:
            self._takes_acks = is_leading
            tell = self._strange.add if is_leading else self._strange.remove
            self._say_to_strangers(tell(*self._acks))

    def _say_to_strangers(self, line: bytes) -> None:
        for link in self.peers.values():
            if not link.is_proved:
                link.say(line)

    @property
    def is_beginning(self) -> bool:
        """Whether a peer is about to say that it leads."""
        return any(link.info.begins for link in self.peers.values())

    def _begin_interest(self, say: Callable[[bytes], None]) -> None:
        say(encode_info(replace(self.own_info(), begins=True)))

    def _look(self) -> None:
        """See who leads what; who says so under a claim that is over is left."""
        found: dict[int, tuple[int, RouteLink | None]] = {}
        late: set[RouteLink] = set()
        overtaken = set()
        for group, claim in self.own.items():
            found[group] = claim, None
        for link in self.nodes:
            for group, claim in heard(link.info.claims).items():
                other = found.get(group)
                if other is not None and other[0] >= claim:
                    late.add(link)
                    continue
                if other is not None and other[1] is None:
                    overtaken.add(group)
                elif other is not None and other[1] is not None:
                    late.add(other[1])
                found[group] = claim, link
        self.leaders = {g: link for g, (_, link) in found.items() if link is not None}
        if overtaken:
            self.on_overtaken(frozenset(overtaken))
        for link in late:
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
            claims=tuple(told(self.own)),
            offers=self._offers,
            asked=self._is_asked,
            catalogue=self.versions.own,
            evacuated=self._is_evacuated,
        )
        return info if self.takes_others else replace(info, gossip_mode=_NO_GOSSIP)

    def proving(self, *, has_dialled: bool) -> Proving:
        """Return the proofs of a new link."""
        return Proving(self._secret, self.hub.server_id, has_dialled=has_dialled)

    def count_interest(
        self, key: tuple[bytes, bytes, bytes], *, is_new: bool, is_ours: bool
    ) -> bytes:
        """Count a subscription; what is for servers that are no nodes is told to these alone."""
        if key[2] != STRANGERS:
            return super().count_interest(key, is_new=is_new, is_ours=is_ours)
        for interest in (self._api, self._strange) if _CATALOGUE in self.own else (self._api,):
            line = (interest.add if is_new else interest.remove)(*key)
            if interest is self._strange:
                self._say_to_strangers(line)
        return b""

    def joining(self, link: RouteLink) -> None:
        """Say that the interest of who leads is to come."""
        if self.own:
            self._begin_interest(link.say)

    def joined(self, link: RouteLink) -> None:
        """Say what this node leads, behind its interest, and what it has read since its INFO."""
        self.versions.hear(link)
        if link.is_proved:
            self.on_joined()
        else:
            link.say(self._strange.all_lines())
        if self.own or self.versions.own or self._is_evacuated:
            link.say(encode_info(self.own_info()))
        self._look()

    def met(self, info: RouteInfo) -> None:
        """Dial a server that another one knows, unless nodes are found in the database."""
        if self.takes_others:
            super().met(info)

    def changed(self, link: RouteLink, before: RouteInfo) -> None:
        """Take note of who leads what. Raises ProtocolError."""
        self.versions.hear(link)
        if replace(before, catalogue=link.info.catalogue) == link.info:
            return
        super().changed(link, before)
        try:
            offers = {name: groups_of(mask) for name, mask in link.info.offers}
            self._look()
        except ValueError as error:
            raise ProtocolError(reason=f"bad INFO: {error}") from error
        if link.info.offers != before.offers:
            for name, groups in offers.items():
                self.on_offer(name, groups, link.info.asked)
        self.on_leader()

    def gone(self, link: RouteLink) -> None:
        """Take a closed link out, and with it perhaps a leader."""
        super().gone(link)
        self.versions.look()
        self._look()
        if link.info.claims or link.info.begins:
            self.on_leader()
