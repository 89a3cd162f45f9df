"""The interface of the mesh that its links and the dialler use."""

from __future__ import annotations

from typing import Protocol, TypeVar

from core.errors import ProtocolError
from core.pubsub.server import Hub
from core.route.handshake import RouteConnect, RouteInfo
from core.route.interest import LocalInterest
from core.route.proof import LinkProof
from core.route.settings import ClusterSettings, RouteUrl

L = TypeVar("L")
"""The kind of connection (`core.route.link`)."""


class JoinRefused(ProtocolError):
    """The peer may not join the cluster, or has broken the protocol.

    Args:
        why: Reason for closing, as logged.
        text: Error text to send in -ERR; empty: none.
    """

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(text, why)
        self.why = why


class Cluster(Protocol[L]):
    """The part of a mesh that its links and the dialler use.

    Attributes:
        hub: The connections and accounts of this server.
        settings: The cluster settings in effect.
        interest: The subscriptions of this server, counted.
        peers: The links whose handshake is complete, by server id of the peer.
        holds_messages: True if messages of peers wait while the hub holds publishes.
        accepts_members: True if servers that prove nothing may join beside proved nodes.
    """

    hub: Hub
    settings: ClusterSettings
    interest: LocalInterest
    peers: dict[str, L]
    holds_messages: bool
    accepts_members: bool

    def next_route_id(self) -> int: ...
    def new_link(self, url: RouteUrl | None = None, is_configured: bool = False) -> L: ...

    def is_open(self, link: L) -> bool:
        """Return True if a link has a socket."""
        ...

    def connected(self, link: L) -> None: ...
    def forget(self, link: L) -> None: ...
    def own_info(self) -> RouteInfo: ...
    def connect_for(self, url: RouteUrl) -> RouteConnect: ...

    def proving(self, *, has_dialled: bool) -> LinkProof | None:
        """Return the proofs of a new link; None if the mesh asks for none."""
        ...

    def joining(self, link: L) -> None:
        """Send a link the lines that precede the complete interest."""
        ...

    def joined(self, link: L) -> None:
        """Send a link the lines that follow the complete interest."""
        ...

    def check_connect(self, connect: RouteConnect) -> None:
        """Raise JoinRefused if a server may not connect."""
        ...

    def register(self, link: L, info: RouteInfo) -> None:
        """Add a link whose handshake is complete. Raises JoinRefused."""
        ...

    def met(self, info: RouteInfo) -> None:
        """Record a server that a peer has announced, and dial it if it is unknown."""
        ...

    def changed(self, link: L, before: RouteInfo) -> None:
        """Apply a later INFO of a registered peer; `before` is its previous INFO."""
        ...

    def gone(self, link: L) -> None:
        """Remove a closed link."""
        ...
