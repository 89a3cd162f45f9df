"""One WebSocket for publishes, requests, reads, feeds and acknowledgements.

The WebSocket is opened at first use, and reopened after a lost connection. Frames are MessagePack,
so payloads keep their bytes.
"""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import msgspec
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from jetgate_client.connecting import QUIET_S, Restarted, closing_error, welcomed
from jetgate_client.errors import (
    ConnectionLost,
    JetgateError,
    OutcomeUnknown,
    TooManyRequests,
    is_passing,
    problem_from,
)
from jetgate_client.feeds import CREDIT, CREDIT_BYTES, Core, Credit, Durable, Feed, Frame, Tail
from jetgate_client.payloads import Message, Payload, encoded
from jetgate_client.publishing import Receipt
from jetgate_client.retrying import Backoff
from jetgate_client.transport import Transport
from jetgate_client.units import NANOS_PER_SECOND

_FRAME_MAX = 2 << 20
_TOGETHER_BYTES = 256 * 1024
_MORE_S = 5.0
"""Seconds to wait for an answer in addition to the server's own timeout."""
_FLUSH_S = 1.0


@dataclass(slots=True)
class _Question:
    """A frame that waits for its answer; `repeats`: it is sent again after a reconnect."""

    frame: bytes
    repeats: bool
    answer: "asyncio.Future[Frame]"


