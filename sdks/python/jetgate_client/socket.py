"""One WebSocket for everything: publishes, requests, reads, feeds and acknowledgements.

It is opened when it is first needed, and opened again when it breaks. Frames are MessagePack, so
that payloads come as they were sent.
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

from jetgate_client.connecting import QUIET_S, Restarted, ending, welcomed
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

_FRAME_MAX = 2 << 20
_TOGETHER_BYTES = 256 * 1024
_MORE_S = 5.0
"""How much longer than the server one waits for its answer."""
_FLUSH_S = 1.0


@dataclass(slots=True)
class _Question:
    """A frame that waits for its answer; `repeats`: over another connection, too."""

    frame: bytes
    repeats: bool
    answer: "asyncio.Future[Frame]"


class Socket:
    """A connection for any number of feeds and questions; `aclose` or `async with` ends it.

    After a break feeds go on behind what they have given; publishes, reads and acknowledgements
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
        """End every feed, and close."""
        self._closed = True
        self._fail(ConnectionLost("the socket was closed"))
        if self._ws is not None:  # what ends feeds, and gives back
            with suppress(ConnectionClosed, TimeoutError):
                async with asyncio.timeout(_FLUSH_S):
                    await self._write(self._ws)
        for task in (self._life, *self._begins):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    # -- what one does with it -----------------------------------------------------------------

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
        """Publish a message, as `Jetgate.publish` does. Raises Problem, OutcomeUnknown."""
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
        """Ask who serves a subject, once, and wait so long. Raises Problem, ConnectionLost."""
        frame: Frame = {"type": "req", "timeout": int(within * 1e9)}
        frame |= _outgoing(subject, payload, headers or {})
        said = (await self._ask(frame, within=within + _MORE_S))["message"]
        return Message("", subject, 0, "", said.get("headers", {}), said["data"])

    async def message(self, stream: str, seq: int) -> Message:
        """The message of a sequence. Raises NotFound."""
        return await self._read(stream, seq=seq)

    async def last_message(self, stream: str, subject: str) -> Message:
        """The last message of a subject. Raises NotFound."""
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
        """The messages of a stream as they are stored, and a Gap where some are missing.

        `begin`: `new`, `all`, `last`, `last_per_subject`, a sequence, or a time in RFC 3339.
        `credit`, `credit_bytes`: how many may wait here to be taken, and with how many bytes of
        subjects, headers and payloads; the last of them may exceed those.
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
        """The messages of a consumer, without end. `credit`, `credit_bytes`: as in `tail`."""
        return Durable(self, Credit(credit, credit_bytes), stream, consumer)

    def listen(
        self,
        subject: str,
        *,
        queue: str = "",
        credit: int = CREDIT,
        credit_bytes: int = CREDIT_BYTES,
    ) -> Core:
        """What is published to a subject from now on, stored or not; what was missed is counted.

        `queue`: of those who listen in a queue each message has one. `credit`, `credit_bytes`: as
        in `tail`, but what is more is dropped.
        """
        return Core(self, Credit(credit, credit_bytes), subject, queue)

    # -- what feeds and deliveries see ---------------------------------------------------------

    def follow(self, feed: Feed[Any]) -> int:
        """Begin a feed, now and after every break; its number."""
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
        """End a feed; it still takes what was on its way to it."""
        sid = self._sids.pop(feed, 0)
        if self._feeds.pop(sid, None) is None or self._ws is None:
            return
        self._leaving[sid] = feed
        try:
            with suppress(JetgateError):  # without a connection nothing is on its way
                await self._ask({"type": "unsub", "sid": sid}, within=QUIET_S)
        finally:
            del self._leaving[sid]

    def send(self, frame: Frame) -> None:
        """Send a frame without an answer, if there is a connection."""
        if self._ws is not None:
            self._put(msgspec.msgpack.encode(frame))

    async def confirm(self, frame: Frame, what: str) -> Frame:
        """Send a frame until it is answered. Raises Problem, OutcomeUnknown."""
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

    # -- questions -----------------------------------------------------------------------------

    async def _ask(self, frame: Frame, *, within: float, repeats: bool = False) -> Frame:
        """Send a frame and wait for its answer. Raises Problem, ConnectionLost."""
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
        """Begin a feed on this connection; whoever opens the next one begins it there."""
        backoff = Backoff(self._transport.retry)
        ws = self._ws
        while self._feeds.get(sid) is feed and self._ws is ws is not None:
            try:
                await self._ask({"type": "sub", "sid": sid, **feed.wanted()}, within=QUIET_S)
                return
            except ConnectionLost as error:
                if self._ws is ws:  # it is there, and answers nothing
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
        """Connect, and again, for as long as somebody waits for something."""
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
        """Read to the end, and raise what it was."""
        self._ws = ws
        self._out.clear()
        for question in self._questions.values():
            self._put(question.frame)
        for sid, feed in self._feeds.items():
            self._begin(sid, feed)
        writing = asyncio.create_task(self._writes(ws))
        try:
            while True:
                self._hear(msgspec.msgpack.decode(await ws.recv(decode=False)))
                backoff.reset()
        except ConnectionClosed as closed:
            raise ending(closed) from closed
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
        """Send what is to be sent, frames that wait together."""
        while self._out:
            parts = [self._out.popleft()]
            size = len(parts[0])
            while self._out and size + len(self._out[0]) < _TOGETHER_BYTES:
                parts.append(self._out.popleft())
                size += len(parts[-1])
            await ws.send(parts[0] if len(parts) == 1 else _array(parts))

    def _hear(self, frame: Frame) -> None:
        kind = frame["type"]
        sid = frame.get("sid", 0)
        feed = self._feeds.get(sid) or self._leaving.get(sid)
        if feed is not None:
            # At once also what begins it: the first messages may have come with it.
            if kind in ("msg", "gap", "dropped", "subscribed"):
                feed.take(frame)
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
        """Give up what may not be sent again."""
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
    """Frames as one array of MessagePack (`array 32`)."""
    return b"\xdd" + len(parts).to_bytes(4, "big") + b"".join(parts)
