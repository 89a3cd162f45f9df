"""Reads of many stored messages in one HTTP request, by batched Direct Get (ADR-31).

A response is limited in messages and bytes, and its end contains the position for the next request.
So the server keeps no state for a slow client.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.client import Msg, RequestTimeout, direct_message, header_items
from core.model.message import MsgGetRequest
from gateway.formats import rendering
from gateway.formats.models import ReadEnd
from gateway.formats.raw_messages import INERT
from gateway.http.problems import Problem
from gateway.http.responses import JSON, NDJSON
from gateway.requests.call import Call
from gateway.requests.replies import interrupted_on_disconnect, message_batches
from gateway.requests.response_body import ResponseBody

_SLICE = 64
_WHOLE_S = 300.0
_EOB, _NONE = 204, 404
_UNANSWERED = 503
_PENDING = b"Nats-Num-Pending"
_NO_STORE = {"Cache-Control": "no-store"} | INERT


@dataclass(slots=True)
class BatchRead:
    """A read of many messages; `end` is set after all messages have arrived."""

    call: Call
    stream: str
    request: MsgGetRequest
    end: ReadEnd | None = None

    async def lines(self) -> AsyncGenerator[list[bytes], None]:
        """Yield the messages as JSON.

        Raises ApiError or Problem if the server refuses the read, RequestTimeout if it does not
        respond, Disconnected if the client disconnects.
        """
        js = self.call.gateway.js
        answers = js.direct_batch(self.stream, self.request)
        count = 0
        async with interrupted_on_disconnect(self.call, answers):
            async for some in message_batches(answers, _WHOLE_S, js.timeout):
                for begin in range(0, len(some), _SLICE):
                    part = some[begin : begin + _SLICE]
                    count += len(part)
                    yield [_line(self.stream, msg) for msg in part]
                    await asyncio.sleep(0)
        if answers.status == _UNANSWERED:
            raise await self._refusal()
        if answers.status == _EOB:
            self.end = _end(answers.headers)
        elif answers.status == _NONE:
            self.end = ReadEnd(count=0, pending=0)
        elif answers.status:
            raise Problem(413 if answers.status == 413 else 400, "read-refused", answers.text)
        else:
            raise RequestTimeout(b"DIRECT.GET", js.timeout)
        self.end.count = count

    async def _refusal(self) -> Exception:
        await self.call.gateway.js.call(f"STREAM.INFO.{self.stream}")
        return Problem(409, "direct-not-allowed", "reading many needs allow_direct in the stream")


def _line(stream: str, msg: Msg) -> bytes:
    pending = next(
        (int(value) for name, value in reversed(header_items(msg.headers)) if name == _PENDING), 0
    )
    return rendering.stored(stream, direct_message(msg), pending)


def _end(headers: bytes) -> ReadEnd:
    values = dict(header_items(headers))
    return ReadEnd(
        count=0,
        pending=int(values.get(_PENDING, b"0")),
        last_seq=int(values.get(b"Nats-Last-Sequence", b"0")),
        up_to_seq=int(values.get(b"Nats-UpTo-Sequence", b"0")),
    )


async def read_response(read: BatchRead) -> Response:
    """Run a read, and return the response in the requested form: JSON or NDJSON."""
    lines = read.lines()
    if read.call.accepts(NDJSON):
        first = await anext(lines, None)
        return _Lines(read, first or [], lines)
    parts: list[bytes] = []
    async for some in lines:
        parts += some
    assert read.end is not None
    body = b'{"messages":[%s],"end":%s}' % (b",".join(parts), msgspec.json.encode(read.end))
    return Response(body, headers=_NO_STORE, media_type=JSON)


class _Lines(Response):
    """An NDJSON response; its last line is the end, without which the response is incomplete."""

    media_type = NDJSON

    def __init__(
        self, read: BatchRead, first: list[bytes], lines: AsyncGenerator[list[bytes], None]
    ) -> None:
        super().__init__(None, headers=_NO_STORE)
        del self.headers["content-length"]
        self._read = read
        self._first = first
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        some: list[bytes] | None = self._first
        async with aclosing(self._lines), ResponseBody(self._read.call, send) as out:
            while some is not None:
                if some:
                    await out.send(b"\n".join(some) + b"\n")
                some = await anext(self._lines, None)
            end = msgspec.json.encode({"end": self._read.end})
            await out.send(end + b"\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})
