"""Sending an object, or a range of it, at the pace of the caller.

Its digest is checked on the way, and the last piece is sent only when it is right: a caller never
has the whole of an object that is not the one that was stored.
"""

import hashlib
import re
from base64 import b64encode, urlsafe_b64decode
from collections import deque
from dataclasses import dataclass, replace

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.client.subscribe import Limits, OrderedSubscription, ordered, target_of
from core.errors import ApiError
from core.model.consumer import DeliverPolicy
from core.model.message import MsgGetRequest
from gateway import object_store
from gateway.bucket_models import ObjectInfo
from gateway.bucket_reading import FINITE, READ_S, end_reading
from gateway.call import Call
from gateway.problems import Problem
from gateway.response_body import ResponseBody

_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
_CHUNKS = 1024
_DIGEST = "sha-256="


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes from `start` to before `stop`."""

    start: int
    stop: int


def span_of(header: str | None, size: int) -> Span | None:
    """The range that a `Range` header asks for; None: everything (RFC 9110, 14).

    Several ranges, other units and what is no range are answered with everything. Raises
    Problem 416.
    """
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        start, stop = max(0, size - int(match[2])), size
    else:
        start = int(match[1])
        stop = min(int(match[2]) + 1, size) if match[2] else size
        if match[2] and int(match[2]) < start:
            return None
    if start >= size or stop <= start:
        headers = {"Content-Range": f"bytes */{size}"}
        detail = f"Range: the object has {size} bytes"
        raise Problem(416, "range-not-satisfiable", detail, headers=headers)
    return Span(start, stop)


def repr_digest(info: ObjectInfo) -> str:
    """The digest as RFC 9530 writes it; empty when there is none."""
    if info.digest[: len(_DIGEST)].lower() != _DIGEST:
        return ""
    return f"{_DIGEST}:{b64encode(_digest(info)).decode()}:"


def _digest(info: ObjectInfo) -> bytes:
    try:
        text = info.digest[len(_DIGEST) :]
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def _changed() -> Problem:
    detail = "the object was replaced or removed meanwhile, or has lost chunks"
    return Problem(503, "object-changed", detail, headers={"Retry-After": "1"})


class Download(Response):
    """The answer that carries an object."""

    def __init__(self, call: Call, info: ObjectInfo, span: Span | None, headers: dict[str, str]):
        whole = Span(0, info.size)
        self._span = span or whole
        super().__init__(None, 206 if span else 200, headers=headers)
        self.headers["content-length"] = str(self._span.stop - self._span.start)
        if span:
            self.headers["content-range"] = f"bytes {span.start}-{span.stop - 1}/{info.size}"
        self._call = call
        self._info = info
        self._seen = hashlib.sha256() if self._span == whole and info.digest else None
        self._skip = self._span.start
        self._left = self._span.stop - self._span.start
        self._reader: OrderedSubscription | None = None

    async def open(self) -> None:
        """Find the chunks. Raises Problem when they are not all there."""
        if not self._left or self._call.scope["method"] == "HEAD":
            return
        info = self._info
        subject = object_store.chunk_subject(info.bucket, info.nuid)
        begin, number = await self._begin(subject)
        if number:
            self._skip -= number * info.max_chunk_size
        target = target_of(
            f"OBJ_{info.bucket}",
            (subject,),
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=begin,
        )
        most = self._call.gateway.settings.object_read_bytes
        reading = replace(FINITE, limits=Limits(_CHUNKS, most * 2))
        self._reader = await ordered(self._call.gateway.js, target, reading)
        if self._reader.pending != info.chunks - number:
            end_reading(self._reader)
            raise _changed()

    async def _begin(self, subject: str) -> tuple[int, int]:
        """The sequence to read from, and the number of the chunk that it has.

        From the first chunk, or from the one that a range begins in if its sequence can be told:
        all but the last are of the same size if their sizes can only add up so, and nothing else
        lies between them if the sequences of first and last say so. To begin with the stream
        would be right too, but whatever was stored before would be read for nothing.
        """
        info = self._info
        size = info.max_chunk_size
        js = self._call.gateway.js
        stream = f"OBJ_{info.bucket}"
        try:
            first = await js.message(stream, MsgGetRequest(next_by_subj=subject, seq=1))
            if not size or self._skip < size:
                return first.seq, 0
            last = await js.last(stream, subject)
        except ApiError:
            raise _changed() from None
        even = (info.chunks - 1) * size + len(last.data) == info.size
        if even and last.seq - first.seq + 1 == info.chunks:
            number = self._skip // size
            return first.seq + number, number
        return first.seq, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the object. An answer whose chunks are not right stays without its end."""
        start = {"type": "http.response.start", "status": self.status_code}
        await send(start | {"headers": self.raw_headers})
        if self._reader is not None:
            try:
                async with ResponseBody(self._call, send, self._reader.interrupt) as out:
                    await self._send(self._reader, out)
            finally:
                end_reading(self._reader)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, reader: OrderedSubscription, out: ResponseBody) -> None:
        held: deque[bytes] = deque()
        while self._left:
            try:
                messages = await reader.batch(within=READ_S)
            except ApiError as error:
                raise Problem(503, "object-changed", str(error)) from None
            if not messages:
                raise Problem(503, "object-changed", "chunks are missing")
            for msg in messages:
                if piece := self._cut(msg.payload):
                    held.append(piece)
            while len(held) > 1:
                await out.send(held.popleft())
        if self._seen is not None and self._seen.digest() != _digest(self._info):
            raise Problem(502, "digest-mismatch", "the object is not what its digest says")
        for piece in held:
            await out.send(piece)

    def _cut(self, payload: bytes) -> bytes:
        """The part of a chunk that is asked for."""
        if self._seen is not None:
            self._seen.update(payload)
        if self._skip >= len(payload):
            self._skip -= len(payload)
            return b""
        piece = payload
        if self._skip or len(payload) > self._left:
            piece = payload[self._skip : self._skip + self._left]
            self._skip = 0
        self._left -= len(piece)
        return piece
