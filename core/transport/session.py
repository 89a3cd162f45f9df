"""The server's side of one client connection: reading, subscribing, writing, PING, closing.

*Reading.* After a large read the session pauses reading until the next loop tick, because an event
loop may read one busy socket for a long time before it serves the others. A session that subscribes
or unsubscribes a thousand times in one read also pauses, before the rest of that read. While the
server is overloaded (`core.pubsub.server.Hub`), a session with large reads pauses. A session also
pauses after it has sent messages to another server of the cluster while many bytes were unsent on
that route, until they are fewer. While publishes have to wait because their stream has no leader
yet, a session stops reading at the first of them.

*Publishing.* Messages go to the session's `publisher`, see `core.transport.publishing`.

*Writing.* Output is collected in `out`; `flush` writes it once per loop tick. A socket that accepts
no more output sets `blocked`. A blocked session whose output exceeds `max_pending` is closed as a
slow consumer, as is one that exceeds the write deadline (`core.transport.liveness`). A producer
whose messages bring another session near that limit pauses reading for some milliseconds.

A refused operation is answered with -ERR; a protocol error closes the connection. The texts are
those of nats-server, and so are the cases in which it closes without any.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from core.auth.authenticator import Identity
from core.auth.grant import Guard
from core.errors import ProtocolError
from core.protocol import encoder
from core.protocol.connect import Connect, Info, decode_connect, encode_info, served
from core.protocol.publish_hold import IsHeld, PublishHold
from core.protocol.server_parser import Parser
from core.pubsub.account import Account, Subscription
from core.pubsub.receivers import ServerLink, bytes_of, messages_of
from core.pubsub.server import IN_PROCESS, TRUSTED, Hub, Traffic
from core.runtime.listening import unmapped
from core.subjects.subject import can_subscribe
from core.transport.authentication import Authentication, authenticate, reauthorize
from core.transport.error_texts import reason_of, subscription_violation
from core.transport.info import info_of
from core.transport.publishing import publisher_for

if TYPE_CHECKING:
    from core.transport.traced import ConnectionTrace  # most servers trace nothing

LARGE_READ = 32 * 1024
"""Size of a read, in bytes, after which the session pauses so that other connections are read."""
SMALL_READ = 512
_OVERLOADED_BYTES = 64 * 1024
"""Bytes that a session may send in reads below `SMALL_READ` while the server is overloaded."""
_HIGH_WATER = 256 * 1024
_STALL_SECONDS = 0.004
_REMOVED_AT_ONCE = 4096
_CHANGES_PER_TICK = 1000
_UNAVAILABLE = "JetStream Not Available", "JetStream system temporarily unavailable"
HOLD_SECONDS = 30.0
"""Longest time for which a publish waits for the leader of its stream, in seconds.

