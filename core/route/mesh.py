"""The mesh: this server's routes to all others of its cluster, and who else there is.

Every server has one connection to every other one. A peer that has just come is made known to the
others by passing its INFO on (`met`); who does not know it yet dials it (an implicit route).
Connections are made by both sides at once sometimes: each side keeps the one that it registered
first and closes the other. When these are not the same, both end, and are dialled again after a
pause of random length.

A name of a cluster that was made up gives way to that of the cluster it meets; peers of the old
name are dropped then, and meet the new one by themselves.
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
from core.pubsub.onward import Splitter
from core.pubsub.route import Member, ServiceSubscription, Subscription
from core.pubsub.server import Hub, Traffic
from core.route.addresses import host_port, joined, own_addresses
from core.route.cluster import Refused
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
from core.route.proof import Proving
from core.route.settings import ClusterSettings, RouteUrl
from core.route.view import RouteView
from core.runtime.listening import WILDCARDS, listening_socket
from core.runtime.subscribers import Subscribers

log = logging.getLogger("jetgate.route")

_BACKLOG = 128
_TICK_SECONDS = 0.25
_STALL_NS = 1_000_000_000
_AWAKE_NS = 5_000_000_000
"""How long a stall counts: a peer that fell silent meanwhile is given up within four seconds."""
_GRACE_SECONDS = 1.0
_PROTO = 1
"""What a route understands: INFO more than once. No traces of messages travel with it."""
_NO_GOSSIP = 1


class Mesh:
    """The routes of one server. Life cycle: `listen`, `start`, `close`; `retire` in between.

    It has to be made before anybody subscribes: it counts subscriptions as they come and go.

    Attributes:
        name: the cluster's name; another one than configured once a made-up name gave way.
        address: where routes are accepted, once it listens.
        changed_peers: called when peers, or the client URLs of peers, have changed.
        holds_messages: messages of peers wait while the hub holds publishes.
        takes_others: who proves nothing may be a peer, where others do.
    """

    holds_messages = True
    takes_others = True

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
        hub.overload_changed.subscribe(self._tell_overload)
        if hub.jetstream and self.holds_messages:
            self.take_acks()

    # -- life --------------------------------------------------------------------------------

    def bind(self) -> None:
        """Have the address where routes are accepted: who dials it waits for `listen`.

        Raises OSError when it cannot be had.
        """
        if self._socket is None:
            self._socket = listening_socket(*self.address, _BACKLOG)
            self.address = (self.settings.host, self._socket.getsockname()[1])

    async def listen(self) -> None:
        """Accept routes. Raises OSError when the address cannot be had."""
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
        """Have a route to an address from now on."""
        self._dialer.keep(RouteUrl(host=host, port=port), is_configured=True)

    def dial_no_more(self, host: str, port: int) -> None:
        """End what `dial` began; a route that is there stays."""
        self._dialer.drop(RouteUrl(host=host, port=port))

    def start(self) -> None:
        """Dial the configured routes, and whoever becomes known."""
        for url in self.settings.routes:
            self._dialer.keep(url, is_configured=True)

    def reconfigure(self, settings: ClusterSettings) -> None:
        """Follow other settings: all but the name and the address, which stay."""
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
        """Tell peers that this server goes: nobody is sent to it, and nothing is handed to it."""
        self.is_leaving = True
        self.announce()

    def retire(self) -> None:
        """Leave, and accept and dial nobody any more."""
        self._dialer.stop()
        if self._server is not None:
            self._server.close()
        self.leave()

    def announce(self) -> None:
        """Tell peers what has changed here."""
        self.say_to_all(encode_info(self.own_info()))

    async def close(self) -> None:
        """Close all routes, after what gathered is written, within a second."""
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
        """Nanoseconds for which this process looked after no route, until now or just before.

        What has become of its routes meanwhile it may learn only after it has looked at them.
        """
        now = self.hub.clock.monotonic()
        return max(now - self._ticked, self._stood if now - self._woke < _AWAKE_NS else 0)

    @property
    def is_listening(self) -> bool:
        """Whether routes are accepted, or were until it was closed."""
        return self._server is not None

    # -- what others see ---------------------------------------------------------------------

    def connect_urls(self, *, over_websocket: bool = False) -> list[str]:
        """Return where clients can connect to peers, `host:port`; none with `no_advertise`."""
        if self.settings.no_advertise:
            return []
        told = [link.info for link in self.peers.values() if not link.info.ldm]
        found = (info.ws_connect_urls if over_websocket else info.connect_urls for info in told)
        return list(dict.fromkeys(url for urls in found for url in urls or ()))

    def routes(self) -> Sequence[RouteView]:
        """Return all routes, for monitoring."""
        return tuple(link.view() for link in self.peers.values())

    def totals(self) -> Traffic:
        """Return the traffic of all routes since the start."""
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
        self.say_to_all(self.count_interest(key, is_new=is_new, is_ours=is_ours))

    def _tell_overload(self) -> None:
        for link in self.peers.values():
            link.tell_overload()

    def count_interest(
        self, key: tuple[bytes, bytes, bytes], *, is_new: bool, is_ours: bool
    ) -> bytes:
        """Count a subscription; return what to tell. `is_ours`: a part of this server made it."""
        return self.interest.add(*key) if is_new else self.interest.remove(*key)

    def take_acks(self) -> None:
        """Have acknowledgements sent here, to which nothing here subscribes."""
        self.say_to_all(self.interest.add(*self._acks))

    def take_no_acks(self) -> None:
        """End what `take_acks` began."""
        self.say_to_all(self.interest.remove(*self._acks))

    @property
    def _acks(self) -> tuple[bytes, bytes, bytes]:
        return self.hub.default_account().name.encode(), ACK_PREFIX + b">", b""

    def say_to_all(self, line: bytes) -> None:
        """Send a protocol line, if it is one, to every peer."""
        if line:
            for link in self.peers.values():
                link.say(line)

    # -- what links ask ----------------------------------------------------------------------

    def new_link(self, url: RouteUrl | None = None, is_configured: bool = False) -> RouteLink:
        """Return a connection that has yet to be made; without `url` a peer makes it."""
        return RouteLink(self, url, is_configured=is_configured)

    def opened(self, link: RouteLink) -> None:
        """Take note of a socket."""
        self._links.add(link)

    def forget(self, link: RouteLink) -> None:
        """Take out a link whose socket is gone."""
        self._links.discard(link)

    def is_open(self, link: RouteLink) -> bool:
        """Return whether a link has a socket."""
        return link in self._links

    def next_route_id(self) -> int:
        """Return a number that no connection of this server has had."""
        return self.hub.next_client_id()

    def own_info(self) -> RouteInfo:
        """Return what this server says of itself."""
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
        """Return where clients can connect to this server; nowhere in the end."""
        hub = self.hub
        address = hub.websocket_address() if over_websocket else hub.client_address()
        if self.settings.no_advertise or self.is_leaving or address is None:
            return []
        host, port = address
        if host in WILDCARDS:
            return [joined(found, port) for found in own_addresses()]
        return [joined(host, port)]

    def connect_for(self, url: RouteUrl) -> RouteConnect:
        """Return what a server is told that this one has dialled."""
        return RouteConnect(
            user=url.user,
            password=url.password,
            headers=not self.hub.limits.no_header_support,
            name=self.hub.server_id,
            cluster=self.name,
            cluster_dynamic=self.is_dynamic,
        )

    def check_connect(self, connect: RouteConnect) -> None:
        """Raise Refused if a server may not connect."""
        settings = self.settings
        given = f"{connect.user}\n{connect.password}".encode()
        wanted = f"{settings.user}\n{settings.password}".encode()
        if settings.user and not compare_digest(given, wanted):
            raise Refused("Authentication Failure", "Authorization Violation")
        if connect.lang:
            raise Refused("Incorrect Port", "attempted to connect to route port")
        if not self._agrees(connect.cluster, connect.cluster_dynamic, connect.name):
            text = f'cluster name "{connect.cluster}" does not match "{self.name}"'
            raise Refused("Cluster Name Conflict", f"Rejecting connection, {text}")

    def _agrees(self, name: str, is_dynamic: bool, server_id: str) -> bool:
        """Say whether a peer is of this cluster, or this server now of its."""
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
        """Take a link in whose handshake is over. Raises Refused."""
        if info.server_id == self.hub.server_id:
            raise Refused("Duplicate Route")
        if info.route_account:
            what = f'a dedicated route for account "{info.route_account}"'
            raise Refused(
                "Protocol Violation", f"Not possible to have {what} between those servers"
            )
        will_follow = link.did_solicit and takes_name(
            info.cluster, info.cluster_dynamic, self.name, self.is_dynamic
        )
        agrees = will_follow or self._agrees(info.cluster, info.cluster_dynamic, info.server_id)
        if not agrees:
            raise Refused("Cluster Name Conflict")
        if info.tls_required:
            raise Refused("TLS Handshake Failure")
        self.check_jetstream(link, info)
        if self.is_leaving:
            raise Refused("Server Shutdown")
        if (other := self.peers.get(info.server_id)) is not None:
            other.did_solicit = other.did_solicit or link.did_solicit
            other.is_configured = other.is_configured or link.is_configured
            raise Refused("Duplicate Route")
        if not self.peers:
            self._split()
        self.peers[info.server_id] = link
        self._make_known(link, info)
        self.changed_peers()

    def _split(self) -> None:
        """Look for what is elsewhere: there may be something from the first peer on."""
        for account in self.hub.accounts.values():
            account.split = account.split or Splitter(account).split

    def check_jetstream(self, link: RouteLink, info: RouteInfo) -> None:
        """Raise Refused for a peer whose JetStream would be a second one."""
        if info.jetstream and self.hub.jetstream and not link.is_proved:
            text = f'this server and "{info.server_name}" both have JetStream'
            raise Refused("Protocol Violation", f"Rejecting connection, {text}")

    def proving(self, *, has_dialled: bool) -> Proving | None:
        """Return that user and password are enough."""
        return None

    def joining(self, link: RouteLink) -> None:
        """Say nothing else to a new link."""

    def joined(self, link: RouteLink) -> None:
        """Say nothing else to a new link."""

    def _make_known(self, link: RouteLink, info: RouteInfo) -> None:
        if info.gossip_mode == _NO_GOSSIP or len(self.peers) == 1:
            return
        ip = info.ip or f"nats-route://{joined(link.ip, info.port)}/"
        told = without_leadership(info)
        line = encode_info(msgspec.structs.replace(told, ip=ip, gossip_mode=0))
        for peer in self.peers.values():
            if peer is not link:
                peer.say(line)

    def met(self, info: RouteInfo) -> None:
        """Dial a server that another one knows, unless it is known here."""
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
        """Take note that a peer has told something new of itself."""
        self.changed_peers()

    def gone(self, link: RouteLink) -> None:
        """Take a closed link out."""
        if self.peers.get(link.info.server_id) is link:
            del self.peers[link.info.server_id]
            self._departed.add(link.count())
            self.changed_peers()


def _is_told(service: ServiceSubscription) -> bool:
    """Whether other servers are told of a subscription inside the process."""
    return not (service.here or service.untold)
