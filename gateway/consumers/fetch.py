"""Fetches of a consumer's messages over HTTP, by pull requests that wait for messages.

Each fetch has its own inbox. If the client disconnects, the inbox is unsubscribed, which ends the
pull request. Messages that the client has not received are returned to the consumer with `-NAK`. So
they are redelivered at once, not after the ack wait.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.client import ClientError, Msg, Pull, header_items
from core.client.subscribe import JsMsg
from core.errors import ApiError
from core.model.consumer import NextRequest
from core.units import NANOS_PER_SECOND
from gateway.formats import rendering
from gateway.formats.models import Fetching, FetchRequest, Place
from gateway.formats.raw_messages import INERT, Origin, shown_headers
from gateway.formats.validation import duration
from gateway.http.problems import RETRY, Problem, bad_request
from gateway.http.responses import JSON, NDJSON, no_content
from gateway.requests.call import Call
from gateway.requests.replies import interrupted_on_disconnect, message_batches
from gateway.requests.response_body import ResponseBody

_GRACE_S = 1.0
_SLICE_BYTES = 256 * 1024
_EMPTY = (404, 408)
_GONE = (503, 409)
_PIN = b"Nats-Pin-Id"
_NO_STORE = {"Cache-Control": "no-store"} | INERT


@dataclass(slots=True, kw_only=True)
class FetchParameters:
    """The parameters of a fetch, with defaults filled in.

    Attributes:
        batch: Maximum number of messages.
        max_bytes: Maximum size of the messages, in bytes.
        expires: Time to wait for messages, in nanoseconds; 0: do not wait.
        fill: True to wait for the whole batch, not only for a first message.
        heartbeat: Interval of heartbeats, in nanoseconds; 0: none.
        place: Priority group, priority and pin id.
        ack: Reply subject of a delivery that the pull request acknowledges (`+NXT`); empty: none.
    """

    stream: str
    consumer: str
    batch: int
    max_bytes: int
    expires: int
    fill: bool
    heartbeat: int
    place: Place
    ack: bytes = b""


async def fetch_response(call: Call, stream: str, consumer: str, request: FetchRequest) -> Response:
    """Run a fetch and return the response in the requested form: JSON, NDJSON or one raw message.

    Raises Problem for invalid parameters, or if the consumer refuses the pull request.
    """
    wanted = fetch_parameters(call, stream, consumer, request)
    fetch = Fetch(call, wanted)
    if request.raw:
        return await _raw(fetch, request)
    if call.accepts(NDJSON):
        return await _streamed(fetch)
    if wanted.heartbeat:
        raise bad_request("bad-parameter", f"heartbeat needs Accept: {NDJSON}")
    messages = await fetch.all()
    if not messages:
        return no_content({"Js-Reason": fetch.reason()})
    headers = {"Js-Pending": str(JsMsg.of(messages[-1], takes_acks=True).pending)}
    return await document(call, messages, b"{", headers)


async def document(
    call: Call, messages: list[Msg], head: bytes, headers: dict[str, str]
) -> Response:
    """Return a JSON response: the bytes `head`, then the array `messages`."""
    parts = [head + b'"messages":[']
    async for piece in _pieces(call, messages):
        parts.append(b",".join(piece))
        parts.append(b",")
    if messages:
        parts.pop()
    parts.append(b"]}")
    response = _Document(call, messages, b"".join(parts), JSON.encode())
    response.headers.update(_NO_STORE | headers)
    return response


async def _raw(fetch: "Fetch", request: FetchRequest) -> Response:
    """Fetch one message and return it as response: its payload is the body."""
    if request.batch not in (None, 1):
        raise bad_request(
            "bad-parameter", f"raw returns one message: batch is {request.batch}, expected 1"
        )
    messages = await fetch.all()
    if not messages:
        return no_content({"Js-Reason": fetch.reason()})
    msg = messages[0]
    delivery = JsMsg.of(msg, takes_acks=True)
    own = Origin(delivery.stream, msg.subject, delivery.stream_seq, delivery.time)
    shown, media_type = shown_headers(own, msg.headers)
    response = _Document(fetch.call, messages, msg.payload, media_type)
    response.headers.update(_NO_STORE)
    response.headers["Js-Token"] = fetch.call.gateway.tokens.seal(msg.reply)
    response.headers["Js-Pending"] = str(delivery.pending)
    response.headers["Js-Delivered"] = str(delivery.delivered)
    response.raw_headers.extend(shown)
    return response


def fetch_parameters(call: Call, stream: str, consumer: str, request: Fetching) -> FetchParameters:
    """Check the parameters of a fetch and fill in defaults.

    Raises Problem 400 for values out of range or parameters that exclude each other.
    """
    settings = call.gateway.settings
    raw, heartbeat = False, 0
    if isinstance(request, FetchRequest):
        raw, heartbeat = request.raw, duration(request.heartbeat, "heartbeat")
    batch = 1 if raw else request.batch or settings.fetch_batch_default
    if batch > settings.fetch_batch_max:
        raise bad_request("bad-parameter", f"batch: {batch}, at most {settings.fetch_batch_max}")
    expires = int(settings.fetch_expires_default * NANOS_PER_SECOND)
    if request.expires is not None:
        expires = duration(request.expires, "expires")
    if expires > settings.fetch_expires_max * NANOS_PER_SECOND:
        raise bad_request(
            "bad-parameter", f"expires: {request.expires}, at most {settings.fetch_expires_max:g}s"
        )
    if request.no_wait and request.fill:
        raise bad_request("bad-parameter", "no_wait and fill exclude each other")
    if request.no_wait:
        expires = 0
    if heartbeat * 2 > expires:
        raise bad_request(
            "bad-parameter", f"heartbeat: {heartbeat} ns is more than half of expires, {expires} ns"
        )
    return FetchParameters(
        stream=stream,
        consumer=consumer,
        batch=batch,
        max_bytes=min(request.max_bytes or settings.fetch_bytes_max, settings.fetch_bytes_max),
        expires=expires,
        fill=request.fill and expires > 0,
        heartbeat=heartbeat,
        place=request,
    )


class Fetch:
    """One running fetch of a consumer's messages: one to three pull requests."""

    def __init__(self, call: Call, wanted: FetchParameters) -> None:
        self.call = call
        self._wanted = wanted
        self._status = 0
        self._text = ""
        self._left = wanted.batch
        self._pin = wanted.place.pin_id
        self._ack = wanted.ack

    def reason(self) -> str:
        """Return the server's reason for an empty result, such as `No Messages`."""
        return self._text or "No Messages"

    async def all(self) -> list[Msg]:
        """Wait for all messages of the fetch, and return them.

        On an error, the messages are sent back to the consumer (`-NAK`).
        """
        messages: list[Msg] = []
        try:
            async for some in self.batches():
                messages += some
        except BaseException:
            _return_undelivered(self.call, messages)
            raise
        return messages

    async def batches(self) -> AsyncGenerator[list[Msg], None]:
        """Yield messages as they arrive; an empty list is a heartbeat.

        Raises Problem or ApiError if the consumer refuses the first pull request, or its heartbeats
        stop.
        """
        wanted = self._wanted
        if wanted.fill:
            async for some in self._pull(self._left, wanted.expires, no_wait=False):
                yield some
            return
        async for some in self._pull(self._left, wanted.expires, no_wait=True):
            yield some
        if self._left < wanted.batch or not wanted.expires or self._text != "Requests Pending":
            return
        # Other requests wait already, and the server does not queue a no-wait request behind them:
        # wait for one message with an ordinary request, then take all others that are available.
        async for some in self._pull(1, wanted.expires, no_wait=False):
            yield some
        if 0 < self._left < wanted.batch:
            async for some in self._pull(self._left, 0, no_wait=True):
                yield some

    async def _pull(self, batch: int, expires: int, *, no_wait: bool) -> AsyncIterator[list[Msg]]:
        wanted = self._wanted
        js = self.call.gateway.js
        request = self._request(batch, expires, no_wait=no_wait)
        pull = js.pull(wanted.stream, wanted.consumer, request, ack=self._ack)
        self._ack = b""
        limit = (expires / NANOS_PER_SECOND if expires else js.timeout) + _GRACE_S
        silence = 2 * request.idle_heartbeat / NANOS_PER_SECOND or None
        try:
            async with interrupted_on_disconnect(self.call, pull):
                async for some in message_batches(pull, limit, silence):
                    self._took(some)
                    yield some
        finally:
            _return_undelivered(self.call, pull.pop_messages())
        if silence is not None and not pull.ended:
            raise Problem(
                503, "no-heartbeat", "no heartbeat of the server came in time", headers=RETRY
            )
        if pull.status and self._left == wanted.batch:
            self._status, self._text = pull.status, pull.text
            if pull.status not in _EMPTY:
                raise await _refusal(self.call, wanted, pull)

    def _request(self, batch: int, expires: int, *, no_wait: bool) -> NextRequest:
        wanted, place = self._wanted, self._wanted.place
        return NextRequest(
            batch=batch,
            expires=expires,
            no_wait=no_wait,
            max_bytes=wanted.max_bytes,
            idle_heartbeat=wanted.heartbeat if expires else 0,
            group=place.group,
            priority=place.priority,
            min_pending=place.min_pending,
            min_ack_pending=place.min_ack_pending,
            id=self._pin,
        )

    def _took(self, some: list[Msg]) -> None:
        """Count received messages, and store the pin id of a pinned client for the next pull
        request.
        """
        self._left -= len(some)
        if some and self._wanted.place.group and _PIN in some[0].headers:
            self._pin = dict(header_items(some[0].headers))[_PIN].decode(errors="replace")


