"""The mesh: the routes of this server to all other servers of its cluster.

Every server has one connection to every other one. A server makes a new server known to the others
by forwarding its INFO (gossip). A server that does not know the new one yet dials it (an implicit
route). Sometimes both sides dial at once: each side keeps the connection whose handshake it
completed first and closes the other. If the two sides keep different ones, both connections end,
and the dialler tries again after a random pause.

A generated cluster name is replaced by the name of the cluster that the server joins. The server
then drops routes to servers with the old name; they rejoin under the new one.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hmac import compare_digest
from urllib.parse import urlsplit

import msgspec

from core.model.release import SERVER_VERSION
from core.pubsub.account import ACK_PREFIX, Account
from core.pubsub.forwarding import Splitter
from core.pubsub.receivers import Member, ServiceSubscription, Subscription
from core.pubsub.server import Hub, Traffic
from core.route.addresses import host_port, joined, own_addresses
from core.route.cluster import JoinRefused
from core.route.dialing import Dialer
from core.route.handshake import (
    RouteConnect,
    RouteInfo,
    encode_info,
    takes_name,
    without_leadership,
)
from core.route.interest import LocalInterest
from core.route.link import RouteLink
from core.route.proof import LinkProof
from core.route.settings import ClusterSettings, RouteUrl
from core.route.view import RouteView
from core.runtime.listening import WILDCARDS, listening_socket
from core.runtime.subscribers import Subscribers
from core.units import NANOS_PER_SECOND

log = logging.getLogger(__name__)

_BACKLOG = 128
_TICK_SECONDS = 0.25
_STALL_NS = NANOS_PER_SECOND
_AWAKE_NS = 5_000_000_000
"""Time for which a stall counts after its end, in nanoseconds: dead servers are detected within 4
s.
"""
_GRACE_SECONDS = 1.0
_PROTO = 1
"""Protocol level of a route: INFO may be sent more than once. Message traces are not forwarded."""
_NO_GOSSIP = 1


class Mesh:
    """The routes of one server to the other servers of its cluster.

    Life cycle: `listen`, `start`, optionally `retire`, `close`. Create the mesh before any
    subscription exists, since it counts the subscriptions that begin and end.

    Attributes:
        name: The cluster's name. A generated name of the settings may be replaced by another one.
        address: Host and port on which routes are accepted, once the mesh listens.
        changed_peers: Called when a server has joined or left, or when its client URLs have
            changed.
        interest: Number of subscriptions of this server by account, subject and queue group.
        peers: The routes whose handshake is complete, by server id of the other server.
        is_leaving: True once the server leaves the cluster.
        holds_messages: True if messages of other servers wait while publishes of clients have to
            wait, because their streams are still loading (`core.route.incoming`).
        accepts_members: True if servers may join that do not prove to be nodes of the same
            database.
    """

    holds_messages = True
    accepts_members = True

    def __init__(self, hub: Hub, settings: ClusterSettings) -> None:
        self.hub = hub
        self.settings = settings
        self.name, self.is_dynamic = settings.name, settings.is_dynamic
        self.address = (settings.host, settings.port)
        self.changed_peers: Subscribers[[]] = Subscribers()
        self.interest = LocalInterest()
        self.peers: dict[str, RouteLink] = {}
        self.is_leaving = False
        self._links: set[RouteLink] = set()
        self._departed = Traffic()
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._dialer = Dialer(self)
        self._ticked = self._woke = hub.clock.monotonic()
        self._stood = 0
        for account in hub.accounts.values():
            account.watchers.append(partial(self._on_interest, account))
        hub.overload_changed.subscribe(self._announce_overload)
        if hub.jetstream and self.holds_messages:
            self.announce_acks()

    # -- life --------------------------------------------------------------------------------

    def bind(self) -> None:
        """Bind the address for routes, without accepting. Connections to it wait until `listen`.

        Raises OSError if the address cannot be bound.
        """
        if self._socket is None:
            self._socket = listening_socket(*self.address, _BACKLOG)
            self.address = (self.settings.host, self._socket.getsockname()[1])

    async def listen(self) -> None:
        """Accept routes from other servers. Raises OSError if the address cannot be bound."""
        loop = asyncio.get_running_loop()
        self.is_leaving = False
        self.bind()
        sock, self._socket = self._socket, None
        assert sock is not None, "bound"
        self._server = await loop.create_server(self.new_link, sock=sock, backlog=_BACKLOG)
        log.info("Cluster name is %s", self.name)
        if self.is_dynamic:
            log.warning("Cluster name was dynamically generated, consider setting one")
        log.info("Listening for route connections on %s:%d", *self.address)
        self._timer = loop.call_later(_TICK_SECONDS, self._tick)

    def dial(self, host: str, port: int) -> None:
        """Connect to the server at an address, and reconnect after losses, until `dial_no_more`."""
        self._dialer.keep(RouteUrl(host=host, port=port), is_configured=True)

    def dial_no_more(self, host: str, port: int) -> None:
        """Stop connecting to an address of `dial`. An existing route is not closed."""
        self._dialer.drop(RouteUrl(host=host, port=port))

    def start(self) -> None:
        """Connect to the configured servers.

        Servers from gossip are dialled when they become known.
        """
        for url in self.settings.routes:
            self._dialer.keep(url, is_configured=True)

    def reconfigure(self, settings: ClusterSettings) -> None:
        """Apply other cluster settings, except cluster name and address, which stay as they are.

        Routes that are no longer configured are closed, new ones are dialled.
        """
        before = self.settings
        self.settings = replace(
            settings,
            name=before.name,
            is_dynamic=before.is_dynamic,
            host=before.host,
            port=before.port,
        )
        if not self.is_listening or self.is_leaving:
            return
        for url in before.routes:
            if url not in settings.routes:
                self._remove(url)
        for url in settings.routes:
            self._dialer.keep(url, is_configured=True)
        self.announce()
        self.changed_peers()

    def _remove(self, url: RouteUrl) -> None:
        self._dialer.drop(url)
        for link in list(self.peers.values()):
            if link.url == url:
                link.close("Route Removed")
                log.info("Removed route %s", joined(url.host, url.port))

    def leave(self) -> None:
        """Announce to the other servers that this server leaves (lame duck mode).

        They stop advertising its client URLs. Existing routes stay.
        """
        self.is_leaving = True
        self.announce()

    def retire(self) -> None:
        """Announce that this server leaves, and neither accept nor dial any more routes."""
        self._dialer.stop()
        if self._server is not None:
            self._server.close()
        self.leave()

    def announce(self) -> None:
        """Send the current INFO of this server to all other servers."""
        self.write_to_all(encode_info(self.own_info()))

    async def close(self) -> None:
        """Write the pending output and close all routes, within about a second."""
        self.is_leaving = True
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            self._server.close()
        await self._dialer.close()
        for link in list(self._links):
            link.close("Server Shutdown")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                for link in list(self._links):
                    await link.ended.wait()
        for link in list(self._links):
            link.abort()

    def _tick(self) -> None:
        now = self.hub.clock.monotonic()
        if now - self._ticked > _STALL_NS:
            self._stood, self._woke = now - self._ticked, now
        self._ticked = now
        for link in list(self._links):
            link.tick(now)
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    @property
    def stood_still(self) -> int:
        """Time since the last tick in nanoseconds, or the length of a stall that ended recently.

        A stall is a time in which this process did not check its routes. It counts for 5 seconds
        after its end, because only ticks after the stall show the state of the routes.
        """
        now = self.hub.clock.monotonic()
        return max(now - self._ticked, self._stood if now - self._woke < _AWAKE_NS else 0)

    @property
    def is_listening(self) -> bool:
        """True after `listen`; it stays True after the listening socket is closed."""
        return self._server is not None

    # -- monitoring and gossip ---------------------------------------------------------------

    def connect_urls(self, *, over_websocket: bool = False) -> list[str]:
        """Return the client addresses (`host:port`) of all other servers; empty with
        `no_advertise`.

        `over_websocket`: those for WebSocket clients.
        """
        if self.settings.no_advertise:
            return []
        told = [link.info for link in self.peers.values() if not link.info.ldm]
        found = (info.ws_connect_urls if over_websocket else info.connect_urls for info in told)
        return list(dict.fromkeys(url for urls in found for url in urls or ()))

    def routes(self) -> Sequence[RouteView]:
        """Return all routes with a complete handshake, for /routez."""
        return tuple(link.view() for link in self.peers.values())

    def totals(self) -> Traffic:
        """Return the traffic of all routes since the start, including closed ones."""
        total = Traffic()
        for part in (self._departed, *(link.count() for link in self.peers.values())):
            total.add(part)
        return total

    # -- interest ----------------------------------------------------------------------------

    def _on_interest(self, account: Account, member: Member, is_new: bool) -> None:
        is_ours = not isinstance(member, Subscription)
        if not isinstance(member, Subscription) and not _is_told(member):
            return
        key = account.name.encode(), member.subject, member.queue
        self.write_to_all(self.count_interest(key, is_new=is_new, is_ours=is_ours))

    def _announce_overload(self) -> None:
        for link in self.peers.values():
            link.announce_overload()

    def count_interest(
        self, key: tuple[bytes, bytes, bytes], *, is_new: bool, is_ours: bool
    ) -> bytes:
        """Count a subscription of this server.

        Return the line to send to other servers, empty for none.

        Args:
            key: Account, subject and queue group.
            is_new: True to add the subscription, False to remove it.
            is_ours: True if a part of this server subscribes, not a client.
        """
        return self.interest.add(*key) if is_new else self.interest.remove(*key)

    def announce_acks(self) -> None:
        """Make other servers send all acknowledgements (`$JS.ACK.>`) to this server.

        No subscription is needed for that.
        """
        self.write_to_all(self.interest.add(*self._acks))

    def withdraw_acks(self) -> None:
        """Withdraw the interest in acknowledgements that `announce_acks` announced."""
        self.write_to_all(self.interest.remove(*self._acks))

    @property
    def _acks(self) -> tuple[bytes, bytes, bytes]:
        return self.hub.default_account().name.encode(), ACK_PREFIX + b">", b""

    def write_to_all(self, line: bytes) -> None:
        """Send a protocol line to every other server; an empty line is ignored."""
        if line:
            for link in self.peers.values():
                link.write_line(line)

    # -- calls of links ----------------------------------------------------------------------

    def new_link(self, url: RouteUrl | None = None, is_configured: bool = False) -> RouteLink:
        """Return a new route without a socket.

        `url` is the address to dial; None: the other server dials.
        """
        return RouteLink(self, url, is_configured=is_configured)

    def connected(self, link: RouteLink) -> None:
        """Record a route whose socket is open."""
        self._links.add(link)

    def forget(self, link: RouteLink) -> None:
        """Remove a route whose socket is closed."""
        self._links.discard(link)

    def is_open(self, link: RouteLink) -> bool:
        """Return whether the socket of a route is open."""
        return link in self._links

    def next_route_id(self) -> int:
        """Return a number for a route that no other connection of this process has had."""
        return self.hub.next_client_id()

    def own_info(self) -> RouteInfo:
        """Return the INFO of this server for other servers."""
        hub, settings = self.hub, self.settings
        host, port = self.address
        ip = ""
        if settings.advertise:
            host, port = host_port(settings.advertise, port)
            ip = f"nats-route://{joined(host, port)}/"
        return RouteInfo(
            server_id=hub.server_id,
            server_name=hub.server_name,
            version=SERVER_VERSION,
            proto=_PROTO,
            host=host,
            port=port,
            headers=not hub.limits.no_header_support,
            auth_required=bool(settings.user),
            max_payload=hub.limits.max_payload,
            jetstream=hub.jetstream,
            ip=ip,
            cluster=self.name,
            cluster_dynamic=self.is_dynamic,
            domain=hub.domain,
            connect_urls=self.own_connect_urls() or None,
            ws_connect_urls=self.own_connect_urls(over_websocket=True) or None,
            ldm=self.is_leaving,
            holds=True,
        )

    def own_connect_urls(self, *, over_websocket: bool = False) -> list[str]:
        """Return the client addresses (`host:port`) of this server.

        Empty while it leaves the cluster, or with `no_advertise`. `over_websocket`: those for
        WebSocket clients.
        """
        hub = self.hub
        address = hub.websocket_address() if over_websocket else hub.client_address()
        if self.settings.no_advertise or self.is_leaving or address is None:
            return []
        host, port = address
        if host in WILDCARDS:
            return [joined(found, port) for found in own_addresses()]
        return [joined(host, port)]

    def connect_for(self, url: RouteUrl) -> RouteConnect:
        """Return the CONNECT to send to a server that this one has dialled at `url`."""
        return RouteConnect(
            user=url.user,
            password=url.password,
            headers=not self.hub.limits.no_header_support,
            name=self.hub.server_id,
            cluster=self.name,
            cluster_dynamic=self.is_dynamic,
        )

    def check_connect(self, connect: RouteConnect) -> None:
        """Check the CONNECT of a server that has dialled this one.

        Raises JoinRefused if its credentials are wrong, it is a client, or its cluster name is
        another one.
        """
        settings = self.settings
        given = f"{connect.user}\n{connect.password}".encode()
        wanted = f"{settings.user}\n{settings.password}".encode()
        if settings.user and not compare_digest(given, wanted):
            raise JoinRefused("Authentication Failure", "Authorization Violation")
        if connect.lang:
            raise JoinRefused("Incorrect Port", "attempted to connect to route port")
        if not self._agrees(connect.cluster, connect.cluster_dynamic, connect.name):
            text = f'cluster name "{connect.cluster}" does not match "{self.name}"'
            raise JoinRefused("Cluster Name Conflict", f"Rejecting connection, {text}")

    def _agrees(self, name: str, is_dynamic: bool, server_id: str) -> bool:
        """Return True if the cluster names match, or if this server now adopts the other name."""
        if name == self.name:
            return True
        if not takes_name(self.name, self.is_dynamic, name, is_dynamic):
            return False
        self.name, self.is_dynamic = name, is_dynamic
        log.info("Cluster name updated to %s", name)
        for link in list(self.peers.values()):
            if link.info.server_id != server_id:
                link.close("Cluster Name Conflict")
        self.changed_peers()
        return True

    def register(self, link: RouteLink, info: RouteInfo) -> None:
        """Add a route whose handshake is complete, and announce the new server to the others.

        Raises JoinRefused if the other server is this one, has a route already, is of another
        cluster, or is not compatible.
        """
        if info.server_id == self.hub.server_id:
            raise JoinRefused("Duplicate Route")
        if info.route_account:
            what = f'a dedicated route for account "{info.route_account}"'
            raise JoinRefused(
                "Protocol Violation", f"Not possible to have {what} between those servers"
            )
        will_follow = link.did_solicit and takes_name(
            info.cluster, info.cluster_dynamic, self.name, self.is_dynamic
        )
        agrees = will_follow or self._agrees(info.cluster, info.cluster_dynamic, info.server_id)
        if not agrees:
            raise JoinRefused("Cluster Name Conflict")
        if info.tls_required:
            raise JoinRefused("TLS Handshake Failure")
        self.check_jetstream(link, info)
        if self.is_leaving:
            raise JoinRefused("Server Shutdown")
        if (other := self.peers.get(info.server_id)) is not None:
            other.did_solicit = other.did_solicit or link.did_solicit
            other.is_configured = other.is_configured or link.is_configured
            raise JoinRefused("Duplicate Route")
        if not self.peers:
            self._split()
        self.peers[info.server_id] = link
        self._make_known(link, info)
        self.changed_peers()

    def _split(self) -> None:
        """Make accounts find receivers on other servers; not needed before the first route."""
        for account in self.hub.accounts.values():
            account.split = account.split or Splitter(account).split

    def check_jetstream(self, link: RouteLink, info: RouteInfo) -> None:
        """Check that not both servers have JetStream, unless they are nodes of one database.

        Raises JoinRefused if they have.
        """
        if info.jetstream and self.hub.jetstream and not link.is_proved:
            text = f'this server and "{info.server_name}" both have JetStream'
            raise JoinRefused("Protocol Violation", f"Rejecting connection, {text}")

    def proving(self, *, has_dialled: bool) -> LinkProof | None:
        """Return None: members of a cluster need no proof beside user and password."""
        return None

    def joining(self, link: RouteLink) -> None:
        """Called after a handshake, before the subscriptions are sent: no-op."""

    def joined(self, link: RouteLink) -> None:
        """Called when a handshake is complete and the subscriptions were sent: no-op."""

    def _make_known(self, link: RouteLink, info: RouteInfo) -> None:
        if info.gossip_mode == _NO_GOSSIP or len(self.peers) == 1:
            return
        ip = info.ip or f"nats-route://{joined(link.ip, info.port)}/"
        told = without_leadership(info)
        line = encode_info(msgspec.structs.replace(told, ip=ip, gossip_mode=0))
        for peer in self.peers.values():
            if peer is not link:
                peer.write_line(line)

    def met(self, info: RouteInfo) -> None:
        """Connect to an announced server, unless it has a route or is configured."""
        is_known = info.server_id in self.peers or info.server_id == self.hub.server_id
        if is_known or self.is_leaving:
            return
        configured = {(url.host.lower(), url.port) for url in self.settings.routes}
        try:
            place = urlsplit(info.ip)
            host, port = place.hostname or "", place.port or 0
        except ValueError:
            return
        if not host or not port or (info.host.lower(), info.port) in configured:
            return
        given = (self.settings.user, self.settings.password) if info.auth_required else ("", "")
        url = RouteUrl(host=host, port=port, user=given[0], password=given[1])
        self._dialer.keep(url, is_configured=False)

    def changed(self, link: RouteLink, before: RouteInfo) -> None:
        """Notify the subscribers of `changed_peers` that a server has sent a later INFO."""
        self.changed_peers()

    def gone(self, link: RouteLink) -> None:
        """Remove a closed route; keep its traffic for `totals`."""
        if self.peers.get(link.info.server_id) is link:
            del self.peers[link.info.server_id]
            self._departed.add(link.count())
            self.changed_peers()


def _is_told(service: ServiceSubscription) -> bool:
    """Return whether a subscription inside the process is announced to other servers."""
    return not (service.local_only or service.withdrawn)
