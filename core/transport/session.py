"""One client: its bytes become publishes and subscriptions, deliveries become its bytes.

Reading: a large read is served at once and the session then waits for the next turn of the loop,
because an event loop may read one busy socket for a long time before it looks at the others. So
does one that subscribes a thousand times in a read; the rest of that read waits with it.
While the hub is overloaded, a session that brings much does not read at all.

Writing: everything gathers in `out`; `flush` writes it once per turn. A socket that takes no more
sets `blocked`. Whoever then still fills the session up to `max_pending` loses it (a slow
consumer), nobody waits for it; the producer that fills it is held back for some milliseconds.

Refused operations answer -ERR and go on; a broken protocol closes. The texts are the reference
server's, and so is the silence where it closes without one.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from core.auth.gate import Identity
from core.auth.grant import Guard
from core.errors import AuthError, ProtocolError
from core.protocol import encoder
from core.protocol import headers as header_blocks
from core.protocol.connect import Connect, Info, decode_connect, encode_info, served
from core.protocol.gather import Batch
from core.protocol.parser import Parser
from core.pubsub.account import ACK_PREFIX, Account, Subscription, message_tail
from core.pubsub.batch import take_together
from core.pubsub.server import Hub, Traffic
from core.subjects.subject import can_publish, can_subscribe
from core.transport.door import VIOLATION, Door
from core.transport.greeting import info_of
from core.transport.wording import may_not_subscribe, permissions, quoted, reason_of

LARGE_READ = 32 * 1024
SMALL_READ = 512
_SLACK = 64 * 1024
_HIGH_WATER = 256 * 1024
_STALL_SECONDS = 0.004
_SLICE = 4096
_CHANGES_PER_TURN = 1000
_RESERVED = frozenset((b"_R_.", b"$GR.", b"_GR_", b"$JS."))
_SPECIAL = frozenset((b"$JS.A", b"$NRG."))
_RESERVED_REPLIES = (b"_R_.", b"$GR.", b"_GR_.", b"$JS.ACK.")


class ClientSession(asyncio.Protocol):
    """The server's side of one connection.

    `connection_type` is STANDARD, WEBSOCKET or IN_PROCESS; `user` is who it is, for monitoring;
    `address` is where it came in, if that is not the hub's; `forwarded_for` is where a proxy says
    that the client is; `ping_interval` is in seconds, 0 for what holds for all.
    """

    connection_type = "STANDARD"
    address: tuple[str, int] | None = None
    forwarded_for = ""
    ping_interval = 0.0
    read_connect: Callable[[bytes, Connect | None], Connect] = staticmethod(decode_connect)

    def __init__(self, hub: Hub, gone: Callable[["ClientSession"], None] | None = None) -> None:
        self.hub = hub
        self._gone = gone
        self.out: list[bytes] = []
        self.blocked = False
        self.closed = False
        self.close_reason = ""
        self.headers = False
        self.echo = True
        self.no_responders = False
        self.client_id = hub.next_client_id()
        self.client_ip = ""
        self.client_port = 0
        self.connect = Connect()
        self.is_connected = False
        self.traffic = Traffic()
        self.subscriptions: dict[bytes, Subscription] = {}
        self.on_writable: list[Callable[[], None]] = []
        self.user = ""
        self.guard: Guard | None = None
        self.door: Door | None = None
        self.rtt = 0
        self.last_heard = hub.clock.monotonic()
        self.is_heard = False
        self.started = hub.clock.now()
        self.pings_out = 0
        self._is_plain = False
        self.gathers = False
        self._bind(hub.default_account())
        self.choose_publish()
        self._turn = hub.turn
        self._dirty = hub.turn.dirty
        self._parser = Parser(hub.limits.max_payload, hub.limits.max_control_line)
        self._ping_sent = hub.clock.monotonic()  # the first PING answers our INFO
        self._slack = 0
        self._changes = 0
        self._delivered_before = 0
        self._is_info_sent = False
        self._transport: asyncio.Transport
        self._loop: asyncio.AbstractEventLoop

    def _bind(self, account: Account) -> None:
        self.account = account
        self._plans = account.plans

    # -- the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, or refuse when there are too many already."""
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.client_ip, self.client_port = str(peer[0]), int(peer[1])
        limits = self.hub.limits
        high = min(_HIGH_WATER, max(limits.max_pending // 2, 1))
        self._transport.set_write_buffer_limits(high=high, low=high // 4)
        self._transport.write(encoder.info(encode_info(info_of(self.hub, self))))
        if len(self.hub.sessions) >= limits.max_connections > 0:
            self.close("Maximum Connections Exceeded", "maximum connections exceeded")
            return
        if (gate := self.hub.gate_for(self.connection_type)) is not None:
            self.door = Door(self, gate)
        self.hub.join(self)

    def data_received(self, data: bytes) -> None:
        """Serve a read."""
        if self.closed:
            return
        self.is_heard = True
        if self._parser.unread:
            self._parser.unread += data
            return
        self._changes = 0
        try:
            if self.door is not None and not (data := self.door.take(data)):
                return
            self._parser.feed(data, self)
        except ProtocolError as error:
            self.close(reason_of(error), error.text)
            self._turn.arm()
            return
        size = len(data)
        if self._parser.unread:
            self._turn.arm()
            self._transport.pause_reading()
            self._loop.call_soon(self._read_on)
        elif size >= LARGE_READ:
            self._turn.run()
            if self.closed:
                return
            self._transport.pause_reading()
            if self.hub.crowded:
                self.hub.crowded = False
                self._loop.call_later(_STALL_SECONDS, self.resume)
            else:
                self._loop.call_soon(self.resume)
        else:
            self._turn.arm()
            if self.hub.overloaded:
                self._slack += size
                if size >= SMALL_READ or self._slack >= _SLACK:
                    self._transport.pause_reading()
                    self.resume()

    def _read_on(self) -> None:
        """Serve what a read left, and read again when what that made is written."""
        data, self._parser.unread = self._parser.unread, b""
        self.data_received(data)
        if not self._parser.unread and len(data) < LARGE_READ:
            self._loop.call_soon(self.resume)  # there may be the end, which ends writing too

    def hold(self) -> None:
        """Read nothing until `resume`."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Read again, unless the hub is overloaded: then when it no longer is."""
        if self.closed:
            return
        if self.hub.overloaded:
            self.hub.wait(self)
        else:
            self._slack = 0
            self._transport.resume_reading()

    def flush(self) -> None:
        """Write what gathered."""
        out = self.out
        if self.closed:
            out.clear()
            return
        data = b"".join(out)
        out.clear()
        self.traffic.out_bytes += len(data)
        self.hub.writes += 1
        self._transport.write(data)
        if self.blocked:
            pending = self._transport.get_write_buffer_size()
            if pending > self.hub.limits.max_pending:
                self.cut("Slow Consumer (Pending Bytes)")
            elif pending * 4 > self.hub.limits.max_pending * 3:
                self.hub.crowded = True

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self.blocked = True
        self.hub.blocked.setdefault(self, (self.written(), self.hub.clock.monotonic()))

    def resume_writing(self) -> None:
        """The socket takes more: wake who waited for it."""
        self.blocked = False
        self.hub.blocked.pop(self, None)
        waiting, self.on_writable = self.on_writable, []
        for call in waiting:
            call()

    def pending(self) -> int:
        """Return how many bytes wait for the socket to take them."""
        return sum(map(len, self.out)) + self._transport.get_write_buffer_size()

    def written(self) -> int:
        """Return how many bytes the kernel has taken so far."""
        return self.traffic.out_bytes - self._transport.get_write_buffer_size()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._depart("Client Closed" if exc is None else "Read Error")
        if self._gone is not None:
            self._gone(self)

    def close(self, reason: str, error: str = "") -> None:
        """Say why (if there is a text), write what gathered, and close."""
        if self.closed:
            return
        if error:
            self.out.append(encoder.error(error))
        rest = b"".join(self.out)
        if rest:
            self._transport.write(rest)
        self._depart(reason)
        self._transport.close()
        if self._transport.get_write_buffer_size():
            # a peer that reads nothing must not hold the socket for ever
            self._loop.call_later(self.hub.limits.write_deadline, self._transport.abort)

    def abort(self) -> None:
        """Drop the socket, whatever is still to be written."""
        self._depart("Server Shutdown")
        self._transport.abort()

    def cut(self, reason: str) -> None:
        """Drop a connection that does not take what is written."""
        if not self.closed:
            self.hub.slow_consumers += 1
            self._depart(reason)
            self._transport.abort()

    def _depart(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self.close_reason = reason
        self.out.clear()
        if self.door is not None:
            self.door.close()
        self.hub.leave(self)  # which sees what it had
        self._drop_subscriptions()
        waiting, self.on_writable = self.on_writable, []
        for call in waiting:
            call()

    def count(self) -> Traffic:
        """Bring the counters up to date and return them."""
        traffic = self.traffic
        traffic.in_msgs = self._parser.msgs
        traffic.in_bytes = self._parser.nbytes
        delivered = sum(s.delivered for s in self.subscriptions.values())
        traffic.out_msgs = self._delivered_before + delivered
        return traffic

    # -- publishing

    def _publish_plain(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish for a client without verbose, pedantic and with echo: every ordinary one."""
        if reply and reply[:4] in _RESERVED and reply.startswith(_RESERVED_REPLIES):
            self._refuse_reply(reply)
            return
        route = self._plans.get(subject)
        if route is None:
            # `$JS.API.` shares its beginning with `$JS.ACK.` and is not special
            if (
                subject[:5] in _SPECIAL
                and subject[4:6] != b"AP"
                and self._take_special(subject, reply, headers, payload)
            ):
                return
            route = self.account.resolve(subject)
        only = route.only
        if only is not None:
            only(self, subject, reply, headers, payload)
            return
        sole = route.sole
        if sole is None:
            delivered = self.account.deliver(route, self, subject, reply, headers, payload)
            if reply and not delivered and self.no_responders:
                self._say_no_responders(subject, reply)
            return
        out = sole.session.out
        if not out:
            self._dirty.append(sole.session)
        sole.delivered += 1
        if headers:
            out += (b"HMSG ", subject, sole.mid, message_tail(reply, headers, payload))
            return
        if reply:
            tail = b"%b %d\r\n%b\r\n" % (reply, len(payload), payload)
        else:
            tail = b"%d\r\n%b\r\n" % (len(payload), payload)
        if route.head:
            out += (route.head, tail)
        else:
            out += (b"MSG ", subject, sole.mid, tail)

    def _take_special(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bool:
        """Deal with an ack or a refused subject; False when it goes the general way."""
        if subject.startswith(ACK_PREFIX):
            return self.account.take_ack(self, subject, reply, headers, payload)
        if subject.startswith(b"$NRG."):
            self._refuse_subject(subject)
            return True
        return False

    def _publish_checked(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        """Publish for a client that is verbose or pedantic, or does not want its own echo."""
        if self.connect.pedantic and not can_publish(subject):
            self._say(encoder.error("Invalid Publish Subject"))
        if reply.startswith(_RESERVED_REPLIES):
            self._refuse_reply(reply)
            return
        if subject.startswith(b"$NRG."):
            self._refuse_subject(subject)
            return
        if self.connect.verbose:
            self._say(encoder.OK)
        account = self.account
        if self._take_special(subject, reply, headers, payload):
            return
        route = account.route(subject)
        if account.deliver(route, self, subject, reply, headers, payload):
            return
        if reply and self.no_responders:
            self._say_no_responders(subject, reply)

    def _publish_run(self, subject: bytes, payloads: list[bytes]) -> None:
        """Publish several messages of one subject and size, without reply and headers."""
        if self._is_plain and subject[:5] not in _SPECIAL:
            route = self.account.route(subject)
            if (only := route.only) is not None:
                for payload in payloads:
                    only(self, subject, b"", b"", payload)
                return
            if route.targets and route.plain and not route.groups and not route.services:
                self.account.deliver_run(route, subject, payloads)
                return
        publish = self.on_pub
        for payload in payloads:
            publish(subject, b"", b"", payload)

    def on_batch(self, batch: Batch) -> None:
        """Publish several messages: at once where they all go to one stream, else one by one."""
        self.gathers = self._may_gather(batch) and take_together(self.account, batch)
        if not self.gathers:
            for message in batch.messages():
                self.on_pub(*message)

    def _may_gather(self, batch: Batch) -> bool:
        if self.on_pub == self._publish_guarded:
            return self._is_plain and self._publishable.issuperset(batch.subjects)
        return self.on_pub == self._publish_plain

    def _publish_guarded(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        """Publish for a client whose permissions say on what."""
        if subject in self._publishable or self._may_publish(subject):
            self._publish_free(subject, reply, headers, payload)

    def _run_guarded(self, subject: bytes, payloads: list[bytes]) -> None:
        if subject in self._publishable:
            self._publish_run(subject, payloads)
            return
        for payload in payloads:  # each is refused, or is an answer that counts
            self._publish_guarded(subject, b"", b"", payload)

    def _publish_mapped(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Publish for a client of an account that maps subjects."""
        assert self.account.mappings is not None
        mapped = self.account.mappings.of(subject)
        if mapped:
            self._publish_free_or_guarded(mapped, reply, headers, payload)
            return
        self._say_ok()
        if reply and self.no_responders:
            self._say_no_responders(mapped, reply)

    def _run_mapped(self, subject: bytes, payloads: list[bytes]) -> None:
        for payload in payloads:
            self._publish_mapped(subject, b"", b"", payload)

    def _may_publish(self, subject: bytes) -> bool:
        assert self.guard is not None
        if self.guard.may_publish(subject):
            return True
        if self.connect.pedantic and not can_publish(subject):
            self._say(encoder.error("Invalid Publish Subject"))
        self._refuse_subject(subject)
        return False

    def _say_no_responders(self, subject: bytes, reply: bytes) -> None:
        """Tell the requester that nobody listens, on the subscription it listens with."""
        if self.account.is_silent is not None and self.account.is_silent(subject):
            return
        for target in self.account.route(reply).targets:
            if target.session is self:
                block = header_blocks.build(((b"Nats-Subject", subject),), 503)
                self._say(encoder.message(reply, target.sid, b"", block, b""))
                return

    def _refuse_reply(self, reply: bytes) -> None:
        self._say(permissions(f"Publish with Reply of {quoted(reply)}"))

    def _refuse_subject(self, subject: bytes) -> None:
        self._say(permissions(f"Publish to {quoted(subject)}"))

    # -- subscribing

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        """Subscribe; a sid that is in use keeps its subscription."""
        self._count_change()
        refusal = self._refusal(subject, queue, sid)
        if refusal:
            self._say(encoder.error(refusal))
            return
        if sid not in self.subscriptions:
            subscription = Subscription(self, subject, queue, sid)
            if self.guard is not None and self.guard.watches(subject, queue):
                subscription.guard = self.guard
            self.subscriptions[sid] = subscription
            self.account.add(subscription)
        self._say_ok()

    def _refusal(self, subject: bytes, queue: bytes, sid: bytes) -> str:
        """Return why a client may not subscribe; empty if it may."""
        limits = self.hub.limits
        guard = self.guard
        if queue == b"_sys_" or (guard and not guard.grant.may_subscribe(subject, queue)):
            return may_not_subscribe(subject) + (f" using queue {quoted(queue)}" if queue else "")
        if 0 < limits.max_subscription_tokens <= subject.count(b"."):
            return f"{may_not_subscribe(subject)}, too many tokens"
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
            self._parser.halt = True  # others first

    def forget(self, subscription: Subscription) -> None:
        """Drop a subscription that the account no longer has."""
        if self.subscriptions.pop(subscription.sid, None) is not None:
            self._delivered_before += subscription.delivered

    def _drop_subscriptions(self) -> None:
        gone = list(self.subscriptions.values())
        self._delivered_before += sum(s.delivered for s in gone)
        self.subscriptions = {}
        self._remove_in_slices(self.account, gone)

    def _remove_in_slices(self, account: Account, gone: list[Subscription]) -> None:
        # a client may leave a million behind; others are served in between
        account.remove_all(gone[:_SLICE])
        if len(gone) > _SLICE:
            self._loop.call_soon(self._remove_in_slices, account, gone[_SLICE:])

    # -- the connection itself

    def on_connect(self, body: bytes) -> None:
        """Take what the client says of itself; a later CONNECT starts without subscriptions."""
        said = self.read_connect(body, self.connect if self.is_connected else None)
        self.connect = connect = served(said, headers=not self.hub.limits.no_header_support)
        try:
            identity = self.hub.authenticate(self.connect, self.connection_type)
        except AuthError:
            raise ProtocolError(VIOLATION) from None
        account = self.hub.accounts[identity.account]
        if self.is_connected or account is not self.account:
            self._drop_subscriptions()
        self._become(identity)
        self.headers = connect.headers
        self.echo = connect.echo
        self.no_responders = connect.no_responders
        self._is_plain = connect.echo and not connect.verbose and not connect.pedantic
        self.choose_publish()
        for subscription in self.subscriptions.values():
            account.changed(subscription)  # header support may be another now
        self._say_ok()

    def enter_as(self, identity: Identity) -> None:
        """Be somebody without a CONNECT."""
        self._become(identity)
        self.choose_publish()

    def _become(self, identity: Identity) -> None:
        self._bind(self.hub.accounts[identity.account])
        self.user = identity.user
        grant = identity.grant
        self.guard = None if grant is None else Guard(grant, self.hub.clock.monotonic)
        self.is_connected = True

    def choose_publish(self) -> None:
        """Decide once what a publish of this client goes through."""
        publish = self._publish_plain if self._is_plain else self._publish_checked
        self.on_pub = self._publish_free = publish
        self.on_run = self._publish_run
        if self.guard is not None and self.guard.grant.limits_publish:
            self._publishable = self.guard.grant.known
            self.on_pub = self._publish_guarded
            self.on_run = self._run_guarded
        if self.account.mappings is not None:
            self._publish_free_or_guarded = self.on_pub
            self.on_pub = self._publish_mapped
            self.on_run = self._run_mapped

    def on_ping(self) -> None:
        """Answer, after everything the client sent before."""
        self._say(encoder.PONG)
        if self.is_connected and self.connect.protocol >= 1 and not self._is_info_sent:
            self._is_info_sent = True
            self.on_pong()
            self.send_info(is_connect_info=True)

    def on_pong(self) -> None:
        """The client is alive."""
        self.pings_out = 0
        if sent := self._ping_sent:
            self.rtt, self._ping_sent = max(self.hub.clock.monotonic() - sent, 1), 0

    def ping(self) -> None:
        """Ask whether the client is alive."""
        self.pings_out += 1
        self._ping_sent = self.hub.clock.monotonic()
        self._say(encoder.PING)

    def send_info(self, *, is_connect_info: bool = False) -> None:
        """Send an INFO after the first one."""
        info: Info = info_of(self.hub, self)
        if is_connect_info:
            info.connect_info = True
            info.remote_account = self.account.name
        self._say(encoder.info(encode_info(info)))

    def use_limits(self) -> None:
        """Take over the hub's limits, which have changed."""
        self._parser.max_payload = self.hub.limits.max_payload
        self._parser.max_control_line = self.hub.limits.max_control_line

    def tell_lame_duck(self) -> None:
        """Tell a client that understands it to go elsewhere; `hub.ldm` is set."""
        if self.is_connected and self.connect.protocol >= 1:
            self.send_info()

    def _say_ok(self) -> None:
        if self.connect.verbose:
            self._say(encoder.OK)

    def _say(self, line: bytes) -> None:
        if self.closed:
            return
        if not self.out:
            self._dirty.append(self)
        self.out.append(line)