def _return_undelivered(call: Call, messages: list[Msg]) -> None:
    replies = [msg.reply for msg in messages if msg.reply]
    if not replies:
        return
    client = call.gateway.client
    for reply in replies:
        try:
            client.publish(reply, b"-NAK")
        except ClientError:
            return  # the consumer redelivers after its ack wait


async def _refusal(call: Call, wanted: FetchParameters, pull: Pull) -> Problem | ApiError:
    text = pull.text
    if pull.status in _GONE and (pull.status == 503 or "Deleted" in text):
        try:
            await call.gateway.js.call(f"CONSUMER.INFO.{wanted.stream}.{wanted.consumer}")
        except ApiError as error:
            return error
        return Problem(503, "no-responders", "no server responds for this consumer at the moment")
    if text.startswith("Exceeded MaxWaiting"):
        return Problem(429, "too-many-requests", text, headers=RETRY)
    if pull.status == 423:
        return Problem(
            423,
            "pinned-to-another",
            "another client is pinned: pin_id is not the id of the pinned client",
        )
    status = 400 if text.startswith("Exceeded") else pull.status
    return Problem(status if status in (400, 409, 412) else 409, "pull-refused", text)


async def _pieces(call: Call, messages: list[Msg]) -> AsyncIterator[list[bytes]]:
    """Yield rendered messages in lists of about 256 KiB, one list per loop tick."""
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


