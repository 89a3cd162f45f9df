"""HTTP responses that list the entries of a bucket, or follow its changes (watch).

Both read the bucket's stream only as fast as the client reads the response: the next batch is
fetched after the last one is sent, so a slow client needs the memory of two pull requests. The
`position` of a watch is `<incarnation>:<sequence>`; the incarnation is the creation time of the
stream, in nanoseconds since the epoch.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol, Self

import msgspec
from msgspec import UNSET

from core.client import ClientError, NotPermitted
from core.client.subscribe import (
    JsMsg,
    OrderedSubscription,
    PositionLost,
    SubscriptionTarget,
    ordered,
)
from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.consumer import DeliverPolicy
from core.model.gotime import parse_time
from core.model.message import StoredMsg
from gateway.buckets.models import Ended, Heartbeat, Opened, Ready
from gateway.buckets.reading import FINITE, batches, end_reading, stored_of
from gateway.formats.models import ProblemBody
from gateway.formats.validation import sequence
from gateway.http.problems import bad_request, problem_of, quoted
from gateway.http.responses import JSON, NDJSON
from gateway.requests.call import Call
from gateway.requests.response_body import ResponseBody
from gateway.requests.streaming_response import EVENTS, StreamingResponse

_PIECE = 128 * 1024


class Listing(StreamingResponse):
    """An HTTP response that lists the messages of a bucket: as NDJSON, or as an array in an object.

    Attributes:
        show: Converts a message to the listed object; returns None to skip the message.
        pending: Number of messages to read when the listing begins.
    """

    def __init__(self, call: Call, reader: OrderedSubscription, member: str, last_seq: int) -> None:
        self._lines = call.accepts(NDJSON)
        super().__init__(call, NDJSON if self._lines else JSON, {}, None)
        self.show: Callable[[StoredMsg], object | None] = _nothing
        self.pending = reader.pending
        self._reader = reader
        self._member = member
        self._last_seq = last_seq

    @classmethod
    async def begin(
        cls, call: Call, target: SubscriptionTarget, member: str, last_seq: int
    ) -> Self:
        """Subscribe to the messages and return the response.

        Raises ApiError if the server refuses, ClientError if it does not respond.

        Args:
            call: The request.
            target: The stream and subjects to read.
            member: The name of the array in the JSON object.
            last_seq: Messages stored after this sequence are not listed.
        """
        return cls(call, await ordered(call.gateway.js, target, FINITE), member, last_seq)

    async def send_body(self, out: ResponseBody) -> None:
        """Send all entries; if reading fails, the body ends early."""
        try:
            await self._send(out)
        except (ApiError, ClientError) as error:  # too late for another response
            raise problem_of(error) from None

    def wake(self) -> None:
        """Stop reading the stream, because the client has disconnected."""
        self._reader.interrupt()

    async def close(self) -> None:
        """End the subscription and delete its consumer."""
        end_reading(self._reader)

    async def _send(self, out: ResponseBody) -> None:
        if not self._lines:
            await out.send(b'{"%s":[' % self._member.encode())
        between = b"\n" if self._lines else b","
        begun = False
        async for messages in batches(self._reader):
            shown = (
                self.show(stored_of(msg)) for msg in messages if msg.stream_seq <= self._last_seq
            )
            for piece in _pieces(value for value in shown if value is not None):
                await out.send((between if begun else b"") + between.join(piece))
                begun = True
            if messages[-1].stream_seq >= self._last_seq:
                break
        await out.send(b"]}\n" if not self._lines else b"\n" if begun else b"")


class Source(Protocol):
    """The messages that a watch reads, and their conversion to events of keys or objects."""

    @property
    def only_news(self) -> bool:
        """True if the watch omits the entries that exist when it begins."""
        ...

    def target(self, info: dict[str, Any]) -> SubscriptionTarget:
        """Return the stream, subjects and start for the subscription of the watch.

        `info` is the info of the bucket's stream.
        """
        ...

    def event(self, msg: StoredMsg, position: str) -> Any | None:
        """Return the event for a message; None if the watch does not report it."""
        ...


class Feed(StreamingResponse):
    """An HTTP response that follows the changes of a bucket, as NDJSON or server-sent events."""

    def __init__(self, call: Call, source: Source, info: dict[str, Any]) -> None:
        self._events = call.accepts(EVENTS)
        headers = {"X-Accel-Buffering": "no"}
        count = call.gateway.metrics.feeds.kinds["watch"]
        super().__init__(call, EVENTS if self._events else NDJSON, headers, count)
        self._source = source
        self._incarnation = parse_time(info["created"])
        self._reader: OrderedSubscription
        self._target = source.target(info)
        self._known = info["state"]["last_seq"]
        """Last sequence of the stream when the watch begins."""
        self._seen = 0
        self._recovered: bool | msgspec.UnsetType = UNSET
        self._is_ready = False

    @classmethod
    async def begin(cls, call: Call, info: dict[str, Any], source: Source) -> Self:
        """Open the watch at the position that the client requests (`last_event_id`, Last-Event-ID).

        Raises Problem 400 for a malformed position, ApiError if the server refuses, ClientError if
        it does not respond. `info` is the info of the bucket's stream.
        """
        feed = cls(call, source, info)
        # A browser that reconnects repeats the query; its header has the latest position.
        said = call.query.get("last_event_id"), call.headers.get("last-event-id") or None
        positions = [_position(text) for text in said if text is not None]
        if positions:
            feed._resume(*positions[-1], info)
        reading = replace(FINITE, on_alarm=feed._on_alarm, finite=False)
        feed._reader = await ordered(call.gateway.js, feed._target, reading)
        if source.only_news and feed._recovered is UNSET:
            feed._seen = feed._known
        return feed

    def _resume(self, incarnation: int, last: int, info: dict[str, Any]) -> None:
        state = info["state"]
        self._recovered = (
            incarnation == self._incarnation and state["first_seq"] - 1 <= last <= state["last_seq"]
        )
        if self._recovered:
            start = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": last + 1}
            self._target = replace(self._target, config={**self._target.config, **start})
            self._seen = last

    def _on_alarm(self, alarm: ClientError) -> None:
        """Handle an error of the subscription: end the watch if the bucket was deleted.

        The watch also ends if a new bucket has the same name. All other errors are ignored, because
        the subscription repairs them.
        """
        if isinstance(alarm, PositionLost) and alarm.incarnation != self._incarnation:
            self._reader.end(api_error("JSStreamNotFound"))

    def wake(self) -> None:
        """Stop reading the stream, because the client has disconnected."""
        self._reader.interrupt()

    async def close(self) -> None:
        """End the subscription and delete its consumer."""
        end_reading(self._reader)

    async def send_body(self, out: ResponseBody) -> None:
        """Send events until the client disconnects or the bucket is deleted."""
        begin = [self._line(Opened("open", self._position(), self._recovered))]
        if not self._reader.pending or self._seen >= self._known:
            begin.append(self._ready())
        await out.send(b"".join(begin))
        heartbeat = self.call.gateway.settings.feed_heartbeat
        while True:
            try:
                messages = await self._reader.batch(within=heartbeat)
            except (ApiError, NotPermitted) as error:
                problem = msgspec.convert(problem_of(error).members(), ProblemBody)
                await out.send(self._line(Ended("end", problem)))
                return
            if not messages:
                # The current entries may have been removed before they were read.
                await out.send(self._heartbeat() if self._is_ready else self._ready())
            for piece in _joined(self._lines(messages)):
                await out.send(piece)

    def _lines(self, messages: list[JsMsg]) -> Iterator[bytes]:
        for msg in messages:
            if not self._is_ready and msg.stream_seq > self._known:
                yield self._ready()
            self._seen = msg.stream_seq
            event = self._source.event(stored_of(msg), self._position())
            if event is not None:
                self.count.sent += 1
                yield self._line(event)
            if not self._is_ready and (not msg.pending or msg.stream_seq == self._known):
                yield self._ready()

    def _ready(self) -> bytes:
        self._is_ready = True
        self._seen = max(self._seen, self._known)
        return self._line(Ready("ready", self._position()))

    def _heartbeat(self) -> bytes:
        return b": heartbeat\n\n" if self._events else self._line(Heartbeat("heartbeat"))

    def _position(self) -> str:
        return f"{self._incarnation}:{self._seen}"

    def _line(self, event: Any) -> bytes:
        shown = msgspec.json.encode(event)
        if not self._events:
            return shown + b"\n"
        position = getattr(event, "position", "")
        place = b"id: %s\n" % position.encode() if position else b""
        return b"event: %s\n%sdata: %s\n\n" % (event.event.encode(), place, shown)


def _pieces(values: Iterable[object]) -> Iterator[list[bytes]]:
    piece: list[bytes] = []
    size = 0
    for value in values:
        piece.append(msgspec.json.encode(value))
        size += len(piece[-1])
        if size > _PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _joined(lines: Iterator[bytes]) -> Iterator[bytes]:
    piece: list[bytes] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size > _PIECE:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)


def _nothing(_: StoredMsg) -> None:
    return None


def _position(text: str) -> tuple[int, int]:
    """Parse the position of a watch, `<incarnation>:<sequence>`, to (incarnation, sequence).

    Raises Problem 400 for malformed text.
    """
    born, colon, seq = text.partition(":")
    if not colon:
        raise bad_request(
            "bad-parameter",
            f"Last-Event-ID: {quoted(text)} is not a position <incarnation>:<sequence>",
        )
    return sequence(born, "Last-Event-ID"), sequence(seq, "Last-Event-ID")