class Socket:
    """A WebSocket for any number of feeds and requests; `aclose` or `async with` ends it.

    After a reconnect, feeds resume after their last item. Publishes, reads and acknowledgements
    without an answer are sent again.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._numbers = count(1)
        self._questions: dict[int, _Question] = {}
        self._feeds: dict[int, Feed[Any]] = {}
        self._sids: dict[Feed[Any], int] = {}
        self._leaving: dict[int, Feed[Any]] = {}
        self._out: deque[bytes] = deque()
        self._written = asyncio.Event()
        self._ws: ClientConnection | None = None
        self._frame_max = _FRAME_MAX
        self._life: asyncio.Task[None] | None = None
        self._begins: set[asyncio.Task[None]] = set()
        self._trouble = "connected"
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End every feed and request, and close the connection."""
        self._closed = True
        self._fail(ConnectionLost("the socket was closed"))
        if self._ws is not None:  # flushes the frames that end feeds and nak messages
            with suppress(ConnectionClosed, TimeoutError):
                async with asyncio.timeout(_FLUSH_S):
                    await self._write(self._ws)
        for task in (self._life, *self._begins):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    # -- the public interface ------------------------------------------------------------------

    async def publish(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: dict[str, str] | None = None,
        msg_id: str = "",
        last_seq: int | None = None,
        ttl: str = "",
    ) -> Receipt:
        """Publish a message to a stream, with the arguments of `Jetgate.publish`.

        Raises Problem if the server refuses, OutcomeUnknown without an answer within the limit of
        retries.
        """
        msg_id = msg_id or str(uuid4())
        lifetime = {"Nats-TTL": ttl} if ttl else {}
        frame: Frame = {"type": "pub", "msg_id": msg_id}
        frame |= _outgoing(subject, payload, {**(headers or {}), **lifetime})
        if last_seq is not None:
            frame["expect"] = {"last_subject_seq": last_seq}
        said = await self.confirm(frame, msg_id)
        duplicate = said.get("duplicate", False)
        return Receipt(
            said["stream"], said["seq"], duplicate, said.get("domain", ""), said.get("val", "")
        )

    async def request(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: dict[str, str] | None = None,
        within: float = 5.0,
    ) -> Message:
        """Send a request to a service once, and return the answer.

        Raises Problem if the server refuses or no service answers for `within` seconds,
        ConnectionLost if the connection is lost.
        """
        frame: Frame = {"type": "req", "timeout": int(within * NANOS_PER_SECOND)}
        frame |= _outgoing(subject, payload, headers or {})
        said = (await self._ask(frame, within=within + _MORE_S))["message"]
        return Message("", subject, 0, "", said.get("headers", {}), said["data"])

    async def message(self, stream: str, seq: int) -> Message:
        """Return the message of a stream with this sequence. Raises NotFound if there is none."""
        return await self._read(stream, seq=seq)

    async def last_message(self, stream: str, subject: str) -> Message:
        """Return the last message of a subject in a stream. Raises NotFound if there is none."""
        return await self._read(stream, last_by=subject)

    async def _read(self, stream: str, **which: Any) -> Message:
        frame = {"type": "get", "stream": stream, **which}
        said = (await self._ask(frame, within=self._transport.retry.writes_for, repeats=True))[
            "message"
        ]
        headers = said.get("headers", {})
        return Message(stream, said["subject"], said["seq"], said["time"], headers, said["data"])

    def tail(
        self,
        stream: str,
        *,
        subject: str = "",
        begin: str = "new",
        credit: int = CREDIT,
        credit_bytes: int = CREDIT_BYTES,
    ) -> Tail:
        """Return a feed of a stream's messages as they are stored, with a Gap for missing ones.

        Args:
            stream: The name of the stream.
            subject: Subject filter; "" for all subjects.
            begin: The start: `new`, `all`, `last`, `last_per_subject`, a sequence, or a time in RFC
                3339.
            credit: Maximum number of messages that wait in the client.
            credit_bytes: Maximum bytes of their subjects, headers and payloads; the last message
                may exceed it.
        """
        return Tail(self, Credit(credit, credit_bytes), stream, subject, begin)

    def consume(
        self,
        stream: str,
        consumer: str,
        *,
        credit: int = CREDIT,
        credit_bytes: int = CREDIT_BYTES,
    ) -> Durable:
        """Return an endless feed of a consumer's messages; `credit` and `credit_bytes` as in
        `tail`.
        """
        return Durable(self, Credit(credit, credit_bytes), stream, consumer)

    def listen(
        self,
        subject: str,
        *,
        queue: str = "",
        credit: int = CREDIT,
        credit_bytes: int = CREDIT_BYTES,
    ) -> Core:
        """Return a feed of the messages published to a subject from now on, stored or not.

        With `queue`, each message goes to one member of the queue group. `credit` and
        `credit_bytes` are as in `tail`, but messages beyond them are dropped; the feed yields their
        number.
        """
        return Core(self, Credit(credit, credit_bytes), subject, queue)

    # -- the interface `Line` ------------------------------------------------------------------

    def follow(self, feed: Feed[Any]) -> int:
        """Start a feed, now and after every reconnect. Returns the feed's number; 0 if closed."""
        if self._closed:
            feed.fail(ConnectionLost("the socket was closed"))
            return 0
        sid = next(self._numbers)
        self._feeds[sid], self._sids[feed] = feed, sid
        if self._ws is not None:
            self._begin(sid, feed)
        self._live()
        return sid

    async def leave(self, feed: Feed[Any]) -> None:
        """End a feed. Until the server confirms, the feed still receives messages."""
        sid = self._sids.pop(feed, 0)
        if self._feeds.pop(sid, None) is None or self._ws is None:
            return
        self._leaving[sid] = feed
        try:
            with suppress(JetgateError):  # without a connection no message is under way
                await self._ask({"type": "unsub", "sid": sid}, within=QUIET_S)
        finally:
            del self._leaving[sid]

    def send(self, frame: Frame) -> None:
        """Send a frame without an answer; drop it if there is no connection."""
        if self._ws is not None:
            self._put(msgspec.msgpack.encode(frame))

    async def confirm(self, frame: Frame, what: str) -> Frame:
        """Send a frame, and send it again after a reconnect, until it is answered; return the
        answer.

        Raises Problem if the server refuses, OutcomeUnknown (with the id `what`) without an answer
        within the limit of retries.
        """
        retry = self._transport.retry
        backoff = Backoff(retry)
        until = retry.deadline()
        unknown = False
        while True:
            left = until - asyncio.get_running_loop().time()
            try:
                return await self._ask(frame, within=max(left, 0.0), repeats=True)
            except JetgateError as error:
                if self._closed or not is_passing(error):
                    raise
                unknown = unknown or not isinstance(error, TooManyRequests)
                if not await backoff.wait(error, until=until):
                    if unknown:
                        raise OutcomeUnknown(what) from error
                    raise

    # -- requests ------------------------------------------------------------------------------

    async def _ask(self, frame: Frame, *, within: float, repeats: bool = False) -> Frame:
        """Send a frame and wait for its answer, for at most `within` seconds.

        Raises Problem if the server refuses, ConnectionLost without an answer. `repeats`: send the
        frame again after a reconnect.
        """
        if self._closed:
            raise ConnectionLost("the socket was closed")
        ident = next(self._numbers)
        packed = msgspec.msgpack.encode({**frame, "id": ident})
        if len(packed) > self._frame_max:
            raise problem_from(
                {"status": 413, "type": "body-too-large", "detail": f"over {self._frame_max} bytes"}
            )
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._questions[ident] = _Question(packed, repeats, answer)
        if self._ws is not None:
            self._put(packed)
        self._live()
        try:
            async with asyncio.timeout(within):
                return await answer
        except TimeoutError:
            raise ConnectionLost(f"no answer in time; {self._trouble}") from None
        finally:
            self._questions.pop(ident, None)

    def _put(self, packed: bytes) -> None:
        self._out.append(packed)
        self._written.set()

    def _begin(self, sid: int, feed: Feed[Any]) -> None:
        task = asyncio.create_task(self._begins_feed(sid, feed))
        self._begins.add(task)
        task.add_done_callback(self._begins.discard)

    async def _begins_feed(self, sid: int, feed: Feed[Any]) -> None:
        """Start a feed on the current connection.

        After a reconnect, another task starts it again.
        """
        backoff = Backoff(self._transport.retry)
        ws = self._ws
        while self._feeds.get(sid) is feed and self._ws is ws is not None:
            try:
                await self._ask({"type": "sub", "sid": sid, **feed.wanted()}, within=QUIET_S)
                return
            except ConnectionLost as error:
                if self._ws is ws:  # the connection is open, but unresponsive
                    await ws.close(1001, str(error))
                return
            except JetgateError as error:
                if not is_passing(error):
                    self._feeds.pop(sid, None)
                    feed.fail(error)
                    return
                await backoff.wait(error)

    # -- the connection ------------------------------------------------------------------------

    def _live(self) -> None:
        if self._life is None or self._life.done():
            self._life = asyncio.create_task(self._lives())

    async def _lives(self) -> None:
        """Connect, and reconnect, while there are feeds or pending requests."""
        backoff = Backoff(self._transport.retry)
        while self._feeds or self._questions:
            try:
                ws, self._frame_max = await welcomed(self._transport)
                self._trouble = "connected"
                async with ws:
                    await self._serve(ws, backoff)
            except JetgateError as error:
                if not is_passing(error):
                    self._fail(error)
                    return
                self._trouble = f"not connected: {error}"
                self._lose()
                if not isinstance(error, Restarted):
                    await backoff.wait(error)

    async def _serve(self, ws: ClientConnection, backoff: Backoff) -> None:
        """Process frames until the connection closes, then raise the reason."""
        self._ws = ws
        self._out.clear()
        for question in self._questions.values():
            self._put(question.frame)
        for sid, feed in self._feeds.items():
            self._begin(sid, feed)
        writing = asyncio.create_task(self._writes(ws))
        try:
            while True:
                self._receive(msgspec.msgpack.decode(await ws.recv(decode=False)))
                backoff.reset()
        except ConnectionClosed as closed:
            raise closing_error(closed) from closed
        finally:
            self._ws = None
            writing.cancel()
            with suppress(asyncio.CancelledError, ConnectionClosed):
                await writing

    async def _writes(self, ws: ClientConnection) -> None:
        while True:
            self._written.clear()
            await self._write(ws)
            await self._written.wait()

    async def _write(self, ws: ClientConnection) -> None:
        """Send the waiting frames, several in one WebSocket message."""
        while self._out:
            parts = [self._out.popleft()]
            size = len(parts[0])
            while self._out and size + len(self._out[0]) < _TOGETHER_BYTES:
                parts.append(self._out.popleft())
                size += len(parts[-1])
            await ws.send(parts[0] if len(parts) == 1 else _array(parts))

    def _receive(self, frame: Frame) -> None:
        kind = frame["type"]
        sid = frame.get("sid", 0)
        feed = self._feeds.get(sid) or self._leaving.get(sid)
        if feed is not None:
            # `subscribed` is handled at once too: the first messages may follow it immediately.
            if kind in ("msg", "gap", "dropped", "subscribed"):
                feed.receive(frame)
            elif kind == "ended":
                self._feeds.pop(sid, None)
                feed.fail(problem_from(frame["problem"]))
        question = self._questions.get(frame.get("id", 0))
        if question is None or question.answer.done():
            return
        if kind == "error":
            question.answer.set_exception(problem_from(frame["problem"]))
        else:
            question.answer.set_result(frame)

    def _lose(self) -> None:
        """Fail the requests that may not be sent again."""
        for question in self._questions.values():
            if not question.repeats and not question.answer.done():
                lost = ConnectionLost("the connection broke before the answer")
                question.answer.set_exception(lost)

    def _fail(self, error: JetgateError) -> None:
        for question in self._questions.values():
            if not question.answer.done():
                question.answer.set_exception(error)
        for feed in list(self._feeds.values()):
            feed.fail(error)
        self._feeds.clear()


def _outgoing(subject: str, payload: Payload, headers: dict[str, str]) -> Frame:
    content, media_type = encoded(payload)
    said = {"Content-Type": media_type, **headers} if media_type else headers
    return {"subject": subject, "data": content, **({"headers": said} if said else {})}


def _array(parts: list[bytes]) -> bytes:
    """Encode frames as one MessagePack array (`array 32`)."""
    return b"\xdd" + len(parts).to_bytes(4, "big") + b"".join(parts)
