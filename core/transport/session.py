"""The server's side of one client's connection: reading, subscribing, writing, PING, closing.

Reading: after a large read the session does not read until the next turn of the loop, because an
event loop may read one busy socket for a long time before it looks at the others. So does one that
subscribes a thousand times in a read; the rest of that read waits with it. While the hub is
overloaded, a session that brings much does not read at all. Nor does one that has sent something
to another server of the cluster while much was unsent there, until that is less. While the hub
holds publishes, because what is to store them is not there, a session stops reading at the first
one that has to wait.

Publishing: messages go to the session's `publisher`, see `core.transport.publishing`.

Writing: everything gathers in `out`; `flush` writes it once per turn. A socket that takes no more
sets `blocked`. A blocked session whose output exceeds `max_pending` is closed as a slow consumer;
the producer whose messages bring it near that is not read for some milliseconds.

A refused operation is answered with -ERR; an error in the protocol closes the connection. The
texts are the reference server's, and so is the silence where it closes without one.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from core.auth.authenticator import Identity
from core.auth.grant import Guard
from core.errors import ProtocolError
from core.protocol import encoder
from core.protocol.connect import Connect, Info, decode_connect, encode_info, served
from core.protocol.holding import IsHeld, PublishHold
from core.protocol.parser import Parser
from core.pubsub.account import Account, Subscription
from core.pubsub.route import Link, bytes_of, messages_of
from core.pubsub.server import IN_PROCESS, TRUSTED, Hub, Traffic
from core.runtime.listening import unmapped
from core.subjects.subject import can_subscribe
from core.transport.authentication import Authentication, authenticate, reauthorize
from core.transport.info import info_of
from core.transport.publishing import publisher_for
from core.transport.wording import reason_of, subscription_violation

if TYPE_CHECKING:
    from core.transport.traced import ConnectionTrace  # most servers trace nothing

LARGE_READ = 32 * 1024
"""Bytes of a read after which others are read first."""
SMALL_READ = 512
_OVERLOADED_BYTES = 64 * 1024
"""What a session may bring in reads smaller than SMALL_READ while the hub is overloaded."""
_HIGH_WATER = 256 * 1024
_STALL_SECONDS = 0.004
_REMOVED_AT_ONCE = 4096
_CHANGES_PER_TURN = 1000
_UNAVAILABLE = "JetStream Not Available", "JetStream system temporarily unavailable"
HOLD_SECONDS = 30.0
"""How long a publish waits at most for what is to store it."""


class ClientSession(asyncio.Protocol):
    """The server's side of one connection.

    Attributes:
        connection_type: STANDARD, WEBSOCKET, IN_PROCESS or TRUSTED.
        has_socket: whether its connection was handed to it: just accepted, it is not yet.
        address: where it was accepted, if that is not the hub's address.
        forwarded_for: the client's address as a proxy says it.
        caller: the address of who asked for a connection inside the process; empty: nobody did.
        ping_interval: in seconds; 0: that of the limits.
        read_connect: how the JSON of a CONNECT is read, on top of an earlier one.
        user: the name of the user, for monitoring.
        publisher: what the messages of the client go through.
        authentication: the wait for credentials, while it lasts.
        parser: what reads its operations.
        trace: what logs its operations, while that is wanted.
        is_heard: whether something was read since the liveness check looked last.

    `gone` is called at the end.
    """

    control_line: Callable[[int], int] = int  # How long one may be, by the limit.
    connection_type = "STANDARD"
    has_socket = False
    address: tuple[str, int] | None = None
    forwarded_for = caller = ""
    ping_interval = 0.0
    trace: "ConnectionTrace | None" = None
    read_connect: Callable[[bytes, Connect | None], Connect] = staticmethod(decode_connect)

    def __init__(self, hub: Hub, gone: Callable[["ClientSession"], None] | None = None) -> None:
        self.hub = hub
        self._gone = gone
        self.out: list[bytes] = []
        self.blocked = self.closed = False
        self.close_reason = ""
        self.headers = False
        self.echo = True
        self.no_responders = False
        self.client_id = hub.next_client_id()
        self.client_ip, self.client_port = "", 0
        self.connect = Connect()
        self.is_connected = False
        self.traffic = Traffic()
        self.subscriptions: dict[bytes, Subscription] = {}
        self.on_writable: list[Callable[[], None]] = []
        self.user = ""
        self.guard: Guard | None = None
        self.authentication: Authentication | None = None
        self.last_heard = hub.clock.monotonic()
        self.is_heard = False
        self.started = hub.clock.now()
        self.rtt = self.pings_out = 0
        self.account = hub.default_account()
        self.choose_publisher()
        self._turn = hub.turn
        self._dirty = hub.turn.dirty
        self.parser = Parser(hub.limits.max_payload, hub.limits.max_control_line)
        self._ping_sent = hub.clock.monotonic()  # the first PING answers our INFO
        self._small_bytes = 0
        self._changes = 0
        self._sent_before = 0
        self._written = 0
        self._is_info_sent = self._is_waiting = False
        self._hold: PublishHold | None = None
        self._hold_timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._loop: asyncio.AbstractEventLoop

    # -- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send INFO, or refuse when there are too many connections already."""
        self._transport, self.has_socket = cast(asyncio.Transport, transport), True
        self._loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.client_ip, self.client_port = unmapped(str(peer[0])), int(peer[1])
        if self.hub.trace_log is not None:
            self.use_trace_log()
        limits = self.hub.limits
        if self.hub.is_holding and self.connection_type != TRUSTED:
            self._hold = PublishHold(None, self._is_held)
        high = min(_HIGH_WATER, max(limits.max_pending // 2, 1))
        self._transport.set_write_buffer_limits(high=high, low=high // 4)
        self._transport.write(encoder.info(encode_info(info_of(self.hub, self))))
        is_full = len(self.hub.sessions) >= limits.max_connections > 0
        if is_full and self.connection_type != TRUSTED:
            self.close("Maximum Connections Exceeded", "maximum connections exceeded")
            return
        if self.hub.descriptors.is_needed(transport):
            self.close("No More Descriptors", "maximum connections exceeded")
            return
        if self.hub.authenticator_for(self.connection_type) is not None:
            self.authentication = Authentication(self)
        self.hub.join(self)

    def data_received(self, data: bytes) -> None:
        """Serve what was read."""
        if self.closed:
            return
        self.is_heard = True
        if self._hold is not None and not (data := self._passing(self._hold, data, self._waits)):
            return
        if self.parser.unread:
            self.parser.unread += data
            return
        self.serve(data)

    def _passing(self, hold: PublishHold, data: bytes, is_held: IsHeld) -> bytes:
        """Return what stands before the first held publish; there, read no more."""
        before = hold.nbytes
        data = hold.take(data, is_held)
        self.hub.keep(hold.subject, hold.nbytes - before)
        if hold.is_holding and self._hold_timer is None:
            self._transport.pause_reading()
            if self.connection_type != IN_PROCESS:  # who waits there has a limit of his own
                self._hold_timer = self._loop.call_later(HOLD_SECONDS, self.close, *_UNAVAILABLE)
        return data

    def _is_held(self, subject: bytes) -> bool:
        """Say whether a publish has to wait; where subjects are mapped, chance may decide."""
        return self.account.mappings is not None or self.hub.is_held(subject)

    def _waits(self, subject: bytes) -> bool:
        """Say whether a publish that was just read is held: not if too much is kept already."""
        return self._is_held(subject) and not self.hub.is_held.is_refused(subject)

    def serve(self, data: bytes) -> None:
        """Serve bytes that need not wait."""
        self._changes = 0
        links = self.hub.congested
        congested = [(link, link.sent) for link in links] if links else []
        try:
            if self.authentication is not None:
                if not (data := self.authentication.take(data)):
                    return
                self.authentication = None
            self.parser.feed(data, self)
        except ProtocolError as error:
            self.close(reason_of(error), error.text)
            self._turn.arm()
            return
        size = len(data)
        if self.parser.unread:
            self._turn.arm()
            self._transport.pause_reading()
            self._loop.call_soon(self._read_on)
        elif size >= LARGE_READ:
            self._turn.run()
            if self.closed:
                return
            self._transport.pause_reading()
            if congested and self._waits_for(congested):
                return
            if self.hub.crowded:
                self.hub.crowded = False
                self._loop.call_later(_STALL_SECONDS, self.resume)
            else:
                self._loop.call_soon(self.resume)
        else:
            self._turn.arm()
            if self.hub.overloaded or congested:
                self._small_bytes += size
                if size >= SMALL_READ or self._small_bytes >= _OVERLOADED_BYTES:
                    self._transport.pause_reading()
                    if not self._waits_for(congested):
                        self.resume()

    def _waits_for(self, congested: list[tuple[Link, int]]) -> bool:
        """Wait for a link that something was sent into; False: nothing was."""
        for link, sent in congested:
            if link.sent != sent and link.blocked:
                self._is_waiting = True
                link.on_writable.append(self._wait_no_longer)
                return True
        return False

    def _wait_no_longer(self) -> None:
        self._is_waiting = False
        self.resume()

    def _read_on(self) -> None:
        """Serve the rest of a read that was ended early, then read from the socket again."""
        if self.closed:
            return
        data, self.parser.unread = self.parser.unread, b""
        if data:
            self.serve(data)
        if not self.parser.unread and len(data) < LARGE_READ:
            self._loop.call_soon(self.resume)  # write first: the next read may end the connection

    def hold_publishes(self) -> None:
        """Read no further than the first publish that the hub holds; what it held may go on."""
        if self.closed or self.connection_type == TRUSTED:
            return
        kept = b"" if self._hold is None else self._hold.kept
        self._stop_hold()
        if self.authentication is not None:
            kept = self.authentication.take_back() + kept
        hold = self._hold = PublishHold(self.parser.begun, self._is_held)
        self._transport.pause_reading()
        self.parser.unread = self._passing(hold, self.parser.take_back() + kept, self._is_held)
        self._loop.call_soon(self._read_on)

    def publish_on(self) -> None:
        """Take publishes from now on, those first that were held."""
        if self._hold is None or self.closed:
            return
        kept = self._hold.kept
        self._stop_hold()
        self._transport.pause_reading()
        self.parser.unread += kept
        self._loop.call_soon(self._read_on)

    def _stop_hold(self) -> None:
        self._hold = None
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None

    def pause(self) -> None:
        """Read nothing until `resume`."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Read again, unless the hub is overloaded: then when it no longer is."""
        hold = self._hold
        if self.closed or self._is_waiting or (hold and (hold.is_holding or self.hub.is_full)):
            return
        if self.hub.overloaded:
            self.hub.wait(self)
        else:
            self._small_bytes = 0
            self._transport.resume_reading()

    def flush(self) -> None:
        """Write what gathered."""
        out = self.out
        if self.closed:
            out.clear()
            return
        data = b"".join(out)
        out.clear()
        self._written += len(data)
        self.hub.writes += 1
        self._transport.write(data)
        if self.blocked:
            pending = self._transport.get_write_buffer_size()
            if pending > self.hub.limits.max_pending:
                self.close_slow_consumer("Slow Consumer (Pending Bytes)")
            elif pending * 4 > self.hub.limits.max_pending * 3:
                self.hub.crowded = True

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self.blocked = True
        self.hub.blocked.setdefault(self, (self.written(), self.hub.clock.monotonic()))

    def resume_writing(self) -> None:
        """The socket takes more: call those who waited for it."""
        self.blocked = False
        self.hub.blocked.pop(self, None)
        waiting, self.on_writable = self.on_writable, []
        for call in waiting:
            call()

    @property
    def said_user(self) -> str:
        """Who the client says it is."""
        return self.connect.user

    def pending(self) -> int:
        """Return how many bytes wait for the socket to take them."""
        return sum(map(len, self.out)) + self._transport.get_write_buffer_size()

    def written(self) -> int:
        """Return how many bytes the kernel has taken so far."""
        return self._written - self._transport.get_write_buffer_size()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._leave("Client Closed" if exc is None else "Read Error")
        if self._gone is not None:
            self._gone(self)
        # It refers to this session, which is gone at once without it; in a circle it would wait for
        # a full garbage collection, and those hold up everybody.
        del self.publisher

    def close(self, reason: str, error: str = "") -> None:
        """Write what gathered, then an -ERR if there is a text for it, and close."""
        if self.closed:
            return
        if error:
            self.out.append(encoder.error(error))
        rest = b"".join(self.out)
        if rest and not self._transport.is_closing():
            self._transport.write(rest)
        self._leave(reason)
        self._transport.close()
        if self._transport.get_write_buffer_size():
            # a peer that reads nothing must not hold the socket for ever
            self._loop.call_later(self.hub.limits.write_deadline, self._transport.abort)

    def abort(self) -> None:
        """Drop the socket, whatever is still to be written."""
        self._leave("Server Shutdown")
        self._transport.abort()

    def close_slow_consumer(self, reason: str) -> None:
        """Close a connection at once that does not take what is written."""
        if not self.closed:
            self.hub.slow_consumers += 1
            self._leave(reason)
            self._transport.abort()

    def _leave(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self.close_reason = reason
        self.hub.endings.note(self, reason)
        self.out.clear()
        if self.authentication is not None:
            self.authentication.cancel()
        if self._hold is not None:
            self.hub.keep(self._hold.subject, -self._hold.nbytes)
            self._stop_hold()
        self.hub.leave(self)  # before the subscriptions go: monitoring shows how many there were
        self._drop_subscriptions()
        waiting, self.on_writable = self.on_writable, []
        for call in waiting:
            call()

    def count(self) -> Traffic:
        """Bring the counters up to date and return them."""
        traffic = self.traffic
        traffic.in_msgs = self.parser.msgs
        traffic.in_bytes = self.parser.nbytes
        sent = self._sent_before + sum(s.sent for s in self.subscriptions.values())
        traffic.out_msgs, traffic.out_bytes = messages_of(sent), bytes_of(sent)
        return traffic

    # -- publishing

    def on_traced(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message that may ask for a trace of its way."""
        from core.transport.traced_publishing import publish_traced  # hardly anybody traces

        publish_traced(self, self.trace, subject, reply, headers, payload)

    # -- subscribing

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        """Subscribe; a sid that is in use keeps its subscription."""
        self._count_change()
        refusal = self._refusal(subject, queue, sid)
        if refusal:
            self.say(encoder.error(refusal))
            return
        if sid not in self.subscriptions:
            subscription = Subscription(self, subject, queue, sid)
            subscription.guard = self._delivery_guard(subject, queue)
            self.subscriptions[sid] = subscription
            self.account.add(subscription)
        self._say_ok()

    def _delivery_guard(self, subject: bytes, queue: bytes) -> Guard | None:
        """Return what deliveries to a subscription are checked by (None: they need no check)."""
        guard = self.guard
        return guard if guard is not None and guard.checks_deliveries(subject, queue) else None

    def _refusal(self, subject: bytes, queue: bytes, sid: bytes) -> str:
        """Return why a client may not subscribe; empty if it may."""
        limits = self.hub.limits
        guard = self.guard
        if queue == b"_sys_" or (guard and not guard.grant.may_subscribe(subject, queue)):
            return subscription_violation(subject, queue)
        if 0 < limits.max_subscription_tokens <= subject.count(b"."):
            return f"{subscription_violation(subject)}, too many tokens"
        if 0 < limits.max_subscriptions <= len(self.subscriptions):
            return "maximum subscriptions exceeded"
        return "" if sid in self.subscriptions or can_subscribe(subject) else "Invalid Subject"

    def on_unsub(self, sid: bytes, limit: int) -> None:
        """Unsubscribe, now or after `limit` deliveries in all; an unknown sid is harmless."""
        self._count_change()
        subscription = self.subscriptions.get(sid)
        if subscription is not None:
            if limit > subscription.delivered:
                subscription.limit = limit
                self.account.changed(subscription)
            else:
                self.account.remove(subscription)
                self.forget(subscription)
        self._say_ok()

    def _count_change(self) -> None:
        self._changes += 1
        if self._changes >= _CHANGES_PER_TURN:
            self.parser.halt = True  # others first

    def forget(self, subscription: Subscription) -> None:
        """Remove a subscription that the account no longer has."""
        if self.subscriptions.pop(subscription.sid, None) is not None:
            self._sent_before += subscription.sent
            if self.trace is not None:
                self.trace.unsubscribed(subscription.sid)

    def _drop_subscriptions(self) -> None:
        gone = list(self.subscriptions.values())
        self._sent_before += sum(s.sent for s in gone)
        self.subscriptions = {}
        if self.trace is not None:
            for subscription in gone:
                self.trace.unsubscribed(subscription.sid)
        self._remove_in_slices(self.account, gone)

    def _remove_in_slices(self, account: Account, gone: list[Subscription]) -> None:
        # a client may leave a million behind; others are served in between
        account.remove_all(gone[:_REMOVED_AT_ONCE])
        if len(gone) > _REMOVED_AT_ONCE:
            self._loop.call_soon(self._remove_in_slices, account, gone[_REMOVED_AT_ONCE:])

    # -- the connection itself

    def on_connect(self, body: bytes) -> None:
        """Authenticate the client and apply its options; a later CONNECT ends its subscriptions."""
        said = self.read_connect(body, self.connect if self.is_connected else None)
        authenticate(self, served(said, headers=not self.hub.limits.no_header_support))

    def use_connect(self, connect: Connect, identity: Identity) -> None:
        """Apply the options of a client that has authenticated."""
        self.connect = connect
        account = self.hub.accounts[identity.account]
        if self.is_connected or account is not self.account:
            self._drop_subscriptions()
        self.headers, self.echo = connect.headers, connect.echo
        self.no_responders = connect.no_responders
        self.authorize(identity)
        for subscription in self.subscriptions.values():
            account.changed(subscription)  # header support may be another now
        self._say_ok()

    def authorize(self, identity: Identity) -> None:
        """Make this a connection of that user: in its account, with its permissions."""
        self.account = self.hub.accounts[identity.account]
        self.user = identity.user
        grant = identity.grant
        self.guard = None if grant is None else Guard(grant, self.hub.clock.monotonic)
        self.is_connected = True
        self.choose_publisher()

    def reauthorize(self) -> None:
        """Apply users and permissions that have changed."""
        reauthorize(self)

    def use_permissions(self) -> None:
        """End subscriptions that are no longer allowed, and check what the others are given."""
        for subscription in list(self.subscriptions.values()):
            subject, queue = subscription.subject, subscription.queue
            if self.guard is None or self.guard.grant.may_subscribe(subject, queue):
                self.account.guard(subscription, self._delivery_guard(subject, queue))
            else:
                self.account.remove(subscription)
                self.forget(subscription)
                refusal = subscription_violation(subject, queue)
                self.say(encoder.error(f'{refusal} (sid "{subscription.sid.decode()}")'))

    def serve_kept(self, data: bytes) -> None:
        """Serve what was kept while a password was checked, and read again."""
        self.resume()
        if data:
            self.serve(data)
        self._turn.run()  # the next read may be the end, which ends writing too

    def choose_publisher(self) -> None:
        """Publish by what CONNECT, permissions and mappings say now."""
        publisher = publisher_for(self)
        self.publisher = publisher if self.trace is None else self.trace.publisher(publisher)

    def use_trace_log(self) -> None:
        """Log the operations of the client from now on, or no longer, as the hub wants it."""
        from core.transport.traced import TracedOutput, TracedParser, trace_of, untraced

        self.trace = trace = trace_of(self, self.hub.trace_log)
        if trace is None:
            self.parser, self.out = untraced(self.parser), list(self.out)
        else:
            self.parser = TracedParser(self.parser, trace.received)
            self.out = TracedOutput(self.out, trace.sent)
        self.choose_publisher()

    def on_ping(self) -> None:
        """Answer with PONG; the first one after a CONNECT is followed by an INFO of the account."""
        self.say(encoder.PONG)
        if self.is_connected and self.connect.protocol >= 1 and not self._is_info_sent:
            self._is_info_sent = True
            self.on_pong()
            self.send_info(is_connect_info=True)

    def on_pong(self) -> None:
        """Take the answer to a PING, and measure the round trip."""
        self.pings_out = 0
        if sent := self._ping_sent:
            self.rtt, self._ping_sent = max(self.hub.clock.monotonic() - sent, 1), 0

    def ping(self) -> None:
        """Send a PING."""
        self.pings_out += 1
        self._ping_sent = self.hub.clock.monotonic()
        self.say(encoder.PING)

    def send_info(self, *, is_connect_info: bool = False) -> None:
        """Send an INFO after the first one."""
        info: Info = info_of(self.hub, self)
        if is_connect_info:
            info.connect_info = True
            info.remote_account = self.account.name
        self.say(encoder.info(encode_info(info)))

    def use_limits(self) -> None:
        """Take over the hub's limits, which have changed."""
        self.parser.max_payload = self.hub.limits.max_payload
        self.parser.max_control_line = self.control_line(self.hub.limits.max_control_line)

    def tell_info(self) -> None:
        """Send an INFO that has changed; a client that has yet to send a PING gets it then."""
        if self._is_info_sent:
            self.send_info()

    def _say_ok(self) -> None:
        if self.connect.verbose:
            self.say(encoder.OK)

    def say(self, line: bytes) -> None:
        """Add a protocol line to the output."""
        if self.closed:
            return
        if not self.out:
            self._dirty.append(self)
        self.out.append(line)
