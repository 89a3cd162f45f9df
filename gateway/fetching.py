"""Fetching over HTTP: a long poll that gives back what the caller does not take.

A pull request of its own inbox per call. When the caller goes away the interest is withdrawn, and
messages that were on their way are given back (`-NAK`) instead of waiting for their ack wait.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.client import ClientError, Msg, Pull
from core.errors import ApiError
from core.model.consumer import NextRequest
from core.runtime.tasks import spawn, stop
from gateway import rendering
from gateway.call import Call, Disconnected
from gateway.models import FetchRequest
from gateway.problems import Problem, bad_request
from gateway.response_body import ResponseBody
from gateway.responses import JSON, NDJSON, no_content
from gateway.tokens import read_delivery
from gateway.validation import duration

_NANOS = 1_000_000_000
_GRACE_S = 1.0
_SLICE_BYTES = 256 * 1024
_EMPTY = (404, 408)
_GONE = (503, 409)


@dataclass(slots=True)
class Wanted:
    """A fetch with all defaults filled in. `expires` in nanoseconds."""

    stream: str
    consumer: str
    batch: int
    max_bytes: int
    expires: int
    fill: bool


async def fetch_answer(call: Call, stream: str, consumer: str, request: FetchRequest) -> Response:
    """Run a fetch and choose the form of the answer."""
    wanted = _wanted(call, stream, consumer, request)
    poll = Poll(call, wanted)
    if call.accepts(NDJSON):
        return await _streamed(poll)
    messages = await poll.all()
    if not messages:
        return no_content({"Js-Reason": poll.reason()})
    parts = [b'{"messages":[']
    async for piece in _pieces(call, messages):
        parts.append(b",".join(piece))
        parts.append(b",")
    parts[-1] = b"]}"
    headers = {"Js-Pending": str(read_delivery(messages[-1].reply).pending)}
    return _Document(call, messages, b"".join(parts), headers)


def _wanted(call: Call, stream: str, consumer: str, request: FetchRequest) -> Wanted:
    settings = call.gateway.settings
    batch = request.batch or settings.fetch_batch_default
    if batch > settings.fetch_batch_max:
        raise bad_request("bad-parameter", f"batch: more than {settings.fetch_batch_max}")
    expires = int(settings.fetch_expires_default * _NANOS)
    if request.expires is not None:
        expires = duration(request.expires, "expires")
    if expires > settings.fetch_expires_max * _NANOS:
        raise bad_request("bad-parameter", f"expires: more than {settings.fetch_expires_max:g}s")
    if request.no_wait and request.fill:
        raise bad_request("bad-parameter", "no_wait and fill exclude each other")
    if request.no_wait:
        expires = 0
    max_bytes = min(request.max_bytes or settings.fetch_bytes_max, settings.fetch_bytes_max)
    return Wanted(stream, consumer, batch, max_bytes, expires, request.fill and expires > 0)


class Poll:
    """One fetch under way."""

    def __init__(self, call: Call, wanted: Wanted) -> None:
        self.call = call
        self._wanted = wanted
        self._status = 0
        self._text = ""
        self._left = wanted.batch

    def reason(self) -> str:
        """Why the fetch brought nothing."""
        return self._text or "No Messages"

    async def all(self) -> list[Msg]:
        """All messages of the fetch."""
        messages: list[Msg] = []
        try:
            async for some in self.batches():
                messages += some
        except BaseException:
            _give_back(self.call, messages)
            raise
        return messages

    async def batches(self) -> AsyncGenerator[list[Msg], None]:
        """Messages as they come. Raises Problem when the fetch is refused at the start."""
        wanted = self._wanted
        if wanted.fill:
            async for some in self._pull(self._left, wanted.expires, no_wait=False):
                yield some
            return
        async for some in self._pull(self._left, wanted.expires, no_wait=True):
            yield some
        if self._left < wanted.batch or not wanted.expires or self._text != "Requests Pending":
            return
        # Others wait already, and the server does not queue a no-wait request behind them: wait
        # for one message in the ordinary way, then take what else is there.
        async for some in self._pull(1, wanted.expires, no_wait=False):
            yield some
        if 0 < self._left < wanted.batch:
            async for some in self._pull(self._left, 0, no_wait=True):
                yield some

    async def _pull(self, batch: int, expires: int, *, no_wait: bool) -> AsyncIterator[list[Msg]]:
        wanted = self._wanted
        js = self.call.gateway.js
        request = NextRequest(
            batch=batch, expires=expires, no_wait=no_wait, max_bytes=wanted.max_bytes
        )
        pull = js.pull(wanted.stream, wanted.consumer, request)
        watch = spawn(_watch(self.call, pull), name="fetch watch")
        limit = (expires / _NANOS if expires else js.timeout) + _GRACE_S
        try:
            async for some in _arriving(pull, limit):
                self._left -= len(some)
                yield some
        finally:
            await stop(watch)
            await pull.release()
            _give_back(self.call, pull.take())
        if pull.status and self._left == wanted.batch:
            self._status, self._text = pull.status, pull.text
            if pull.status not in _EMPTY:
                raise await _refusal(self.call, wanted, pull)


async def _arriving(pull: Pull, seconds: float) -> AsyncIterator[list[Msg]]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        if pull.interrupted:
            raise Disconnected
        if some := pull.take():
            yield some
        elif pull.ended or not await pull.changed(max(deadline - loop.time(), 0.0)):
            return


async def _watch(call: Call, pull: Pull) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
    pull.interrupt()


def _give_back(call: Call, messages: list[Msg]) -> None:
    replies = [msg.reply for msg in messages if msg.reply]
    if not replies:
        return
    client = call.gateway.client
    for reply in replies:
        try:
            client.publish(reply, b"-NAK")
        except ClientError:
            return  # the ack wait will do it


async def _refusal(call: Call, wanted: Wanted, pull: Pull) -> Problem | ApiError:
    text = pull.text
    if pull.status in _GONE and (pull.status == 503 or "Deleted" in text):
        try:
            await call.gateway.js.call(f"CONSUMER.INFO.{wanted.stream}.{wanted.consumer}")
        except ApiError as error:
            return error
        return Problem(503, "no-responders", "the consumer is not served at the moment")
    if text.startswith("Exceeded MaxWaiting"):
        return Problem(429, "too-many-requests", text, headers={"Retry-After": "1"})
    status = 400 if text.startswith("Exceeded") else pull.status
    return Problem(status if status in (400, 409, 412) else 409, "pull-refused", text)


async def _pieces(call: Call, messages: list[Msg]) -> AsyncIterator[list[bytes]]:
    """Rendered messages, a bounded amount per turn of the loop."""
    tokens = call.gateway.tokens
    piece: list[bytes] = []
    size = 0
    for msg in messages:
        piece.append(rendering.delivered(msg, tokens))
        size += len(msg.payload)
        if size >= _SLICE_BYTES:
            yield piece
            piece, size = [], 0
            await asyncio.sleep(0)
    if piece:
        yield piece


async def _streamed(poll: Poll) -> Response:
    batches = poll.batches()
    first = await anext(batches, None)
    if first is None:
        return no_content({"Js-Reason": poll.reason()})
    return _Lines(poll, first, batches)


class _Document(Response):
    """A JSON response; a caller who does not take all of it can use nothing of it."""

    media_type = JSON

    def __init__(
        self, call: Call, messages: list[Msg], body: bytes, headers: dict[str, str]
    ) -> None:
        super().__init__(body, headers=headers)
        self._call = call
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytes(self.body)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            async with ResponseBody(self._call, send) as out:
                for begin in range(0, len(body), _SLICE_BYTES):
                    await out.send(body[begin : begin + _SLICE_BYTES])
                await out.send(b"")
        except BaseException:
            _give_back(self._call, self._messages)
            raise
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Lines(Response):
    """An NDJSON response whose lines are sent as messages arrive."""

    media_type = NDJSON

    def __init__(
        self, poll: Poll, first: list[Msg], batches: AsyncGenerator[list[Msg], None]
    ) -> None:
        super().__init__(None)
        del self.headers["content-length"]
        self._poll = poll
        self._first = first
        self._batches = batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        some: list[Msg] | None = self._first
        async with aclosing(self._batches), ResponseBody(self._poll.call, send) as out:
            while some is not None:
                await self._send(out, some)
                some = await anext(self._batches, None)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, out: ResponseBody, messages: list[Msg]) -> None:
        """Send lines; those that are not on their way when the caller goes are given back."""
        on_their_way = sent = 0
        try:
            async for piece in _pieces(self._poll.call, messages):
                await out.send(b"\n".join(piece) + b"\n")
                on_their_way, sent = sent, sent + len(piece)
            await out.send(b"")
        except BaseException:
            _give_back(self._poll.call, messages[on_their_way:])
            raise