async def _streamed(fetch: "Fetch") -> Response:
    batches = fetch.batches()
    first = await anext(batches, None)
    if first is None:
        return no_content({"Js-Reason": fetch.reason()})
    return _Lines(fetch, first, batches)


class _Document(Response):
    """The response to a fetch in one document.

    If the client disconnects before its end, all its messages are returned to the consumer
    (`-NAK`).
    """

    def __init__(self, call: Call, messages: list[Msg], body: bytes, media_type: bytes) -> None:
        super().__init__(body)
        self.raw_headers.append((b"content-type", media_type))
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
            _return_undelivered(self._call, self._messages)
            raise
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Lines(Response):
    """The NDJSON response to a fetch: one line per message, sent when the message arrives.

    If the client disconnects, the messages not sent to it are returned to the consumer (`-NAK`).
    """

    media_type = NDJSON

    def __init__(
        self, fetch: Fetch, first: list[Msg], batches: AsyncGenerator[list[Msg], None]
    ) -> None:
        super().__init__(None, headers=_NO_STORE)
        del self.headers["content-length"]
        self._fetch = fetch
        self._first = first
        self._batches = batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        some: list[Msg] | None = self._first
        untaken: list[Msg] = []
        try:
            async with aclosing(self._batches), ResponseBody(self._fetch.call, send) as out:
                while some is not None:
                    if some:
                        await self._send(out, some, untaken)
                    else:
                        await out.send(b"\n")  # a heartbeat
                    some = await anext(self._batches, None)
        finally:
            # Only after the pull request has ended, else it would receive these messages again.
            _return_undelivered(self._fetch.call, untaken)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, out: ResponseBody, messages: list[Msg], untaken: list[Msg]) -> None:
        """Send messages as lines. If the client disconnects, add the unsent ones to `untaken`."""
        on_their_way = sent = 0
        try:
            async for piece in _pieces(self._fetch.call, messages):
                await out.send(b"\n".join(piece) + b"\n")
                on_their_way, sent = sent, sent + len(piece)
            await out.send(b"")
        except BaseException:
            untaken += messages[on_their_way:]
            raise
