"""A leaf node connection to another NATS system, by which that system uses this server's API.

An ordinary client connection does not suffice: the other server refuses a client's messages whose
reply subject begins with `$JS.ACK`, which its mirrors need. It accepts them from a leaf node. It
also sends a leaf node the interest of its clients, so that a consumer of this server delivers only
while its deliver subject has a subscription in the other system.

*Failure.* The leaf reconnects with growing pauses. The known interest is dropped with the
connection.
"""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from core.client.client import RECONNECT_FIRST_S, Client
from core.client.errors import (
    ClientError,
    ConnectionLost,
    RequestTimeout,
    ServerRefused,
    reason_of,
)
from core.client.link import Connector, Link, close_link
from core.client.options import Options, ServerInfo
from core.errors import ProtocolError
from core.protocol.messages import MessageColumns
from core.protocol.routed import Queues
from core.remote.leaf_parser import LeafParser
from core.remote.request_side import STALL_S, Call, Row
from core.runtime.nuid import nuid
from core.runtime.subscribers import Subscribers
from core.runtime.tasks import spawn, stop
from core.subjects.subject import has_wildcard, matches

_ACK = b"$JS.ACK."
_IGNORED_INTEREST = (b"$LDS.", b"$SYS.", b"$JS.API.")


class Leaf:
    """A leaf node connection to another NATS system, whose clients send API requests over it.

    Attributes:
        info: The INFO of the server.
        on_interest: Functions called with the subject of a subscription that begins or ends in the
            other system.
        changed: Called when the leaf has connected, has lost the connection, or has failed to
            connect.
        last_error: Text of the last error; empty if there is none.
        connected: True while the connection is established.
        closed: True once `close` was called.
    """

    def __init__(self, connector: Connector, options: Options) -> None:
        self.info = ServerInfo()
        self.on_interest: list[Callable[[bytes], None]] = []
        self.changed: Subscribers[[]] = Subscribers()
        self.last_error = ""
        self.connected = False
        self.closed = False
        self._connector = connector
        self._options = options
        self._link: Link | None = None
        self._attempt = 0
        self._pings_missed = 0
        self._parser = LeafParser(self)
        self._serving: dict[bytes, Call] = {}
        self._interest: dict[bytes, set[bytes]] = {}
        self._wildcards: set[bytes] = set()
        self._out: list[bytes] = []
        self._ready: asyncio.Future[None] | None = None
        self._pong: asyncio.Future[None] | None = None
        self._ended: asyncio.Event = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background; retry and reconnect until `close` is called."""
        self._task = spawn(self._keep_connected(), name="leaf node")

    async def _keep_connected(self) -> None:
        wait = RECONNECT_FIRST_S
        while not self.closed:
            try:
                await self.open()
                wait = RECONNECT_FIRST_S
                await self._ended.wait()
            except (OSError, ClientError) as error:
                self._failed(reason_of(error))
            await asyncio.sleep(wait)
            wait = min(wait * 2, self._options.reconnect_wait_max)

    def _failed(self, why: str) -> None:
        self.last_error = why
        self.changed()

    async def open(self) -> None:
        """Connect once and wait for the handshake.

        Raises OSError, ClientError or TimeoutError if it does not succeed.
        """
        self._parser = LeafParser(self)
        self._ended = asyncio.Event()
        self._ready = asyncio.get_running_loop().create_future()
        self._attempt += 1
        self._pings_missed = 0
        self.info = ServerInfo()
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                self._link = await self._connector(
                    self._received, partial(self._lost, self._attempt)
                )
                self._send_connect()
                await self._ready
        except BaseException:
            link, self._link = self._link, None
            if link is not None:
                link.abort()
            raise
        finally:
            self._ready = None
        self.connected = True
        self.last_error = ""
        self._write(b"".join(b"LS+ %b\r\n" % subject for subject in self._serving))
        self.changed()

    async def close(self) -> None:
        """Close the connection and do not reconnect."""
        self.closed = True
        await stop(self._task)
        self._flush()
        self.connected = False
        link, self._link = self._link, None
        if link is not None:
            await close_link(link, self._ended)

    async def flush(self, within: float = 5.0) -> None:
        """Send a PING and wait for its PONG, at most `within` seconds.

        The other server has then processed all earlier output. After `pings_out_max` timeouts in a
        row the connection is aborted. Raises ConnectionLost if the connection ends, RequestTimeout
        after `within` seconds.
        """
        if not self.connected:
            raise ConnectionLost
        self._pong = asyncio.get_running_loop().create_future()
        self._write(b"PING\r\n")
        try:
            async with asyncio.timeout(within):
                await self._pong
            self._pings_missed = 0
        except TimeoutError:
            self._pings_missed += 1
            if self._pings_missed >= self._options.pings_out_max and self._link is not None:
                self._link.abort()
            raise RequestTimeout(b"PING", within) from None

    def _lost(self, attempt: int, exc: Exception | None) -> None:
        if attempt != self._attempt:
            return
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(ServerRefused(self.last_error or "closed by the server"))
            return
        self._link = None
        self._interest.clear()
        self._wildcards.clear()
        self._out = []
        if self._pong is not None and not self._pong.done():
            self._pong.set_exception(ConnectionLost())
        if self.connected:
            self.connected = False
            self.changed()
        self._ended.set()

    # -- the side of a bridge ----------------------------------------------------------------

    def serve(self, subject: bytes, call: Call) -> Callable[[], None]:
        """Subscribe to a subject filter in the other system; return a function that unsubscribes.

        `call` gets each message: subject, reply, headers, payload.
        """
        self._serving[subject] = call
        if self.connected:
            self._write(b"LS+ %b\r\n" % subject)
        return partial(self._stop_serving, subject)

    def _stop_serving(self, subject: bytes) -> None:
        del self._serving[subject]
        if self.connected:
            self._write(b"LS- %b\r\n" % subject)

    def has_interest(self, subject: bytes) -> bool:
        """Return whether a subject has a subscription in the other system."""
        return subject in self._interest or any(matches(subject, wild) for wild in self._wildcards)

    def publish(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Send a message to the other system. It is dropped while there is no connection."""
        if self.connected:
            self._write(_message(subject, reply, headers, payload))

    def deliver(self, to: bytes, rows: list[Row]) -> bool:
        """Send messages to the subject `to` in the other system.

        Return False if it has no subscription.

        The messages' own subjects are appended to their ack subjects, after an `@`. A message
        larger than the server's `max_payload` is dropped.
        """
        if self.connected:
            parts = []
            for subject, reply, headers, payload in rows:
                if len(headers) + len(payload) > self.info.max_payload:
                    self.last_error = f"a message on {subject!r} is larger than the server takes"
                    continue  # the server would close the connection
                if subject != to and reply.startswith(_ACK):
                    reply = b"%b@%b" % (reply, subject)
                parts.append(_message(to, reply, headers, payload))
            self._write(b"".join(parts))
        return self.has_interest(to)

    def throttle(self, client: Client) -> None:
        """Pause reading from `client` while the other server reads too slowly."""
        if self._link is not None and self._link.paused:
            client.pause_reading()
            asyncio.get_running_loop().call_later(STALL_S, self._resume_when_ready, client)

    def _resume_when_ready(self, client: Client) -> None:
        if self._link is not None and self._link.paused:
            asyncio.get_running_loop().call_later(STALL_S, self._resume_when_ready, client)
        else:
            client.resume_reading()

    # -- the wire ----------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self._link is not None:
            self._link.write(b"".join(out))

    def _received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
        except ProtocolError as error:
            self.last_error = str(error)
            if self._link is not None:
                self._link.close()

    def _send_connect(self) -> None:
        """Send CONNECT and PING once the first INFO has arrived and the socket can be written to.

        Either may happen first, so this method is called after both. Before that, and after the
        handshake, it does nothing. The credentials may be unreadable: then `open` raises the error.
        """
        ready = self._ready
        if ready is None or ready.done() or self._link is None or not self.info.server_id:
            return
        options, info = self._options, self.info
        fields: dict[str, object] = {"name": options.name, "id": nuid(), "headers": True}
        fields |= {"version": info.version, "jetstream": False, "no_responders": True}
        try:
            fields |= options.credentials(info.nonce)
        except ClientError as error:
            ready.set_exception(error)
            return
        self._link.write(b"CONNECT %b\r\nPING\r\n" % msgspec.json.encode(fields))

    def on_info(self, body: bytes) -> None:
        is_first = not self.info.server_id
        self.info = msgspec.json.decode(body, type=ServerInfo)
        if is_first:
            self._send_connect()

    def on_ping(self) -> None:
        if self._link is not None:
            self._link.write(b"PONG\r\n")

    def on_pong(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)
        elif self._pong is not None and not self._pong.done():
            self._pong.set_result(None)

    def on_err(self, text: bytes) -> None:
        self.last_error = text.decode(errors="replace")
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(ServerRefused(self.last_error))

    def on_message_begun(self) -> None:
        """Do nothing: a message may arrive at any time, so its beginning needs no check."""

    def on_batch(self, account: bytes, batch: MessageColumns) -> None:
        for subject, reply, headers, payload in batch.messages():
            self.on_message(account, subject, reply, (), headers, payload)

    def on_message(
        self,
        account: bytes,
        subject: bytes,
        reply: bytes,
        queues: Queues,
        headers: bytes,
        payload: bytes,
    ) -> None:
        for pattern, call in list(self._serving.items()):
            if matches(subject, pattern):
                call(subject, reply, headers, payload)
                return

    def on_sub(self, subject: bytes, queue: bytes) -> None:
        if subject.startswith(_IGNORED_INTEREST):
            return
        self._interest.setdefault(subject, set()).add(queue)
        if has_wildcard(subject):
            self._wildcards.add(subject)
        for call in self.on_interest:
            call(subject)

    def on_unsub(self, subject: bytes, queue: bytes) -> None:
        queues = self._interest.get(subject)
        if queues is None:
            return
        queues.discard(queue)
        if not queues:
            del self._interest[subject]
            self._wildcards.discard(subject)
        for call in self.on_interest:
            call(subject)


def _message(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    address = b"%b %b" % (subject, reply + b" " if reply else b"")
    if not headers:
        return b"LMSG %b%d\r\n%b\r\n" % (address, len(payload), payload)
    size = len(headers)
    return b"HMSG %b%d %d\r\n%b%b\r\n" % (address, size, size + len(payload), headers, payload)
