"""What a connection, and who dials for it, asks of the mesh it belongs to."""

from __future__ import annotations

from typing import Protocol, TypeVar

from core.errors import ProtocolError
from core.pubsub.server import Hub
from core.route.handshake import RouteConnect, RouteInfo
from core.route.interest import LocalInterest
from core.route.proof import Proving
from core.route.settings import ClusterSettings, RouteUrl

L = TypeVar("L")
"""The kind of connection (`core.route.link`)."""


class Refused(ProtocolError):
    """The peer may not be one; `why` is the reason that is logged."""

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(text, why)
        self.why = why


class Cluster(Protocol[L]):
    """What a link and the dialer ask of their mesh.

    `peers`: the links whose handshake is over, by the id of the peer.
    `holds_messages`: whether messages of peers wait while the hub holds publishes.
    `takes_others`: whether who proves nothing may be a peer, where others do.
    """

    hub: Hub
    settings: ClusterSettings
    interest: LocalInterest
    peers: dict[str, L]
    holds_messages: bool
    takes_others: bool

    def next_route_id(self) -> int: ...
    def new_link(self, url: RouteUrl | None = None, is_configured: bool = False) -> L: ...

    def is_open(self, link: L) -> bool:
        """Whether a link has a socket."""
        ...

    def opened(self, link: L) -> None: ...
    def forget(self, link: L) -> None: ...
    def own_info(self) -> RouteInfo: ...
    def connect_for(self, url: RouteUrl) -> RouteConnect: ...

    def proving(self, *, has_dialled: bool) -> Proving | None:
        """Return by what link and peer show that they have one database; None: nothing."""
        ...

    def joining(self, link: L) -> None:
        """A link is about to be sent all interest: send it what is to come before that."""
        ...

    def joined(self, link: L) -> None:
        """A link has been sent all interest: send it what is to come behind that."""
        ...

    def check_connect(self, connect: RouteConnect) -> None:
        """Raise Refused if a server may not connect."""
        ...

    def register(self, link: L, info: RouteInfo) -> None:
        """Take a link in whose handshake is over. Raises Refused."""
        ...

    def met(self, info: RouteInfo) -> None:
        """Take note of a server that another one knows."""
        ...

    def changed(self, link: L, before: RouteInfo) -> None:
        """Take note that the peer has told something new of itself, which was so before."""
        ...

    def gone(self, link: L) -> None:
        """Take a closed link out."""
        ...
