"""The interface of the mesh (`core.route.mesh`) that its routes and the dialler use."""

from __future__ import annotations

from typing import Protocol, TypeVar

from core.errors import ProtocolError
from core.pubsub.server import Hub
from core.route.handshake import RouteConnect, RouteInfo
from core.route.interest import LocalInterest
from core.route.proof import LinkProof
from core.route.settings import ClusterSettings, RouteUrl

L = TypeVar("L")
"""The class of routes, `core.route.link.RouteLink`."""


class JoinRefused(ProtocolError):
    """Error: a server may not join the cluster, or has broken the route protocol.

    Its route is closed.

    Args:
        why: Reason for closing, as logged.
        text: Error text to send in -ERR; empty: none.
    """

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(text, why)
        self.why = why


class Cluster(Protocol[L]):
    """All routes of this server to the other servers of its cluster, as one of them uses them.

    `core.route.mesh.Mesh` implements it; the code that dials other servers uses it too.

    Attributes:
        hub: The connections and accounts of this server.
        settings: The cluster settings in effect.
        interest: Number of subscriptions of this server by account, subject and queue group.
        peers: The routes whose handshake is complete, by server id of the other server.
        holds_messages: True if messages of other servers wait while publishes of clients have to
            wait, because their streams are still loading (`core.route.incoming`).
        accepts_members: True if servers may join that do not prove to be nodes of the same
            database.
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
        """Return whether the socket of a route is open."""
        ...

    def connected(self, link: L) -> None: ...
    def forget(self, link: L) -> None: ...
    def own_info(self) -> RouteInfo: ...
    def connect_for(self, url: RouteUrl) -> RouteConnect: ...

    def proving(self, *, has_dialled: bool) -> LinkProof | None:
        """Return the object that proves to the other server that both belong to one database.

        None if the mesh requires no such proof.
        """
        ...

    def joining(self, link: L) -> None:
        """Called after a route's handshake, before this server's interest is sent."""
        ...

    def joined(self, link: L) -> None:
        """Called after a route's handshake, when this server's interest was sent."""
        ...

    def check_connect(self, connect: RouteConnect) -> None:
        """Check the CONNECT of a server that has connected: credentials and cluster name.

        Raises JoinRefused if the server may not connect.
        """
        ...

    def register(self, link: L, info: RouteInfo) -> None:
        """Add a route whose handshake is complete.

        Raises JoinRefused if the other server may not join.
        """
        ...

    def met(self, info: RouteInfo) -> None:
        """Connect to a server that another server has announced, if there is no route to it yet."""
        ...

    def changed(self, link: L, before: RouteInfo) -> None:
        """Apply a later INFO of a server with a complete handshake.

        `before` is its previous INFO.
        """
        ...

    def gone(self, link: L) -> None:
        """Remove a closed route."""
        ...
