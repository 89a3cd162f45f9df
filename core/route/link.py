"""A route: one connection to another server of the cluster, with its handshake, reads and writes.

*Handshake.* The accepting server sends INFO at once. The dialling server answers with CONNECT and
its own INFO, so a server whose cluster name is generated learns the name of the other first. The
INFO of the other server completes the handshake (`Cluster.register`); then this server sends all
its subscriptions, and both route messages over the connection. Nodes of one database first prove
that they are (`core.route.proof`); lease groups are accepted only from nodes with a proof.

*Flow control.* A route never pauses reading, with the exception below. Its output is written once
per loop tick. While more than `HIGH_WATER` bytes are unsent, or the other server reports overload
(HOLD), the hub lists the route in `blocked_links`: clients and consumers wait before they send more
over it. If the unsent bytes still exceed `max_pending` (here at least 64 MiB), for example because
of replies, the other server is a slow consumer and is disconnected. A server that does not support
HOLD (nats-server) is read slowly while this server is overloaded.

Error texts and reasons are those of nats-server.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import cast

from core.errors import ProtocolError
from core.protocol import encoder
from core.protocol.messages import MessageColumns
from core.protocol.routed import Queues
from core.pubsub.receivers import MESSAGE, bytes_of, messages_of
from core.pubsub.server import Traffic
from core.route.backlog import HIGH_WATER, WaitingSenders
from core.route.cluster import Cluster, JoinRefused
from core.route.handshake import (
    RouteInfo,
    decode_connect,
    decode_info,
    encode_connect,
    encode_info,
    without_leadership,
)
from core.route.incoming import Incoming
from core.route.liveness import PeerLiveness
from core.route.proof import LinkProof
from core.route.remote_subscriptions import RemoteSubscriptions
from core.route.round_trips import RoundTrips
from core.route.route_parser import RouteParser
from core.route.settings import RouteUrl
from core.route.view import RouteView
from core.runtime.listening import unmapped
from core.subjects.subject import can_subscribe
from core.units import Seconds

log = logging.getLogger(__name__)

LARGE_READ = 32 * 1024
_PING_INTERVAL_MAX_S = Seconds(30.0)
_CLOSE_SECONDS = 1.0
_SLOW_S = 0.05
"""Seconds without reads after each large read, under overload, if the peer lacks HOLD."""
_INFO_SECONDS = Seconds(5.0)
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
    """The route to one other server, during and after the handshake.

    Attributes:
        url: The address that this server dialled; None if the other server dialled.
        did_solicit, is_configured: As /routez of nats-server shows them.
        info: The last INFO of the other server about itself; `server_id` is empty before the first.
        is_registered: True once the handshake is complete and messages are routed.
        ended: Set when the socket is closed.
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
        self._is_full = self._is_held = self._has_read = False
        self._high = min(HIGH_WATER, max(hub.limits.max_pending // 8, 1))
        self._most = max(hub.limits.max_pending, 8 * HIGH_WATER)
        self._waiting = WaitingSenders(lambda: self.blocked)
        self.on_writable: list[Callable[[], None]] = self._waiting.calls
        self._parser = RouteParser(self)
        self.sent = self._flushed = self._received = 0
        self._started = hub.clock.now()
        self._liveness = PeerLiveness(hub.clock.monotonic())
        self._written = 0
        self._round_trips = RoundTrips()
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    # -- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake; the server that accepted the connection sends INFO."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.ip, self.port = unmapped(str(peer[0])), int(peer[1])
        self._transport.set_write_buffer_limits(high=self._high, low=self._high // 2)
        _close_when_unacknowledged(transport)
        log.info("%s - Route connection created", self)
        self._cluster.connected(self)
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
        """Process the bytes of one read of the socket."""
        if self.closed:
            return
        self._liveness.record_read(self._hub.clock.monotonic())
        try:
            self._parser.feed(data)
        except JoinRefused as refusal:
            self.close(refusal.why, refusal.text)
        except ProtocolError as error:
            self.close(_REASONS.get(error.text, "Protocol Violation"), error.text)
        if len(data) >= LARGE_READ:
            self._hub.loop_tick.run()
            # Set by this read, but a route does not pause reading.
            self._hub.output_nearly_full = False
            if self._hub.overloaded and not self.info.holds:
                self._read_slowly()
        else:
            self._hub.loop_tick.arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the route after its socket has closed (called by asyncio)."""
        self._leave("Client Closed" if exc is None else "Read Error")
        self._cluster.forget(self)
        self.ended.set()

    def pause_writing(self) -> None:
        """Make senders wait: too many bytes are unsent (called by asyncio)."""
        self._is_full = True
        self._list()

    def resume_writing(self) -> None:
        """Let waiting senders resume: few bytes are unsent (called by asyncio)."""
        self._is_full = False
        self._list()

    def _list(self) -> None:
        """Add the route to `Hub.blocked_links` if it is blocked.

        Else remove it, and let the waiting senders resume.
        """
        blocked_links = self._hub.blocked_links
        if not self.closed and (self._is_full or self._is_held):
            if self not in blocked_links:
                blocked_links.append(self)
            return
        if self in blocked_links:
            blocked_links.remove(self)
        self._waiting.go_on()

    @property
    def blocked(self) -> bool:
        """True while senders have to wait: much is unsent, or the other server is overloaded.

        Output of the current loop tick counts too.
        """
        is_much = self._is_full or bytes_of(self.sent - self._flushed) > self._high
        return not self.closed and (is_much or self._is_held)

    def _read_slowly(self) -> None:
        self._transport.pause_reading()
        self._hub.resume_later(self)
        asyncio.get_running_loop().call_later(_SLOW_S, self.resume)

    def resume(self) -> None:
        """Resume reading from the socket after a pause because of overload."""
        if not self.closed:
            self._transport.resume_reading()

    def flush(self) -> None:
        """Write the output of this loop tick to the socket.

        Above the limit of unsent bytes, the route is closed as a slow consumer.
        """
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
        """Add encoded messages to the output. The caller calls `loop_tick.arm`, which flushes it.

        Args:
            lines: The encoded messages.
            sent: Number and bytes of the messages in one number: for each message, `MESSAGE` plus
                the bytes of its headers and payload.
        """
        if not self.out:
            self._hub.loop_tick.dirty.append(self)
        self.sent += sent
        self.out.append(lines)

    def write_line(self, line: bytes) -> None:
        """Add a protocol line to the output of this loop tick; an empty line is ignored."""
        if self.closed or not line:
            return
        if not self.out:
            self._hub.loop_tick.dirty.append(self)
            self._hub.loop_tick.arm()
        self.out.append(line)

    # -- the end

    def close(self, reason: str, error: str = "") -> None:
        """Write the pending output and an -ERR with the text `error`, if any; then close."""
        if self.closed:
            return
        if error:
            log.error("%s - %s", self, error)
            self.out.append(encoder.error(error))
        # The loop calls connection_lost in a later tick than the socket closes.
        if self.out and not self._transport.is_closing():
            self._transport.write(b"".join(self.out))
        self._leave(reason)
        self._transport.close()
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self.abort)

    def abort(self) -> None:
        """Close the socket at once; pending output is lost."""
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
        # Refuse the rest of this read: no link would remove its subscriptions again.
        self._is_connected = self._has_read = False
        self.out.clear()
        self._list()
        self._stop_timer()
        self._round_trips.end()
        who = f" - Remote: {self.info.server_name}" if self.info.server_name else ""
        log.info("%s - Router connection closed: %s%s", self, reason, who)
        try:
            self._cluster.gone(self)
        finally:  # Interest that stays would route messages to a closed link.
            self.remote.clear()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def claimed_id(self) -> str:
        """The server id in the INFO of the other server, proved or not; empty before that INFO."""
        return self.info.server_id or ("" if self._proving is None else self._proving.peer_id)

    def __str__(self) -> str:
        return f"{self.ip}:{self.port} - rid:{self.rid}"

    # -- the handshake

    def on_connect(self, body: bytes) -> None:
        """Check the CONNECT of a server that dialled.

        Raises JoinRefused if the server may not join.
        """
        connect = decode_connect(body)
        if self.did_solicit:
            return
        self._cluster.check_connect(connect)
        self._is_connected = True

    def on_info(self, body: bytes) -> None:
        """Apply an INFO, which is about the other server itself or announces a third server.

        Raises JoinRefused if the other server may not join, and ProtocolError if the INFO is
        malformed.
        """
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
        """Return this server's INFO, with a proof if the peer has sent its nonce."""
        info = self._cluster.own_info()
        return encode_info(info if self._proving is None else self._proving.introduce(info))

    def _begin(self, info: RouteInfo) -> None:
        if not info.nonce and self._cluster.accepts_members:
            self._proving = None
        proving, url = self._proving, self.url
        if proving is not None and not self._is_known(proving, info):
            self._answer()
            return
        self.info = info if self.is_proved else without_leadership(info)
        self._incoming.is_of_node = self.remote.are_of_node = self.is_proved
        self._cluster.register(self, info)
        self._stop_timer()
        self.is_registered = self._has_read = True
        if proving is None:
            self._answer()
        elif url is None:
            self.write_line(self._introduction())
        self._cluster.joining(self)
        self.write_line(self._cluster.interest.all_lines())
        self._cluster.joined(self)
        if self._hub.overloaded:
            self.announce_overload()
        self._ping()

    def _answer(self) -> None:
        """Send CONNECT and INFO if this server dialled."""
        if self.url is not None:
            self.write_line(encode_connect(self._cluster.connect_for(self.url)))
            self.write_line(self._introduction())

    @property
    def is_proved(self) -> bool:
        """True once the other server has proved to be a node of the same database."""
        return self._proving is not None

    def _is_known(self, proving: LinkProof, info: RouteInfo) -> bool:
        """Check the proof in an INFO. Return False if this server has to send its own INFO first.

        Raises JoinRefused if the other server does not prove that it knows the secret of the
        database.
        """
        try:
            return proving.verify(info)
        except ProtocolError as error:
            text = f"{info.server_name or 'a server'} {error.reason} of the database's secret"
            if self._cluster.accepts_members:
                text = f'this server and "{info.server_name}" have JetStream over two databases'
            why = "Authentication Failure"
            raise JoinRefused(why, f"Rejecting connection, {text}") from None

    def announce_overload(self) -> None:
        """Send HOLD if this server is overloaded, else RELEASE, to a server with support."""
        if self.info.holds:
            self.write_line(b"HOLD\r\n" if self._hub.overloaded else b"RELEASE\r\n")

    def _check_connected(self) -> None:
        if not self._is_connected:
            raise JoinRefused("Authentication Failure", _VIOLATION)

    def _check_registered(self) -> None:
        if not self._has_read:
            raise JoinRefused("Authentication Failure", _VIOLATION)

    # -- operations of the peer

    def on_message_begun(self) -> None:
        """Check that the handshake is complete before bytes of an incomplete message are kept.

        Raises JoinRefused if it is not.
        """
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
        """Deliver a message to local receivers.

        Raises JoinRefused if the handshake is not complete.
        """
        self._check_registered()
        self._received += MESSAGE + len(headers) + len(payload)
        self._incoming.deliver(account, subject, reply, queues, headers, payload)

    def on_batch(self, account: bytes, batch: MessageColumns) -> None:
        """Deliver messages to local receivers.

        Raises JoinRefused if the handshake is not complete.
        """
        self._check_registered()
        self._received += len(batch.payloads) * MESSAGE + batch.nbytes
        self._incoming.deliver_batch(account, batch)

    def on_sub(self, account: bytes, subject: bytes, queue: bytes, weight: int) -> None:
        """Add a subscription of the other server.

        Raises JoinRefused if the handshake is not complete.
        """
        self._check_registered()
        if can_subscribe(subject):
            self.remote.add(account, subject, queue, weight)
        else:
            self.write_line(encoder.error("Invalid Subscription"))

    def on_unsub(self, account: bytes, subject: bytes, queue: bytes) -> None:
        """Remove a subscription of the other server.

        Raises JoinRefused if the handshake is not complete.
        """
        self._check_registered()
        self.remote.remove(account, subject, queue)

    def on_hold(self, *, is_held: bool) -> None:
        """Apply HOLD (`is_held`) or RELEASE: senders to an overloaded server wait until RELEASE.

        Raises JoinRefused if the handshake is not complete.
        """
        self._check_registered()
        self._is_held = is_held
        self._list()

    def on_ping(self) -> None:
        """Answer a PING with PONG. Raises JoinRefused before the CONNECT of the other server."""
        self._check_connected()
        self.write_line(encoder.PONG)

    def on_pong(self) -> None:
        """Record the answer to a PING, and the time of the round trip."""
        self._liveness.answered(self._hub.clock.monotonic())
        self._round_trips.answered()

    def on_err(self, text: bytes) -> None:
        """Close the route after an -ERR of the other server. Always raises JoinRefused.

        A nats-server also opens an extra route for each account with a route of its own, and ends
        it with an -ERR, because this server has none. That one is logged at level DEBUG.
        """
        level = logging.DEBUG if text.startswith(_ACCOUNT_ROUTE) else logging.ERROR
        log.log(level, "%s - Route Error %r", self, text.decode(errors="replace"))
        raise JoinRefused("Parse Error")

    # -- time

    def tick(self, now: int) -> None:
        """Send a PING if one is due; disconnect a server that is silent or accepts no output.

        Called four times per second.

        Args:
            now: Monotonic time, in nanoseconds.
        """
        self._incoming.release()
        limits, liveness = self._hub.limits, self._liveness
        unsent = self._transport.get_write_buffer_size()
        liveness.update(now, self._written - unsent, unsent)
        if liveness.is_stuck(now, limits.write_deadline):
            self._drop("Slow Consumer (Write Deadline)")
        elif not self.is_registered:
            return  # `_timed_out` closes a peer whose handshake takes too long
        elif liveness.is_silent():
            self._hub.stale_connections += 1
            self._hub.stale_routes += 1
            self.close("Stale Connection", "Stale Connection")
        elif liveness.is_ping_due(now, min(limits.ping_interval, _PING_INTERVAL_MAX_S)):
            self._ping()

    def _ping(self) -> int:
        self._liveness.pinged(self._hub.clock.monotonic())
        self.write_line(encoder.PING)
        return self._round_trips.asked()

    async def read(self) -> None:
        """Wait until the other server has read all output so far, and its replies have arrived.

        Return early if the route ends.
        """
        await self._round_trips.answer(self._ping())

    # -- monitoring

    def count(self) -> Traffic:
        """Return the messages and bytes routed in both directions since the connect."""
        return Traffic(
            in_msgs=messages_of(self._received),
            in_bytes=bytes_of(self._received),
            out_msgs=messages_of(self.sent),
            out_bytes=bytes_of(self.sent),
        )

    def view(self) -> RouteView:
        """Return the entry of this route for /routez."""
        clock, subscriptions = self._hub.clock, self.remote.shown()
        now, idle = clock.now(), clock.monotonic() - self._liveness.last_read
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


def _close_when_unacknowledged(transport: asyncio.BaseTransport) -> None:
    """End the connection after `_UNACKNOWLEDGED_MS` without TCP acknowledgements, on Linux."""
    sock = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if sock is not None and option is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, _UNACKNOWLEDGED_MS)
