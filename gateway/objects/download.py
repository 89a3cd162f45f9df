"""Download of an object, or of a byte range, as fast as the client reads.

The digest is computed during the download, and the last chunk is sent only if the digest matches.
So a client never gets a complete object that differs from the stored one.
"""

import hashlib
import re
from base64 import b64encode, urlsafe_b64decode
from collections import deque
from dataclasses import dataclass, replace

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.client.subscribe import BufferLimits, OrderedSubscription, ordered, target_of
from core.errors import ApiError
from core.model.consumer import DeliverPolicy
from core.model.message import MsgGetRequest
from gateway.buckets.models import ObjectInfo
from gateway.buckets.reading import FINITE, READ_S, end_reading
from gateway.http.problems import Problem
from gateway.objects import object_store
from gateway.requests.call import Call
from gateway.requests.response_body import ResponseBody

_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
_CHUNKS = 1024
_DIGEST = "sha-256="


@dataclass(frozen=True, slots=True)
class Span:
    """A byte range of an object: from `start` to `stop` - 1."""

    start: int
    stop: int


def span_of(header: str | None, size: int) -> Span | None:
    """Parse the header `Range` (RFC 9110, 14). None: the whole object.

    Several ranges, other units and malformed ranges select the whole object. Raises Problem 416 for
    a range outside of the object. `size` is the object's size in bytes.
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
    """Return the digest of an object in the form of RFC 9530; empty if there is none."""
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
    """The HTTP response that contains an object or a byte range of it.

    Life cycle: `open` finds the chunks, then the ASGI call sends the response.
    """

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
        """Find the chunks of the object, and start to read them.

        Raises Problem 503 if some are missing.
        """
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
        reading = replace(FINITE, limits=BufferLimits(_CHUNKS, most * 2))
        self._reader = await ordered(self._call.gateway.js, target, reading)
        if self._reader.pending != info.chunks - number:
            end_reading(self._reader)
            raise _changed()

    async def _begin(self, subject: str) -> tuple[int, int]:
        """Return the stream sequence to read from, and the index of its chunk.

        A range may begin at a later chunk, if two checks prove its sequence. First: all chunks but
        the last have the same size, because no other sizes add up to the object's. Second: no other
        messages are between the chunks, because the first and last sequences are that far apart.
        Otherwise reading begins at the first chunk; the start of the stream would be slow.
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
        """Send the object. If chunks are missing or wrong, the response stays incomplete."""
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
                raise Problem(
                    503, "object-changed", "chunks of the object are missing in the stream"
                )
            for msg in messages:
                if piece := self._requested_part(msg.payload):
                    held.append(piece)
            while len(held) > 1:
                await out.send(held.popleft())
        if self._seen is not None and self._seen.digest() != _digest(self._info):
            raise Problem(
                502, "digest-mismatch", "the stored chunks do not have the digest of the object"
            )
        for piece in held:
            await out.send(piece)

    def _requested_part(self, payload: bytes) -> bytes:
        """Return the part of a chunk that belongs to the requested range."""
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
