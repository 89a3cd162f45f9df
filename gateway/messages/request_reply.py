"""NATS requests to a service over HTTP: with one reply, or with several."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.client import Answers, Msg, NoResponders, RequestTimeout, header_items
from gateway.formats import rendering
from gateway.formats.message_headers import response_headers
from gateway.formats.raw_messages import INERT
from gateway.http.problems import Problem
from gateway.http.responses import NDJSON
from gateway.requests.call import Call
from gateway.requests.replies import interrupted_on_disconnect, next_messages
from gateway.requests.response_body import ResponseBody

_NO_RESPONDERS = 503
_NO_STORE = {"Cache-Control": "no-store"} | INERT


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest:
    """A request to a service. Times are in seconds.

    Attributes:
        subject: The subject of the service.
        body: The payload of the request.
        block: The NATS header block; may be empty.
        within: Maximum time for all replies.
        most: Maximum number of replies.
        stall: Maximum time between two replies; None: limited only by `within`.
        until_empty: True if an empty reply ends the replies.
    """

    subject: bytes
    body: bytes
    block: bytes
    within: float
    most: int = 1
    stall: float | None = None
    until_empty: bool = False


async def one_reply(call: Call, service_request: ServiceRequest) -> Response:
    """Send a request, and return the first reply as response.

    Raises NoResponders if no service subscribes, RequestTimeout after `within` seconds, ClientError
    if the connection is lost.
    """
    msg = await call.gateway.client.request(
        service_request.subject,
        service_request.body,
        headers=service_request.block,
        within=service_request.within,
    )
    shown, media_type = response_headers(header_items(msg.headers))
    response = Response(msg.payload, headers=_NO_STORE)
    response.raw_headers.append((b"content-type", media_type))
    response.raw_headers.extend(shown)
    return response


async def many_replies(call: Call, service_request: ServiceRequest) -> Response:
    """Send a request, and return the replies as NDJSON lines while they arrive.

    Raises as `one_reply` if there is no reply.
    """
    replies = _replies(call, service_request)
    try:
        first = await anext(replies)
    except StopAsyncIteration:
        raise RequestTimeout(service_request.subject, service_request.within) from None
    return _Lines(call, first, replies)


async def _replies(call: Call, service_request: ServiceRequest) -> AsyncGenerator[list[Msg], None]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + service_request.within
    answers = Answers(
        call.gateway.client,
        service_request.subject,
        service_request.body,
        headers=service_request.block,
        most=service_request.most,
        most_bytes=call.gateway.settings.fetch_bytes_max,
    )
    async with interrupted_on_disconnect(call, answers):
        stall: float | None = None  # no limit but `within` for the first reply
        while True:
            within = max(deadline - loop.time(), 0.0)
            some = await next_messages(answers, within if stall is None else min(within, stall))
            if some is None:
                break
            stall = service_request.stall
            empty = [
                i for i, msg in enumerate(some) if service_request.until_empty and not msg.payload
            ]
            yield some[: empty[0]] if empty else some
            if empty:
                return
    if answers.status == _NO_RESPONDERS:
        raise NoResponders(service_request.subject)
    if answers.overflowed:
        raise Problem(
            503, "slow-reader", "the client reads the replies too slowly: too many are unread"
        )


class _Lines(Response):
    """An NDJSON response; if it is interrupted by an error, the last line contains the problem."""

    media_type = NDJSON

    def __init__(
        self, call: Call, first: list[Msg], replies: AsyncGenerator[list[Msg], None]
    ) -> None:
        super().__init__(None, headers=_NO_STORE)
        del self.headers["content-length"]
        self._call = call
        self._first = first
        self._replies = replies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        some: list[Msg] | None = self._first
        async with aclosing(self._replies), ResponseBody(self._call, send) as out:
            try:
                while some is not None:
                    if some:
                        lines = b"\n".join(map(rendering.reply, some)) + b"\n"
                        await out.send(lines)
                    some = await anext(self._replies, None)
            except Problem as problem:
                await out.send(orjson.dumps({"error": problem.members()}) + b"\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})
