"""Core messages that are JSON, as server-sent events.

Nothing is kept for a caller who was away. One who reads too slowly misses events, and is told how
many.
"""

import asyncio
import re
from collections import deque

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from core.client import ClientError, Msg, NotPermitted, Subscription
from gateway.call import Call
from gateway.response_body import ResponseBody

_COMMENT = b":\n\n"
_AT_ONCE = 256
_OVERHEAD = 512
_WORD = re.compile(r"[A-Za-z0-9_.-]{0,128}")


async def open_feed(call: Call, subject: bytes) -> "EventFeed":
    """Subscribe, and return when the server has taken it. Raises NotPermitted and ClientError."""
    feed = EventFeed(call, subject)
    try:
        await call.gateway.client.flush(call.gateway.settings.api_timeout)
        if feed.subscription.denied:
            raise NotPermitted(subject, "subscribing")
    except BaseException:
        feed.subscription.unsubscribe()
        raise
    return feed


class EventFeed(Response):
    """The answer: events until the caller or the connection to the server goes away."""

    media_type = "text/event-stream"

    def __init__(self, call: Call, subject: bytes) -> None:
        super().__init__(None, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._call = call
        self._waiting: deque[Msg] = deque()
        self._held = 0
        self._dropped = 0
        self._change = asyncio.Event()
        self._is_over = False
        self.subscription: Subscription = call.gateway.client.subscribe(subject, self._on_batch)
        self.subscription.on_end = self._on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        self._is_over = self._is_over or scope["method"] == "HEAD"
        try:
            async with ResponseBody(self._call, send, self._on_end) as out:
                await out.send(_COMMENT)  # the caller may act now: nothing is missed from here on
                while not self._is_over:
                    await out.send(await self._next())
        except ClientError:
            pass
        finally:
            self.subscription.unsubscribe()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self) -> bytes:
        """Events to send; a comment when there were none for some time."""
        if not self._waiting and not self._dropped:
            self._change.clear()
            try:
                async with asyncio.timeout(self._call.gateway.settings.event_pause):
                    await self._change.wait()
            except TimeoutError:
                return _COMMENT
        parts: list[bytes] = []
        while self._waiting and len(parts) < _AT_ONCE:
            msg = self._waiting.popleft()
            self._held -= len(msg.payload) + _OVERHEAD
            parts.append(_event(msg))
        if not self._waiting and self._dropped:
            parts.append(b'event: dropped\ndata: {"count":%d}\n\n' % self._dropped)
            self._dropped = 0
        return b"".join(parts)

    def _on_batch(self, batch: list[Msg]) -> None:
        for msg in batch:
            size = len(msg.payload) + _OVERHEAD
            if self._held + size > self._call.gateway.settings.events_unread_bytes_max:
                self._dropped += 1
            else:
                self._held += size
                self._waiting.append(msg)
        self._change.set()

    def _on_end(self) -> None:
        self._is_over = True
        self._change.set()


def _event(msg: Msg) -> bytes:
    """One event: its type is the last word of the advisory's, its id the advisory's."""
    kind, ident = "advisory", ""
    try:
        value = orjson.loads(msg.payload)
    except orjson.JSONDecodeError:
        return _COMMENT
    if isinstance(value, dict):
        kind = _word(str(value.get("type", "")).rpartition(".")[2]) or kind
        ident = _word(str(value.get("id", "")))
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        ident.encode(),
        kind.encode(),
        orjson.dumps({"subject": msg.subject.decode(errors="replace"), "event": value}),
    )


def _word(text: str) -> str:
    """The text, unless it could end its line."""
    return text if _WORD.fullmatch(text) else ""
