"""One WebSocket connection: reads frames, carries them out, and writes frames.

One task reads, another writes. The writer takes messages from the feeds only when the socket can
accept data. So for a slow client at most 64 KiB of feed messages wait in addition to the socket's
buffer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial

from starlette.types import Receive, Scope, Send

from core.client import ClientError
from core.errors import ApiError
from core.runtime.tasks import spawn, stop
from gateway.auth.authenticator import Authenticator
from gateway.auth.caller import Caller
from gateway.auth.credentials import Credentials
from gateway.auth.revocation import RevocationReason
from gateway.consumers.acks import send_acks
from gateway.formats.validation import name
from gateway.http.disconnects import Disconnected
from gateway.http.problems import Problem, problem_of
from gateway.http.websocket_protocol import FRAME_BYTES_MAX, PING_INTERVAL_S, wire
from gateway.monitoring.events import RequestFailed
from gateway.services import Gateway
from gateway.ws import close_codes, frames
from gateway.ws.close_codes import CloseCode
from gateway.ws.codec import Codec
from gateway.ws.frame_requests import ack_payload, feed_class, get_request
from gateway.ws.link import SLICE_BYTES, Feed, Link
from gateway.ws.publishing import RequestSender
from gateway.ws.session import Action, Close, Refusal, Session

_REASON_BYTES_MAX = 123
_UNREAD_BYTES_MAX = 256 * 1024


class ConnectionAuth:
    """Authenticates a WebSocket connection, by its handshake or by the frame `hello`."""

    def __init__(
        self,
        gateway: Gateway,
        authenticator: Authenticator,
        scope: Scope,
        resources: AsyncExitStack,
    ) -> None:
        self.gateway = gateway
        self._authenticator = authenticator
        self._scope = scope
        self._resources = resources

    async def authenticate(
        self, *, ticket: str = "", credentials: Credentials | None = None
    ) -> Caller:
        """Authenticate the caller, and release it when the connection ends.

        Raises Problem if the credentials are refused or the client has disconnected.
        """
        entered = self._authenticator.authenticated(
            self._scope, ticket=ticket, credentials=credentials
        )
        try:
            return await self._resources.enter_async_context(entered)
        except Disconnected:
            raise Problem(
                503, "not-connected", "the client disconnected during authentication"
            ) from None


class Connection(Link):
    """An accepted WebSocket connection; call `serve` once."""

    def __init__(
        self,
        auth: ConnectionAuth,
        codec: Codec,
        receive: Receive,
        send: Send,
        caller: Caller | None,
    ) -> None:
        self.codec = codec
        self.gateway = auth.gateway if caller is None else caller.gateway
        self.caller = caller
        self._auth = auth
        self._receive = receive
        self._send = send
        self._settings = auth.gateway.settings
        self._session = Session(
            codec, needs_hello=caller is None, feeds_max=self._settings.feeds_max
        )
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._ready: dict[Feed, None] = {}
        self._feeds: dict[int, Feed] = {}
        self._drains: dict[Feed, asyncio.Future[None]] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._sender: RequestSender | None = None
        self._unregister_revocation: Callable[[], None] = _ignore
        self._unregister_close: Callable[[], None] = _ignore
        self._end: tuple[CloseCode, str] | None = None
        self._event = asyncio.Event()
        self._room = asyncio.Event()

    # -- the link, as feeds and requests see it -----------------------------------------------

    def put(self, payload: bytes) -> None:
        """Queue an encoded frame; it is written before messages of feeds."""
        self._out.append(wire(payload, is_text=self.codec.is_text))
        self._out_bytes += len(payload)
        self._event.set()

    def ready(self, feed: Feed) -> None:
        """Register that a feed has messages; the writer then calls its `next_frames`."""
        self._ready[feed] = None
        self._event.set()

    def forget(self, feed: Feed) -> None:
        """Remove a feed that has ended from the connection."""
        if self._feeds.get(feed.sid) is feed:
            del self._feeds[feed.sid]
            self._session.end(feed.sid)
        self._ready.pop(feed, None)
        self._drained(feed)

    def close(self, code: CloseCode, reason: str = "") -> None:
        """Write the queued frames, then close the connection with this code; the first call
        decides.
        """
        if self._end is None:
            self._end = code, reason or code.description
            self._event.set()

    # -- reading -----------------------------------------------------------------------------

    async def serve(self) -> None:
        """Serve the connection until the client or the server closes it."""
        writer = spawn(self._write(), name="websocket writer")
        loop = asyncio.get_running_loop()
        hello = None
        try:
            if self._session.needs_hello:
                wait = self._settings.hello_timeout
                hello = loop.call_later(wait, self._no_hello)
            elif self.caller is not None:
                self._welcome(self.caller)
            await self._read()
        finally:
            if hello is not None:
                hello.cancel()
            await self._leave(writer)

    async def _read(self) -> None:
        while True:
            event = await self._receive()
            if event["type"] != "websocket.receive":
                return
            data = event.get("text")
            for action in self._session.receive(event["bytes"] if data is None else data):
                await self._act(action)
            await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        """Pause reading while too many requests are pending or too many responses are unsent."""
        while self._end is None and (
            self._out_bytes > _UNREAD_BYTES_MAX
            or len(self._work) > self._settings.feed_controls_max
            or (
                self._sender is not None
                and self._sender.unanswered > self._settings.feed_unanswered_max
            )
        ):
            self._room.clear()
            await self._room.wait()

    async def _leave(self, writer: "asyncio.Task[None]") -> None:
        self._unregister_revocation()
        self._unregister_close()
        if self._sender is not None:
            self._sender.close()
        await stop(writer, *self._work)
        for feed in list(self._feeds.values()):
            with suppress(ApiError, ClientError):
                await feed.close()
        # Feeds and requests refer to this connection, in reference cycles. Break them, so that its
        # memory is freed at once, and not by a full garbage collection that blocks the event loop.
        self._feeds.clear()
        self._ready.clear()
        self._sender = None
        self._unregister_revocation = self._unregister_close = _ignore

    def _welcome(self, caller: Caller, ident: int | None = None) -> None:
        self.caller = caller
        self.gateway = gateway = caller.gateway
        self._unregister_revocation = caller.on_revoked(self._revoked)
        if not gateway.client.connected:
            self.close(close_codes.LOST)
            return
        self._unregister_close = gateway.client.when_closed(self._lost)
        made = frames.Welcome(
            gateway.client.info.max_payload,
            FRAME_BYTES_MAX,
            self._settings.feeds_max,
            PING_INTERVAL_S,
        )
        if ident is not None:
            made.id = ident
        self.send_frame(made)

    def _no_hello(self) -> None:
        if self._session.needs_hello:
            self.close(close_codes.NO_HELLO)

    def _revoked(self, reason: RevocationReason) -> None:
        if reason is RevocationReason.CLOSED:
            self._lost()
        else:
            self.close(close_codes.REVOKED, str(reason))

    def _lost(self) -> None:
        self.close(close_codes.NOT_LEADING)

    # -- acting ------------------------------------------------------------------------------

    async def _act(self, action: Action) -> None:
        match action:
            case Close(code, reason):
                self.close(code, reason)
            case Refusal(ident, problem):
                self.send_frame(frames.Error(problem.members(), ident))
            case frames.Hello():
                await self._hello(action)
            case frames.Credit(sid):
                if (feed := self._feeds.get(sid)) is not None:
                    feed.granted()
            case frames.Ping(ident):
                self.send_frame(frames.Pong(ident))
            case frames.Subscribe():
                self._later(action.id, partial(self._subscribe, action))
            case frames.Unsubscribe(ident, sid):
                self._later(ident, partial(self._unsubscribe, ident, sid))
            case frames.Drain(ident, sid):
                self._later(ident, partial(self._drain, ident, sid))
            case frames.Get():
                self._later(action.id, partial(self._get, action))
            case frames.Ack() | frames.Nak() | frames.Term() | frames.Progress():
                if action.sync:
                    self._later(action.id, partial(self._ack, action))
                else:
                    await self._guarded(action.id, partial(self._ack, action))
            case _:
                self._ask(action)

    async def _hello(self, frame: frames.Hello) -> None:
        said = Credentials(token=frame.token)
        if not frame.token:
            said = Credentials(frame.user, frame.password)
        try:
            caller = await self._auth.authenticate(credentials=said)
        except Problem as problem:
            is_wrong = problem.status == 401
            code = close_codes.UNAUTHORIZED if is_wrong else close_codes.UNAVAILABLE
            self.close(code, problem.detail)
            return
        await self._send({"type": "websocket.authenticated"})
        self._welcome(caller, frame.id)

    def _ask(self, frame: frames.Publishes | frames.Requests) -> None:
        if self.caller is None:
            return
        sender = self._sender
        if sender is None:
            sender = self._sender = RequestSender(self)
        try:
            if isinstance(frame, frames.Publish | frames.PackedPublish):
                sender.publish(frame)
            else:
                sender.request(frame)
        except (Problem, ClientError) as error:
            self.send_frame(frames.Error(problem_of(error).members(), frame.id))

    def _later(self, ident: int | None, work: Callable[[], Awaitable[None]]) -> None:
        """Run slow work for a frame in a task, so that the next frames do not wait for it."""
        task = spawn(self._guarded(ident, work), name="websocket frame")
        self._work.add(task)
        task.add_done_callback(self._worked)

    def _worked(self, task: "asyncio.Task[None]") -> None:
        self._work.discard(task)
        self._room.set()

    async def _guarded(self, ident: int | None, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self._refuse(ident, error)

    def _refuse(self, ident: int | None, error: Exception) -> None:
        problem = problem_of(error)
        if problem.status == 500:
            self.gateway.report_event(RequestFailed("webSocket", error))
        made = frames.Error(problem.members())
        if ident is not None:
            made.id = ident
        self.send_frame(made)

    async def _subscribe(self, frame: frames.Subscribe) -> None:
        credit = self._session.credits.get(frame.sid)
        if credit is None:
            raise _unsubscribed()
        try:
            feed = feed_class(frame)(self, frame, credit)
            self._feeds[frame.sid] = feed
            said = await feed.open()
        except BaseException:
            self._feeds.pop(frame.sid, None)
            if self._session.credits.get(frame.sid) is credit:
                self._session.end(frame.sid)
            raise
        if self._feeds.get(frame.sid) is not feed:  # unsubscribed during `open`
            await feed.close()
            raise _unsubscribed()
        feed.begin()
        self.send_frame(said)
        feed.granted()
        self.ready(feed)

    async def _unsubscribe(self, ident: int, sid: int) -> None:
        feed = self._feeds.pop(sid, None)
        if feed is not None:
            self._ready.pop(feed, None)
            await feed.close()
        self.send_frame(frames.Done(ident))

    async def _drain(self, ident: int, sid: int | None) -> None:
        chosen = [feed for feed in self._feeds.values() if sid in (None, feed.sid)]
        for feed in chosen:
            await feed.drain()
            if self._feeds.get(feed.sid) is feed:  # else the feed has ended by itself
                written = self._drains[feed] = asyncio.get_running_loop().create_future()
                self.ready(feed)
                await written
                self.forget(feed)
            await feed.close()
        self.send_frame(frames.Done(ident))

    def _drained(self, feed: Feed) -> None:
        written = self._drains.pop(feed, None)
        if written is not None and not written.done():
            written.set_result(None)

    async def _get(self, frame: frames.Get) -> None:
        self.require_replies()
        stream = name(frame.stream, "stream")
        request = get_request(frame, self.gateway)
        found = await self.gateway.js.message(stream, request)
        self.put(self.codec.answer("message", frame.id, self.codec.stored(found)))

    async def _ack(self, frame: frames.Acks) -> None:
        if frame.sync:
            self.require_replies()
        failed = await send_acks(self.gateway, ack_payload(frame), frame.tokens, sync=frame.sync)
        if failed or frame.id is not None:
            made = frames.Acked(len(frame.tokens) - len(failed), failed)
            if frame.id is not None:
                made.id = frame.id
            self.send_frame(made)

    # -- writing -----------------------------------------------------------------------------

    async def _write(self) -> None:
        try:
            while True:
                self._event.clear()
                data = self._next()
                if data:
                    await self._send({"type": "websocket.send", "wire": data})
                    self._room.set()
                elif self._end is not None:
                    code, reason = self._end
                    text = reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")
                    event = {"type": "websocket.close", "code": code.code, "reason": text}
                    await self._send(event)
                    return
                else:
                    await self._event.wait()
        except OSError:  # the client has disconnected
            return
        except Exception as error:
            self.gateway.report_event(RequestFailed("webSocket", error))
            self._out, self._ready, self._end = [], {}, None
            self.close(close_codes.INTERNAL)
            await self._write()
        finally:
            self._room.set()

    def _next(self) -> bytes:
        """Return the bytes to write next: queued frames, then up to 64 KiB of feed messages."""
        parts, self._out, self._out_bytes = self._out, [], 0
        if self._end is not None:
            return b"".join(parts)
        size = 0
        ready = self._ready
        while ready and size < SLICE_BYTES:
            feed = next(iter(ready))
            del ready[feed]
            made = feed.next_frames()
            if made is not None:
                parts.append(made)
                size += len(made)
                ready[feed] = None
            else:
                self._drained(feed)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsubscribed() -> Problem:
    return Problem(409, "unsubscribed", "the feed was unsubscribed before it began")


def _ignore() -> None:
    """Do nothing: stands for a callback that is not registered yet."""
