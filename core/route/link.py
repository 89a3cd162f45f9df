"""One connection to another server of the cluster: its handshake, what it says, what it is sent.

Who accepted sends INFO at once. Who dialled reads it and answers with CONNECT and INFO: so a server
whose cluster has a made-up name knows the other's first. With the INFO of the peer a link is
registered (`Cluster.register`); then it is sent all interest, and takes part in routes. Nodes of
one database prove first that they are (`core.route.proof`); what only they say is not believed of
others.

A link reads whatever comes. What gathers is written once per turn. While much is unsent, or the
peer says that it is overloaded (HOLD), the hub lists the link as `congested`, and clients and
consumers that send into it wait; should very much gather all the same (answers, say), the peer is a
slow consumer, and is dropped. A peer that does not understand HOLD (nats-server) is read slowly
while this server is overloaded. Texts and reasons are nats-server's.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import cast

from core.errors import ProtocolError
from core.protocol import encoder
from core.protocol.gather import Batch
from core.protocol.routed import Queues
from core.pubsub.route import MESSAGE, bytes_of, messages_of
from core.pubsub.server import Traffic
from core.route.backlog import HIGH_WATER, Waiting
from core.route.cluster import Cluster, Refused
from core.route.handshake import (
    RouteInfo,
    decode_connect,
    decode_info,
    encode_connect,
    encode_info,
    without_leadership,
)
from core.route.incoming import Incoming
from core.route.liveness import Liveness
from core.route.proof import Proving
from core.route.remote_subscriptions import RemoteSubscriptions
from core.route.round_trips import RoundTrips
from core.route.route_parser import RouteParser
from core.route.settings import RouteUrl
from core.route.view import RouteView
from core.runtime.listening import unmapped
from core.subjects.subject import can_subscribe

log = logging.getLogger("jetgate.route")

LARGE_READ = 32 * 1024
_PING_INTERVAL_MAX_S = 30.0
_CLOSE_SECONDS = 1.0
_SLOW_S = 0.05
"""Pause after each large read while this server is overloaded by a peer that cannot be told."""
_INFO_SECONDS = 5.0
_UNACKNOWLEDGED_MS = 10_000
_ACCOUNT_ROUTE = b"Not possible to have a dedicated route for account"
_VIOLATION = "Authorization Violation"
_REASONS = {
    _VIOLATION: "Authentication Failure",
    "Authentication Timeout": "Authentication Timeout",
    "attempted to connect to route port": "Incorrect Port",
    "maximum control line exceeded": "Maximum Control Line Exceeded",
}


class RouteLink(asyncio.Protocol):
    """The connection to one peer, or to whoever wants to be one.

    Attributes:
        url: what was dialled; None: the peer dialled.
        did_solicit, is_configured: as /routez shows them.
        info: what the peer has said of itself; without a `server_id` until it has.
        is_registered: whether it takes part in routes.
        ended: set when the socket is gone.
    """

    def __init__(
        self,
        cluster: "Cluster[RouteLink]",
        url: RouteUrl | None = None,
        *,
        is_configured: bool = False,
    ) -> None:
        self._cluster = cluster
        self._hub = hub = cluster.hub
        self.url = url
        self.did_solicit = url is not None
        self.is_configured = is_configured
        self.rid = cluster.next_route_id()
        self.info = RouteInfo(server_id="")
        self.is_registered = False
        self.closed = False
        self.ended = asyncio.Event()
        self.out: list[bytes] = []
        self.remote = RemoteSubscriptions(self, hub.accounts)
        self._incoming = Incoming(hub, holds=cluster.holds_messages)
        self._proving = cluster.proving(has_dialled=self.did_solicit)
        self.ip, self.port = "", 0
        self._is_connected = self.did_solicit
        self._is_full = self._is_held = self._is_heard = False
        self._high = min(HIGH_WATER, max(hub.limits.max_pending // 8, 1))
        self._most = max(hub.limits.max_pending, 8 * HIGH_WATER)
        self._waiting = Waiting(lambda: self.blocked)
        self.on_writable: list[Callable[[], None]] = self._waiting.calls
        self._parser = RouteParser(self)
        self.sent = self._flushed = self._received = 0
        self._started = hub.clock.now()
        self._liveness = Liveness(hub.clock.monotonic())
        self._written = 0
        self._round_trips = RoundTrips()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    # -- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.ip, self.port = unmapped(str(peer[0])), int(peer[1])
        self._transport.set_write_buffer_limits(high=self._high, low=self._high // 2)
        _cut_when_unacknowledged(transport)
        log.info("%s - Route connection created", self)
        self._cluster.opened(self)
        if not self.did_solicit and self._hub.descriptors.is_needed(transport):
            self.close("No More Descriptors")
            return
        patience = self._cluster.settings.timeout_s
        if self.did_solicit:
            patience = max(patience, _INFO_SECONDS)
        else:
            self._transport.write(self._introduction())
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(patience, self._timed_out)

    def _timed_out(self) -> None:
        self.close("Authentication Timeout", "Authentication Timeout")

    def data_received(self, data: bytes) -> None:
        """Serve what was read."""
        if self.closed:
            return
        self._liveness.hear(self._hub.clock.monotonic())
        try:
            self._parser.feed(data)
        except Refused as refusal:
            self.close(refusal.why, refusal.text)
        except ProtocolError as error:
            self.close(_REASONS.get(error.text, "Protocol Violation"), error.text)
        if len(data) >= LARGE_READ:
            self._hub.turn.run()
            self._hub.crowded = False  # by this link, which is not paused
            if self._hub.overloaded and not self.info.holds:
                self._read_slowly()
        else:
            self._hub.turn.arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._leave("Client Closed" if exc is None else "Read Error")
        self._cluster.forget(self)
        self.ended.set()

    def pause_writing(self) -> None:
        """Much is unsent: who sends more has to wait."""
        self._is_full = True
        self._list()

    def resume_writing(self) -> None:
        """Half of that is left: let those go on who wait."""
        self._is_full = False
        self._list()

    def _list(self) -> None:
        """Have it listed as congested or not, and let those go on who need not wait."""
        congested = self._hub.congested
        if not self.closed and (self._is_full or self._is_held):
            if self not in congested:
                congested.append(self)
            return
        if self in congested:
            congested.remove(self)
        self._waiting.go_on()

    @property
    def blocked(self) -> bool:
        """Whether who sends more has to wait; what gathered in this turn counts too."""
        is_much = self._is_full or bytes_of(self.sent - self._flushed) > self._high
        return not self.closed and (is_much or self._is_held)

    def _read_slowly(self) -> None:
        self._transport.pause_reading()
        self._hub.wait(self)
        asyncio.get_running_loop().call_later(_SLOW_S, self.resume)

    def resume(self) -> None:
        """Read on."""
        if not self.closed:
            self._transport.resume_reading()

    def flush(self) -> None:
        """Write what gathered."""
        if self.closed:
            self.out.clear()
            return
        data = b"".join(self.out)
        self.out.clear()
        self._written += len(data)
        self._flushed = self.sent
        self._transport.write(data)
        if not self._is_full:
            self._waiting.go_on()
        elif self._transport.get_write_buffer_size() > self._most:
            self._drop("Slow Consumer (Pending Bytes)")

    def send(self, lines: bytes, sent: int) -> None:
        """Add messages to the output, as `pubsub.route.Link` says; the caller arms the turn."""
        if not self.out:
            self._hub.turn.dirty.append(self)
        self.sent += sent
        self.out.append(lines)

    def say(self, line: bytes) -> None:
        """Add a protocol line to the output."""
        if self.closed or not line:
            return
        if not self.out:
            self._hub.turn.dirty.append(self)
            self._hub.turn.arm()
        self.out.append(line)

    # -- the end

    def close(self, reason: str, error: str = "") -> None:
        """Write what gathered, then an -ERR if there is a text for it, and close."""
        if self.closed:
            return
        if error:
            log.error("%s - %s", self, error)
            self.out.append(encoder.error(error))
        # A socket that is gone already tells so in a later turn of the loop.
        if self.out and not self._transport.is_closing():
            self._transport.write(b"".join(self.out))
        self._leave(reason)
        self._transport.close()
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self.abort)

    def abort(self) -> None:
        """Drop the socket, whatever is still to be written."""
        self._leave("Server Shutdown")
        self._transport.abort()

    def _drop(self, reason: str) -> None:
        self._hub.slow_consumers += 1
        self._hub.slow_routes += 1
        self._leave(reason)
        self._transport.abort()

    def _leave(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        # What follows in the same read is refused: its interest would be nobody's.
        self._is_connected = self._is_heard = False
        self.out.clear()
        self._list()
        self._stop_timer()
        self._round_trips.end()
        who = f" - Remote: {self.info.server_name}" if self.info.server_name else ""
        log.info("%s - Router connection closed: %s%s", self, reason, who)
        try:
            self._cluster.gone(self)
        finally:  # Interest that stayed would be that of a listener who hears nothing.
            self.remote.clear()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def claimed_id(self) -> str:
        """Whom the peer claims to be, before it is let in or proved; empty: nobody yet."""
        return self.info.server_id or ("" if self._proving is None else self._proving.peer_id)

    def __str__(self) -> str:
        return f"{self.ip}:{self.port} - rid:{self.rid}"

    # -- the handshake

    def on_connect(self, body: bytes) -> None:
        """Let a server in that has dialled. Raises Refused."""
        connect = decode_connect(body)
        if self.did_solicit:
            return
        self._cluster.check_connect(connect)
        self._is_connected = True

    def on_info(self, body: bytes) -> None:
        """Take what the peer says of itself, or of another server. Raises Refused."""
        self._check_connected()
        info = decode_info(body)
        if not self.info.server_id:
            self._begin(info)
        elif info.server_id == self.info.server_id:
            before = self.info
            self.info = info if self.is_proved else without_leadership(info)
            self._cluster.changed(self, before)
        elif info.server_id:
            self._cluster.met(info)

    def _introduction(self) -> bytes:
        """The INFO by which this server says who it is, and proves it to whom it has met."""
        info = self._cluster.own_info()
        return encode_info(info if self._proving is None else self._proving.introduce(info))

    def _begin(self, info: RouteInfo) -> None:
        if not info.nonce and self._cluster.takes_others:
            self._proving = None
        proving, url = self._proving, self.url
        if proving is not None and not self._is_known(proving, info):
            self._answer()
            return
        self.info = info if self.is_proved else without_leadership(info)
        self._incoming.is_of_node = self.remote.are_of_node = self.is_proved
        self._cluster.register(self, info)
        self._stop_timer()
        self.is_registered = self._is_heard = True
        if proving is None:
            self._answer()
        elif url is None:
            self.say(self._introduction())
        self._cluster.joining(self)
        self.say(self._cluster.interest.all_lines())
        self._cluster.joined(self)
        if self._hub.overloaded:
            self.tell_overload()
        self._ping()

    def _answer(self) -> None:
        """Say who has dialled, if it was this server."""
        if self.url is not None:
            self.say(encode_connect(self._cluster.connect_for(self.url)))
            self.say(self._introduction())

    @property
    def is_proved(self) -> bool:
        """Whether a peer that is registered has proved that it is a node of the same database."""
        return self._proving is not None

    def _is_known(self, proving: Proving, info: RouteInfo) -> bool:
        """Whether the peer belongs here; False: it has to be answered first. Raises Refused."""
        try:
            return proving.take(info)
        except ProtocolError as error:
            text = f"{info.server_name or 'a server'} {error.reason} of the database's secret"
            if self._cluster.takes_others:
                text = f'this server and "{info.server_name}" have JetStream over two databases'
            why = "Authentication Failure"
            raise Refused(why, f"Rejecting connection, {text}") from None

    def tell_overload(self) -> None:
        """Tell the peer to hold its clients, or to hold them no longer."""
        if self.info.holds:
            self.say(b"HOLD\r\n" if self._hub.overloaded else b"RELEASE\r\n")

    def _check_connected(self) -> None:
        if not self._is_connected:
            raise Refused("Authentication Failure", _VIOLATION)

    def _check_registered(self) -> None:
        if not self._is_heard:
            raise Refused("Authentication Failure", _VIOLATION)

    # -- what the peer says

    def on_message_begun(self) -> None:
        """Keep nothing for a stranger. Raises Refused."""
        self._check_registered()

    def on_message(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes,
        queues: Queues,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Deliver a message to those here."""
        self._check_registered()
        self._received += MESSAGE + len(headers) + len(payload)
        self._incoming.deliver(account, subject, reply, queues, headers, payload)

    def on_batch(self, account: bytes, batch: Batch) -> None:
        """Deliver messages to those here."""
        self._check_registered()
        self._received += len(batch.payloads) * MESSAGE + batch.nbytes
        self._incoming.deliver_batch(account, batch)

    def on_sub(self, account: bytes, subject: bytes, queue: bytes, weight: int) -> None:
        """Somebody there subscribes."""
        self._check_registered()
        if can_subscribe(subject):
            self.remote.add(account, subject, queue, weight)
        else:
            self.say(encoder.error("Invalid Subscription"))

    def on_unsub(self, account: bytes, subject: bytes, queue: bytes) -> None:
        """Nobody there subscribes any more."""
        self._check_registered()
        self.remote.remove(account, subject, queue)

    def on_hold(self, *, is_held: bool) -> None:
        """Let clients wait that send to the peer: it is overloaded; or no longer."""
        self._check_registered()
        self._is_held = is_held
        self._list()

    def on_ping(self) -> None:
        """Answer."""
        self._check_connected()
        self.say(encoder.PONG)

    def on_pong(self) -> None:
        """Take the answer to a PING, and measure the round trip."""
        self._liveness.answered(self._hub.clock.monotonic())
        self._round_trips.answered()

    def on_err(self, text: bytes) -> None:
        """Close: the peer has refused something.

        A nats-server also tries routes for single accounts, and gives them up with such a text.
        """
        level = logging.DEBUG if text.startswith(_ACCOUNT_ROUTE) else logging.ERROR
        log.log(level, "%s - Route Error %r", self, text.decode(errors="replace"))
        raise Refused("Parse Error")

    # -- time

    def tick(self, now: int) -> None:
        """Send a PING when it is time; close a peer that is silent, or takes nothing."""
        self._incoming.release()
        limits, liveness = self._hub.limits, self._liveness
        unsent = self._transport.get_write_buffer_size()
        liveness.look(now, self._written - unsent, unsent)
        if liveness.takes_nothing(now, limits.write_deadline):
            self._drop("Slow Consumer (Write Deadline)")
        elif not self.is_registered:
            return  # whoever takes too long for that is closed by a timer
        elif liveness.is_silent():
            self._hub.stale_connections += 1
            self._hub.stale_routes += 1
            self.close("Stale Connection", "Stale Connection")
        elif liveness.is_ping_due(now, min(limits.ping_interval, _PING_INTERVAL_MAX_S)):
            self._ping()

    def _ping(self) -> int:
        self._liveness.pinged(self._hub.clock.monotonic())
        self.say(encoder.PING)
        return self._round_trips.asked()

    async def read(self) -> None:
        """Return when the peer has read all that it was sent so far, and this server its answers.

        Also when the link ends.
        """
        await self._round_trips.answer(self._ping())

    # -- monitoring

    def count(self) -> Traffic:
        """Return what it has carried."""
        return Traffic(
            in_msgs=messages_of(self._received),
            in_bytes=bytes_of(self._received),
            out_msgs=messages_of(self.sent),
            out_bytes=bytes_of(self.sent),
        )

    def view(self) -> RouteView:
        """Return what /routez shows of it."""
        clock, subscriptions = self._hub.clock, self.remote.shown()
        now, idle = clock.now(), clock.monotonic() - self._liveness.heard
        return RouteView(
            rid=self.rid,
            remote_id=self.info.server_id,
            remote_name=self.info.server_name,
            did_solicit=self.did_solicit,
            is_configured=self.is_configured,
            ip=self.ip,
            port=self.port,
            start=self._started,
            last_activity=now - idle,
            rtt=self._liveness.rtt,
            uptime=now - self._started,
            idle=idle,
            pending_size=sum(map(len, self.out)) + self._transport.get_write_buffer_size(),
            in_msgs=messages_of(self._received),
            out_msgs=messages_of(self.sent),
            in_bytes=bytes_of(self._received),
            out_bytes=bytes_of(self.sent),
            num_subscriptions=len(subscriptions),
            subscriptions=subscriptions,
            client_urls=tuple(self.info.connect_urls or ()),
        )


def _cut_when_unacknowledged(transport: asyncio.BaseTransport) -> None:
    """Have the kernel end a connection whose packets nobody acknowledges, where it can."""
    sock = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if sock is not None and option is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, _UNACKNOWLEDGED_MS)
