"""Server-sent events of core NATS messages with JSON payloads, such as advisories.

Nothing is stored for a disconnected client. For a slow client, messages beyond a limit of bytes are
dropped, and an event reports their number.
"""

import asyncio
import re
from collections import deque

import orjson

from core.client import Msg, NotPermitted, Subscription, Watch
from core.goinput import text_of
from gateway.requests.call import Call
from gateway.requests.response_body import ResponseBody
from gateway.requests.streaming_response import COMMENT, EVENTS, StreamingResponse

_AT_ONCE = 256
_OVERHEAD = 512
_WORD = re.compile(r"[A-Za-z0-9_.-]{0,128}")


async def open_feed(call: Call, subject: bytes) -> "EventFeed":
    """Subscribe to a subject, and return the response once the server has accepted.

    Raises NotPermitted if the server denies the subscription, ClientError if it does not respond.
    """
    feed = EventFeed(call, subject)
    try:
        await call.gateway.client.flush(call.gateway.settings.api_timeout)
        if feed.subscription.denied:
            raise NotPermitted(subject, "subscribing")
    except BaseException:
        feed.subscription.unsubscribe()
        raise
    return feed


class EventFeed(StreamingResponse):
    """The HTTP response: one event per message, until the client or the NATS connection
    disconnects.
    """

    def __init__(self, call: Call, subject: bytes) -> None:
        count = call.gateway.metrics.feeds.kinds["advisories"]
        super().__init__(call, EVENTS, {"X-Accel-Buffering": "no"}, count)
        self._waiting: deque[Msg] = deque()
        self._held = 0
        self._dropped = 0
        self._change = asyncio.Event()
        self._is_over = False
        self.subscription: Subscription = call.gateway.client.subscribe(
            subject, self._on_batch, watch=Watch(self.wake)
        )

    async def send_body(self, out: ResponseBody) -> None:
        """Send events until the client or the NATS connection disconnects."""
        await out.send(COMMENT)  # tells the client that the subscription is active
        while not self._is_over:
            await out.send(await self._next())

    def wake(self) -> None:
        """End the response, because the client or the NATS connection has disconnected."""
        self._is_over = True
        self._change.set()

    async def close(self) -> None:
        """Unsubscribe from the subject."""
        self.subscription.unsubscribe()

    async def _next(self) -> bytes:
        """Wait for events and return them; a comment after `event_pause` seconds without events."""
        if not self._waiting and not self._dropped:
            self._change.clear()
            try:
                async with asyncio.timeout(self.call.gateway.settings.event_pause):
                    await self._change.wait()
            except TimeoutError:
                return COMMENT
        parts: list[bytes] = []
        while self._waiting and len(parts) < _AT_ONCE:
            msg = self._waiting.popleft()
            self._held -= len(msg.payload) + _OVERHEAD
            parts.append(_event(msg))
        self.count.sent += len(parts)
        if not self._waiting and self._dropped:
            parts.append(b'event: dropped\ndata: {"count":%d}\n\n' % self._dropped)
            self._dropped = 0
        return b"".join(parts)

    def _on_batch(self, batch: list[Msg]) -> None:
        for msg in batch:
            size = len(msg.payload) + _OVERHEAD
            if self._held + size > self.call.gateway.settings.events_unread_bytes_max:
                self._dropped += 1
                self.count.dropped += 1
            else:
                self._held += size
                self._waiting.append(msg)
        self._change.set()


def _event(msg: Msg) -> bytes:
    """Encode an advisory as one event.

    Its type is the last token of the advisory's type, its id the advisory's id. A comment if the
    payload is not JSON.
    """
    kind, ident = "advisory", ""
    try:
        value = orjson.loads(msg.payload)
    except orjson.JSONDecodeError:
        return COMMENT
    if isinstance(value, dict):
        kind = _word(str(value.get("type", "")).rpartition(".")[2]) or kind
        ident = _word(str(value.get("id", "")))
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (
        ident.encode(),
        kind.encode(),
        orjson.dumps({"subject": text_of(msg.subject), "event": value}),
    )


def _word(text: str) -> str:
    """Return the text if it is safe in a line of an event, else an empty text."""
    return text if _WORD.fullmatch(text) else ""
