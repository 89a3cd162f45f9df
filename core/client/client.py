"""A client connection to a NATS server.

*Concurrency*: one event loop. The messages of one socket read are passed to each subscription as
one list. The output of one pass of the event loop is sent with one `write`.

*Life cycle*: `connect` returns when the server has accepted CONNECT; `close` (or `drain`) ends it.

*Failure*: when the connection is lost, pending requests fail with `ConnectionLost`. The client
reconnects with growing pauses and restores its subscriptions. A publish without a connection raises
`ConnectionLost`.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from core.client.errors import (
    ClientError,
    ConnectionLost,
    NoResponders,
    NotPermitted,
    PayloadTooLarge,
    RequestTimeout,
    ServerRefused,
    reason_of,
)
from core.client.lines import publish_run
from core.client.link import Connector, Link, close_link
from core.client.msg import Msg, status_of
from core.client.options import Options, ServerInfo
from core.client.replies import FORBIDDEN, Replies, ReplyBatch
from core.errors import ProtocolError
from core.protocol import encoder
from core.protocol.client_parser import ClientParser
from core.runtime.nuid import nuid
from core.runtime.subscribers import Subscribers
from core.runtime.tasks import spawn, stop

OnBatch = Callable[[list[Msg]], None]

_MUX_SID = b"1"
_DENIED = re.compile(
    r'Permissions Violation for (Subscription|Publish) to "([^"]*)"', re.IGNORECASE
)
RECONNECT_FIRST_S = 0.05
"""Pause after the first failed reconnect, in seconds; it doubles with each further one."""


def _ignore() -> None:
    """Do nothing: the default callback of `Watch`."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The callbacks of a subscription for events other than messages.

    Attributes:
        on_end: Called when the client is closed: no more messages arrive.
        on_restored: Called when the subscription is restored after a lost connection. Messages sent
            meanwhile are lost.
        asked: Subject of the request whose replies the subscription receives; empty: none.
        on_asking_denied: Called when the server refuses that request for lack of permission.
    """

    on_end: Callable[[], None] = _ignore
    on_restored: Callable[[], None] = _ignore
    asked: bytes = b""
    on_asking_denied: Callable[[], None] = _ignore


_UNWATCHED = Watch()


class Subscription:
    """A subscription of a client.

    Attributes:
        sid: Its id in the protocol.
        subject: The subject filter.
        queue: The queue group; b"": none.
        on_batch: Called with all messages of one socket read.
        watch: Callbacks for other events.
        gathered: Messages of the current read, not passed to `on_batch` yet.
        denied: True if the server has refused the subscription; known after a `flush`.
    """

    __slots__ = (
        "_client",
        "denied",
        "gathered",
        "on_batch",
        "queue",
        "sid",
        "subject",
        "watch",
    )

    def __init__(
        self,
        client: "Client",
        sid: bytes,
        subject: bytes,
        queue: bytes,
        on_batch: OnBatch,
        watch: Watch,
    ) -> None:
        self._client = client
        self.sid = sid
        self.subject = subject
        self.queue = queue
        self.on_batch = on_batch
        self.watch = watch
        self.gathered: list[Msg] = []
        self.denied = False

    def unsubscribe(self) -> None:
        """End the subscription at once; messages that arrive later are dropped."""
        self._client.unsubscribe(self)

    def detach(self) -> None:
        """Drop the callbacks, which refer to the owner of the subscription.

        The reference cycle would otherwise be freed only by a full garbage collection, which blocks
        the process.
        """
        self.on_batch = _drop
        self.watch = _UNWATCHED


class Client:
    """A connection to a NATS server; created by `connect`, ended by `close` or `drain`.

    Attributes:
        info: The last INFO of the server.
        options: The connection settings.
        last_error: Text of the last -ERR or failure; empty after a successful connect.
        closed: True once `close` was called.
    """

    def __init__(self, connector: Connector, options: Options) -> None:
        self.info = ServerInfo()
        self.options = options
        self.last_error = ""
        self.closed = False
        self.changed: Subscribers[[]] = Subscribers()
        """Called when the client has connected, lost the connection, or failed to connect."""
        self.connected = False
        """True while there is a connection."""
        self._on_close: set[Callable[[], None]] = set()
        self._up_or_closed = asyncio.Event()
        self._connector = connector
        self._link: Link | None = None
        self._ended = asyncio.Event()
        self._attempt = 0
        self._has_info = False
        self._parser = ClientParser(self)
        self._replies = Replies()
        self._subs: dict[bytes, Subscription] = {}
        self._subs_with_messages: list[Subscription] = []
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._pings_out = 0
        self._next_sid = int(_MUX_SID)
        self._out: list[bytes] = []
        self._handshake: asyncio.Future[None] | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._ping_timer: asyncio.TimerHandle | None = None

    # -- sending -----------------------------------------------------------------------------

    async def wait_connected(self) -> None:
        """Wait until there is a connection. Raises ConnectionLost if the client is closed."""
        await self._up_or_closed.wait()
        if not self.connected:
            raise ConnectionLost

    def when_closed(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` when the client is closed. Returns a function that cancels this."""
        self._on_close.add(call)
        return lambda: self._on_close.discard(call)

    def pause_reading(self) -> None:
        """Stop reading from the connection until `resume_reading` or a reconnect."""
        if self._link is not None:
            self._link.pause_reading()

    def resume_reading(self) -> None:
        """Read from the connection again after `pause_reading`."""
        if self._link is not None:
            self._link.resume_reading()

    @property
    def paused(self) -> bool:
        """True while the server reads more slowly than this client writes."""
        return self._link is not None and self._link.paused

    @property
    def inbox_prefix(self) -> bytes:
        """The prefix of the reply subjects of this client's requests, with a final dot."""
        return self._replies.prefix

    def publish(
        self, subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b""
    ) -> None:
        """Publish one message.

        Raises NotPermitted if the client knows that it lacks the permission, or ConnectionLost
        while there is no connection.
        """
        self.check(subject, headers)
        self.write(encoder.publish(subject, reply, headers, payload))

    def check(self, subject: bytes, headers: bytes = b"") -> None:
        """Check that the client may publish a message with this subject and these headers.

        Raises NotPermitted if the client's known permissions exclude it (`Options.may_publish`).
        """
        if (error := self._refusal(subject, headers)) is not None:
            raise error

    def _refusal(self, subject: bytes, headers: bytes) -> NotPermitted | None:
        options = self.options
        if options.may_publish is not None and not options.may_publish(subject):
            return NotPermitted(subject)
        if headers and options.lacking is not None:
            return options.lacking(subject, headers)
        return None

    def write(self, data: bytes) -> None:
        """Send protocol bytes, joined with other output of the same pass of the event loop.

        Raises ConnectionLost while there is no connection.
        """
        if not self.connected:
            raise ConnectionLost
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush_out)
        self._out.append(data)

    async def request(
        self, subject: bytes, payload: bytes = b"", *, headers: bytes = b"", within: float = 5.0
    ) -> Msg:
        """Send a request and return the first reply; `within` is the timeout in seconds.

        Raises:
            NotPermitted: The client lacks the permission to publish to the subject.
            NoResponders: The subject has no subscription.
            PayloadTooLarge: Headers and payload exceed the server's `max_payload`.
            RequestTimeout: No reply arrived in time.
            ConnectionLost: There is no connection, or it was lost before the reply.
        """
        self.check(subject, headers)
        if (size := len(headers) + len(payload)) > self.info.max_payload:
            raise PayloadTooLarge(size, self.info.max_payload)
        token, future = self._replies.expect(subject, within)
        try:
            self.write(encoder.publish(subject, self._replies.prefix + token, headers, payload))
            msg = await future
        finally:
            self._replies.forget(token)
        if msg.headers and not msg.payload and status_of(msg.headers)[0] == 503:
            raise NoResponders(subject)
        return msg

    def request_many(
        self,
        subjects: Sequence[bytes],
        payloads: Sequence[bytes],
        headers: Sequence[bytes] | None = None,
    ) -> ReplyBatch:
        """Send requests in one buffer; return the object that collects their replies.

        A request without permission to publish gets status 403 in place of a reply.

        Args:
            subjects: The subject of each request.
            payloads: The payload of each request.
            headers: A complete header block, or empty bytes, for each request; None: no headers.

        Returns:
            The replies; the future `done` is set when all have arrived.

        Raises:
            ConnectionLost: There is no connection.
        """
        head, batch = self._replies.expect_batch(subjects)
        reply = b"%s%s-" % (self._replies.prefix, head)
        try:
            self.write(publish_run(subjects, payloads, headers, reply))
        except ConnectionLost:
            self._replies.forget(head)
            raise
        forget = self._replies.forget
        batch.done.add_done_callback(lambda _: forget(head))
        if self.options.may_publish is not None:
            for index, subject in enumerate(subjects):
                error = self._refusal(subject, headers[index] if headers else b"")
                if error is not None:
                    if error.wanted_by:
                        batch.refused[index] = error
                    batch.put(index, FORBIDDEN, b"")
        return batch

    def subscribe(
        self, subject: bytes, on_batch: OnBatch, *, queue: bytes = b"", watch: Watch = _UNWATCHED
    ) -> Subscription:
        """Subscribe to a subject; `on_batch` is called with the messages of each socket read.

        `queue` is the queue group (b"": none). Raises ConnectionLost while there is no connection.
        """
        self._next_sid += 1
        sub = Subscription(self, b"%d" % self._next_sid, subject, queue, on_batch, watch)
        self.write(encoder.subscribe(sub.subject, sub.queue, sub.sid))
        self._subs[sub.sid] = sub
        return sub

    def unsubscribe(self, sub: Subscription) -> None:
        """End a subscription at once; messages that arrive later are dropped."""
        if self._subs.pop(sub.sid, None) is not None and self.connected:
            self.write(encoder.unsubscribe(sub.sid))
        sub.detach()

    async def drain_subscription(self, sub: Subscription) -> None:
        """End a subscription, and return when the messages sent before have arrived."""
        if sub.sid not in self._subs:
            return
        try:
            self.write(encoder.unsubscribe(sub.sid))
            await self.flush()
        except ClientError:
            pass  # the connection is lost: no message is in flight
        finally:
            self._subs.pop(sub.sid, None)
            sub.detach()

    def new_inbox(self) -> bytes:
        """Return a unique subject for a subscription to replies."""
        return self._replies.base + nuid().encode()

    async def flush(self, within: float = 5.0) -> None:
        """Wait until the server has processed all earlier output (PING and PONG).

        Raises RequestTimeout after `within` seconds, or ConnectionLost if the connection is lost.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.write(encoder.PING)
        self._pongs.append(future)
        try:
            async with asyncio.timeout(within):
                await future
        except TimeoutError:
            raise RequestTimeout(b"PING", within) from None

    async def drain(self) -> None:
        """Unsubscribe, wait for the messages sent before, and close the connection."""
        for sub in list(self._subs.values()):
            self.write(encoder.unsubscribe(sub.sid))
        if self.connected:
            await self.flush()
        await self.close()

    async def close(self) -> None:
        """Close the connection and do not reconnect; pending requests fail with ConnectionLost."""
        self.closed = True
        self._up_or_closed.set()
        await stop(self._reconnecting)
        self._flush_out()
        self._disconnected()
        for sub in list(self._subs.values()):
            sub.watch.on_end()
        told, self._on_close = self._on_close, set()
        for call in told:
            call()
        link, self._link = self._link, None
        if link is not None:
            await close_link(link, self._ended)

    # -- receiving: the sink of the parser ---------------------------------------------------

    def on_msg(
        self, subject: bytes, sid: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        if sid == _MUX_SID:
            self._replies.on_reply(subject, headers, payload)
            return
        sub = self._subs.get(sid)
        if sub is not None:
            if not sub.gathered:
                self._subs_with_messages.append(sub)
            sub.gathered.append(Msg(subject, reply, headers, payload))

    def on_info(self, body: bytes) -> None:
        self.info = msgspec.json.decode(body, type=ServerInfo)
        self._has_info = True
        self._send_connect()

    def _send_connect(self) -> None:
        """Answer the first INFO with CONNECT and PING."""
        # INFO may arrive before the connector has returned the link. After the handshake the
        # server sends another INFO, maybe in the same read as the PONG.
        handshake = self._handshake
        if handshake is None or handshake.done():
            return
        if self._has_info and self._link is not None:
            self._has_info = False
            try:
                line = self._connect_line()
            except ClientError as error:
                handshake.set_exception(error)
            else:
                self._link.write(line + encoder.PING)

    def on_ping(self) -> None:
        if self._link is not None:
            self._link.write(encoder.PONG)

    def on_pong(self) -> None:
        if self._handshake is not None:
            if not self._handshake.done():
                self._handshake.set_result(None)
            return
        if self._pongs:
            waiting = self._pongs.popleft()
            if waiting is None:
                self._pings_out -= 1
            elif not waiting.done():
                waiting.set_result(None)

    def on_ok(self) -> None:
        """Ignore +OK: the server sends it only to verbose clients."""

    def on_err(self, text: bytes) -> None:
        self.last_error = text.decode(errors="replace").strip().strip("'")
        if self._handshake is not None and not self._handshake.done():
            self._handshake.set_exception(ServerRefused(self.last_error))
        if (found := _DENIED.match(self.last_error)) is not None:
            self._denied(found[2].encode(), is_publish=found[1].lower() == "publish")

    def _denied(self, subject: bytes, *, is_publish: bool) -> None:
        """Fail the requests that the server has refused for lack of permission."""
        if is_publish:
            self._replies.deny(subject)
        for sub in list(self._subs.values()):
            if not is_publish:
                sub.denied = sub.denied or sub.subject == subject
            elif sub.watch.asked == subject:
                sub.watch.on_asking_denied()

    # -- the link ----------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background; retry until it succeeds or the client is closed."""
        self._reconnecting = spawn(self._reconnect(), name="client connect")

    async def open(self) -> None:
        """Make one attempt to connect and authenticate.

        Raises OSError if the connection cannot be opened, ServerRefused if the server answers with
        -ERR, ConnectionLost if it closes the connection, or TimeoutError.
        """
        loop = asyncio.get_running_loop()
        self._parser = ClientParser(self)
        self._handshake = loop.create_future()
        try:
            async with asyncio.timeout(self.options.connect_timeout):
                self._attempt += 1
                closed = partial(self._lost, self._attempt)
                self._has_info = False
                self._ended.clear()
                self._link = await self._connector(self._received, closed)
                self._send_connect()
                await self._handshake
        except BaseException:
            link, self._link = self._link, None
            if link is not None:
                link.abort()
            raise
        finally:
            self._handshake = None
        self.connected = True
        self._up_or_closed.set()
        self.last_error = ""
        if self.options.inbox is not None:
            self._replies.use_base(self.options.inbox())
        subs = [encoder.subscribe(self._replies.prefix + b"*", b"", _MUX_SID)]
        subs += [encoder.subscribe(sub.subject, sub.queue, sub.sid) for sub in self._subs.values()]
        self.write(b"".join(subs))
        self._ping_timer = loop.call_later(self.options.ping_interval, self._ping)
        self.changed()
        for sub in list(self._subs.values()):
            sub.watch.on_restored()

    def _received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
        except ProtocolError as error:
            self.last_error = str(error)
            if self._link is not None:
                self._link.close()
        finally:
            subs = self._subs_with_messages
            if subs:
                self._subs_with_messages = []
                for sub in subs:
                    gathered, sub.gathered = sub.gathered, []
                    sub.on_batch(gathered)

    def _flush_out(self) -> None:
        out = self._out
        if out and self._link is not None:
            self._link.write(out[0] if len(out) == 1 else b"".join(out))
        self._out = []

    def _lost(self, attempt: int, exc: Exception | None) -> None:
        if attempt != self._attempt:
            return  # an earlier link, already replaced
        self._ended.set()
        if self._handshake is not None and not self._handshake.done():
            self._handshake.set_exception(ConnectionLost())
            return
        if not self.connected:
            return
        self._link = None
        self._disconnected()
        self.changed()
        if not self.closed:
            self._reconnecting = spawn(self._reconnect(), name="client reconnect")

    def _disconnected(self) -> None:
        self.connected = False
        if not self.closed:
            self._up_or_closed.clear()
        self._out = []
        self._pings_out = 0
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        self._replies.fail_all()
        pongs, self._pongs = self._pongs, deque()
        for waiting in pongs:
            if waiting is not None and not waiting.done():
                waiting.set_exception(ConnectionLost())

    async def _reconnect(self) -> None:
        wait = RECONNECT_FIRST_S
        while not self.closed:
            try:
                await self.open()
                return
            except (OSError, ClientError) as error:
                self.last_error = reason_of(error)
                self.changed()
                await asyncio.sleep(wait)
                wait = min(wait * 2, self.options.reconnect_wait_max)

    def _ping(self) -> None:
        if self._pings_out >= self.options.pings_out_max and self._link is not None:
            self._link.abort()
            return
        self._pings_out += 1
        self._pongs.append(None)
        self.write(encoder.PING)
        loop = asyncio.get_running_loop()
        self._ping_timer = loop.call_later(self.options.ping_interval, self._ping)

    def _connect_line(self) -> bytes:
        options = self.options
        fields: dict[str, object] = {
            "verbose": False,
            "pedantic": False,
            "headers": True,
            "no_responders": True,
            "echo": True,
            "protocol": 1,
            "lang": "python",
            "version": "0.1.0",
            "name": options.name,
        }
        fields |= options.credentials(self.info.nonce)
        return encoder.connect(msgspec.json.encode(fields))


def _drop(batch: list[Msg]) -> None:
    """Drop the messages of an ended subscription."""


async def connect(connector: Connector, options: Options | None = None) -> Client:
    """Return a client that is connected and authenticated, after one attempt.

    Raises OSError if the connection cannot be opened, ServerRefused if the server answers with
    -ERR, ConnectionLost if it closes the connection, or TimeoutError.
    """
    client = Client(connector, options or Options())
    await client.open()
    return client