The session is closed after it. The publish gate (`core.node.publish_gate`) usually refuses such
publishes much earlier.
"""


class ClientSession(asyncio.Protocol):
    """The server's side of one client connection.

    It is added to the sessions of `hub` when the connection begins. `gone` is called with it after
    the socket has closed.

    Attributes:
        connection_type: STANDARD, WEBSOCKET, IN_PROCESS or TRUSTED.
        has_socket: True once `connection_made` has run.
        address: Host and port on which it was accepted, if that is not the server's main one; else
            None.
        forwarded_for: The client's address as a proxy reports it; empty: none.
        caller: Address of the client that an in-process connection serves; empty: none.
        ping_interval: Seconds between PINGs; 0: that of the limits.
        read_connect: Decodes the JSON of a CONNECT; missing fields keep the values of an earlier
            one.
        user: The name of the user, for monitoring.
        publisher: Publishes the messages of the client.
        authentication: The authentication in progress; None once it has ended.
        parser: Parses the operations of the client.
        trace: Logs the operations of the client; None: they are not logged.
        has_read: True if data was read since the last liveness check.
    """

    control_line: Callable[[int], int] = int  # Longest control line, computed from the limit.
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
        self.last_read = hub.clock.monotonic()
        self.has_read = False
        self.started = hub.clock.now()
        self.rtt = self.pings_out = 0
        self.account = hub.default_account()
        self.choose_publisher()
        self._loop_tick = hub.loop_tick
        self._dirty = hub.loop_tick.dirty
        self.parser = Parser(hub.limits.max_payload, hub.limits.max_control_line)
        self._ping_sent: int = hub.clock.monotonic()  # the client's first PING answers INFO
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
        """Send INFO; close the connection if there are too many connections already."""
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
        """Process the bytes of one read of the socket.

        The first publish that has to wait (`Hub.is_held`) and all later bytes are kept.
        """
        if self.closed:
            return
        self.has_read = True
        if self._hold is not None and not (
            data := self._pass_unheld(self._hold, data, self._is_newly_held)
        ):
            return
        if self.parser.unread:
            self.parser.unread += data
            return
        self.serve(data)

    def _pass_unheld(self, hold: PublishHold, data: bytes, is_held: IsHeld) -> bytes:
        """Return the bytes before the first publish that has to wait; keep the rest in `hold`.

        If there is such a publish, reading from the socket pauses.
        """
        before = hold.nbytes
        data = hold.split(data, is_held)
        self.hub.count_held(hold.subject, hold.nbytes - before)
        if hold.is_holding and self._hold_timer is None:
            self._transport.pause_reading()
            if self.connection_type != IN_PROCESS:  # its client has a timeout of its own
                self._hold_timer = self._loop.call_later(HOLD_SECONDS, self.close, *_UNAVAILABLE)
        return data

    def _is_held(self, subject: bytes) -> bool:
        """Return whether a publish has to wait. With subject mappings, every publish has to."""
        return self.account.mappings is not None or self.hub.is_held(subject)

    def _is_newly_held(self, subject: bytes) -> bool:
        """Return whether a publish that was just read has to wait.

        It is processed at once if too many bytes are kept already (`HoldRule.is_refused`).
        """
        return self._is_held(subject) and not self.hub.is_held.is_refused(subject)

    def serve(self, data: bytes) -> None:
        """Parse bytes that need not wait.

        Pause reading afterwards if other connections must be served.
        """
        self._changes = 0
        links = self.hub.blocked_links
        blocked_links = [(link, link.sent) for link in links] if links else []
        try:
            if self.authentication is not None:
                if not (data := self.authentication.pass_data(data)):
                    return
                self.authentication = None
            self.parser.feed(data, self)
        except ProtocolError as error:
            self.close(reason_of(error), error.text)
            self._loop_tick.arm()
            return
        size = len(data)
        if self.parser.unread:
            self._loop_tick.arm()
            self._transport.pause_reading()
            self._loop.call_soon(self._process_unread)
        elif size >= LARGE_READ:
            self._loop_tick.run()
            if self.closed:
                return
            self._transport.pause_reading()
            if blocked_links and self._waits_for(blocked_links):
                return
            if self.hub.output_nearly_full:
                self.hub.output_nearly_full = False
                self._loop.call_later(_STALL_SECONDS, self.resume)
            else:
                self._loop.call_soon(self.resume)
        else:
            self._loop_tick.arm()
            if self.hub.overloaded or blocked_links:
                self._small_bytes += size
                if size >= SMALL_READ or self._small_bytes >= _OVERLOADED_BYTES:
                    self._transport.pause_reading()
                    if not self._waits_for(blocked_links):
                        self.resume()

    def _waits_for(self, blocked_links: list[tuple[ServerLink, int]]) -> bool:
        """Wait for a route to another server, if this read has sent messages over a blocked one.

        `blocked_links`: the routes whose output was full before the read, each with its value of
        `sent` then. Return False if there is no such route.
        """
        for link, sent in blocked_links:
            if link.sent != sent and link.blocked:
                self._is_waiting = True
                link.on_writable.append(self._on_link_writable)
                return True
        return False

    def _on_link_writable(self) -> None:
        self._is_waiting = False
        self.resume()

    def _process_unread(self) -> None:
        """Process the rest of an interrupted read, then resume reading from the socket."""
        if self.closed:
            return
        data, self.parser.unread = self.parser.unread, b""
        if data:
            self.serve(data)
        if not self.parser.unread and len(data) < LARGE_READ:
            self._loop.call_soon(self.resume)  # write first: the next read may end the connection

    def hold_publishes(self) -> None:
        """Stop reading at the first publish that has to wait by the current rule (`Hub.is_held`).

        Kept publishes that need not wait by this rule are processed.
        """
        if self.closed or self.connection_type == TRUSTED:
            return
        kept = b"" if self._hold is None else self._hold.held_data
        self._stop_hold()
        if self.authentication is not None:
            kept = self.authentication.withdraw_unread() + kept
        hold = self._hold = PublishHold(self.parser.begun, self._is_held)
        self._transport.pause_reading()
        self.parser.unread = self._pass_unheld(
            hold, self.parser.withdraw_unread() + kept, self._is_held
        )
        self._loop.call_soon(self._process_unread)

    def resume_publishes(self) -> None:
        """Publish the held messages, then continue to read."""
        if self._hold is None or self.closed:
            return
        kept = self._hold.held_data
        self._stop_hold()
        self._transport.pause_reading()
        self.parser.unread += kept
        self._loop.call_soon(self._process_unread)

    def _stop_hold(self) -> None:
        self._hold = None
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None

    def pause(self) -> None:
        """Pause reading from the socket until `resume`."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Resume reading from the socket; if the server is overloaded, after the overload."""
        hold = self._hold
        if self.closed or self._is_waiting or (hold and (hold.is_holding or self.hub.is_full)):
            return
        if self.hub.overloaded:
            self.hub.resume_later(self)
        else:
            self._small_bytes = 0
            self._transport.resume_reading()

    def flush(self) -> None:
        """Write the output of this loop tick to the socket.

        A session that reads too slowly is closed as a slow consumer.
        """
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
                self.hub.output_nearly_full = True

    def pause_writing(self) -> None:
        """Set `blocked`, because the socket accepts no more output (called by asyncio)."""
        self.blocked = True
        self.hub.blocked.setdefault(self, (self.written(), self.hub.clock.monotonic()))

    def resume_writing(self) -> None:
        """Clear `blocked`, and call the functions in `on_writable` (called by asyncio)."""
        self.blocked = False
        self.hub.blocked.pop(self, None)
        waiting, self.on_writable = self.on_writable, []
        for call in waiting:
            call()

    @property
    def connect_user(self) -> str:
        """The user name in the client's CONNECT, whether its password was right or not."""
        return self.connect.user

    def pending(self) -> int:
        """Return the number of bytes that are not written to the socket yet."""
        return sum(map(len, self.out)) + self._transport.get_write_buffer_size()

    def written(self) -> int:
        """Return the number of bytes that the kernel has accepted since the connection began."""
        return self._written - self._transport.get_write_buffer_size()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the session after the socket has closed (called by asyncio)."""
        self._leave("Client Closed" if exc is None else "Read Error")
        if self._gone is not None:
            self._gone(self)
        # The publisher refers to this session. Without the cycle the session is freed at once;
        # otherwise it waits for a full garbage collection, which stalls the process.
        del self.publisher

    def close(self, reason: str, error: str = "") -> None:
        """Write the pending output and an -ERR with `error`, if any; then close."""
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
            # a peer that reads nothing must not keep the socket open forever
            self._loop.call_later(self.hub.limits.write_deadline, self._transport.abort)

    def abort(self) -> None:
        """Close the socket at once; pending output is lost."""
        self._leave("Server Shutdown")
        self._transport.abort()

    def close_slow_consumer(self, reason: str) -> None:
        """Close the connection at once, without its pending output: the client reads too slowly."""
        if not self.closed:
            self.hub.slow_consumers += 1
            self._leave(reason)
            self._transport.abort()

    def _leave(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self.close_reason = reason
        self.hub.disconnect_log.note(self, reason)
        self.out.clear()
        if self.authentication is not None:
            self.authentication.cancel()
        if self._hold is not None:
            self.hub.count_held(self._hold.subject, -self._hold.nbytes)
            self._stop_hold()
        self.hub.leave(self)  # before the subscriptions are dropped: connz shows their number
        self._drop_subscriptions()
        waiting, self.on_writable = self.on_writable, []
        for call in waiting:
            call()

    def count(self) -> Traffic:
        """Update the counters in `traffic` and return them."""
        traffic = self.traffic
        traffic.in_msgs = self.parser.msgs
        traffic.in_bytes = self.parser.nbytes
        sent = self._sent_before + sum(s.sent for s in self.subscriptions.values())
        traffic.out_msgs, traffic.out_bytes = messages_of(sent), bytes_of(sent)
        return traffic

    # -- publishing

    def on_traced(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish a message whose headers may request a trace (ADR-41)."""
        from core.transport.traced_publishing import publish_traced  # traces are rare

        publish_traced(self, self.trace, subject, reply, headers, payload)

    # -- subscribing

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        """Subscribe, or send -ERR if the subscription is not allowed.

        A sid that is in use keeps its subscription.
        """
        self._count_change()
        refusal = self._refusal(subject, queue, sid)
        if refusal:
            self.write_line(encoder.error(refusal))
            return
        if sid not in self.subscriptions:
            subscription = Subscription(self, subject, queue, sid)
            subscription.guard = self._delivery_guard(subject, queue)
            self.subscriptions[sid] = subscription
            self.account.add(subscription)
        self._write_ok()

    def _delivery_guard(self, subject: bytes, queue: bytes) -> Guard | None:
        """Return the permissions to check deliveries with; None: no check is needed."""
        guard = self.guard
        return guard if guard is not None and guard.checks_deliveries(subject, queue) else None

    def _refusal(self, subject: bytes, queue: bytes, sid: bytes) -> str:
        """Return the -ERR text for a refused subscription; empty if it is allowed."""
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
        """End a subscription, at once or (`limit` > 0) after `limit` deliveries in total.

        An unknown sid is ignored.
        """
        self._count_change()
        subscription = self.subscriptions.get(sid)
        if subscription is not None:
            if limit > subscription.delivered:
                subscription.limit = limit
                self.account.changed(subscription)
            else:
                self.account.remove(subscription)
                self.forget(subscription)
        self._write_ok()

    def _count_change(self) -> None:
        self._changes += 1
        if self._changes >= _CHANGES_PER_TICK:
            self.parser.halt = True  # other sessions first

    def forget(self, subscription: Subscription) -> None:
        """Remove a subscription that the account has removed already.

        Its counters stay in the totals.
        """
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
        # a client may have a million subscriptions; others are served between the slices
        account.remove_all(gone[:_REMOVED_AT_ONCE])
        if len(gone) > _REMOVED_AT_ONCE:
            self._loop.call_soon(self._remove_in_slices, account, gone[_REMOVED_AT_ONCE:])

    # -- the connection itself

    def on_connect(self, body: bytes) -> None:
        """Authenticate the client and apply the options of its CONNECT.

        A later CONNECT ends the subscriptions. Raises ProtocolError if the credentials are wrong.
        """
        sent = self.read_connect(body, self.connect if self.is_connected else None)
        authenticate(self, served(sent, headers=not self.hub.limits.no_header_support))

    def use_connect(self, connect: Connect, identity: Identity) -> None:
        """Apply the options in the CONNECT of a client that has authenticated."""
        self.connect = connect
        account = self.hub.accounts[identity.account]
        if self.is_connected or account is not self.account:
            self._drop_subscriptions()
        self.headers, self.echo = connect.headers, connect.echo
        self.no_responders = connect.no_responders
        self.authorize(identity)
        for subscription in self.subscriptions.values():
            account.changed(subscription)  # header support may have changed
        self._write_ok()

    def authorize(self, identity: Identity) -> None:
        """Set account, user and permissions of the session by the identity of its client."""
        self.account = self.hub.accounts[identity.account]
        self.user = identity.user
        grant = identity.grant
        self.guard = None if grant is None else Guard(grant, self.hub.clock.monotonic)
        self.is_connected = True
        self.choose_publisher()

    def reauthorize(self) -> None:
        """Apply changed users and permissions.

        Close the session if its credentials no longer suffice.
        """
        reauthorize(self)

    def use_permissions(self) -> None:
        """End the subscriptions that the new permissions deny, with -ERR.

        Check deliveries to the others.
        """
        for subscription in list(self.subscriptions.values()):
            subject, queue = subscription.subject, subscription.queue
            if self.guard is None or self.guard.grant.may_subscribe(subject, queue):
                self.account.guard(subscription, self._delivery_guard(subject, queue))
            else:
                self.account.remove(subscription)
                self.forget(subscription)
                refusal = subscription_violation(subject, queue)
                self.write_line(encoder.error(f'{refusal} (sid "{subscription.sid.decode()}")'))

    def serve_buffered(self, data: bytes) -> None:
        """Parse the bytes that were kept during a password check, and resume reading."""
        self.resume()
        if data:
            self.serve(data)
        self._loop_tick.run()  # write now: the next read may be the end, which drops the output

    def choose_publisher(self) -> None:
        """Create the publisher again, by CONNECT, permissions and mappings."""
        publisher = publisher_for(self)
        self.publisher = publisher if self.trace is None else self.trace.publisher(publisher)

    def use_trace_log(self) -> None:
        """Start or stop logging the operations of the client, as `Hub.trace_log` requires."""
        from core.transport.traced import TracedOutput, TracedParser, trace_of, untraced

        self.trace = trace = trace_of(self, self.hub.trace_log)
        if trace is None:
            self.parser, self.out = untraced(self.parser), list(self.out)
        else:
            self.parser = TracedParser(self.parser, trace.received)
            self.out = TracedOutput(self.out, trace.sent)
        self.choose_publisher()

    def on_ping(self) -> None:
        """Answer with PONG.

        After the first PING that follows a CONNECT, also send INFO with the account.
        """
        self.write_line(encoder.PONG)
        if self.is_connected and self.connect.protocol >= 1 and not self._is_info_sent:
            self._is_info_sent = True
            self.on_pong()
            self.send_info(is_connect_info=True)

    def on_pong(self) -> None:
        """Record the answer to a PING, and the time of the round trip in `rtt`."""
        self.pings_out = 0
        if sent := self._ping_sent:
            self.rtt, self._ping_sent = max(self.hub.clock.monotonic() - sent, 1), 0

    def ping(self) -> None:
        """Send a PING and count it as unanswered."""
        self.pings_out += 1
        self._ping_sent = self.hub.clock.monotonic()
        self.write_line(encoder.PING)

    def send_info(self, *, is_connect_info: bool = False) -> None:
        """Send an INFO again.

        `is_connect_info`: with the client's account, after its first PING.
        """
        info: Info = info_of(self.hub, self)
        if is_connect_info:
            info.connect_info = True
            info.remote_account = self.account.name
        self.write_line(encoder.info(encode_info(info)))

    def use_limits(self) -> None:
        """Apply the server's limits (`Hub.limits`) after they have changed."""
        self.parser.max_payload = self.hub.limits.max_payload
        self.parser.max_control_line = self.control_line(self.hub.limits.max_control_line)

    def announce_info(self) -> None:
        """Send the changed INFO, unless the client will get it after its first PING."""
        if self._is_info_sent:
            self.send_info()

    def _write_ok(self) -> None:
        if self.connect.verbose:
            self.write_line(encoder.OK)

    def write_line(self, line: bytes) -> None:
        """Add a protocol line to the output of this loop tick."""
        if self.closed:
            return
        if not self.out:
            self._dirty.append(self)
        self.out.append(line)
