"""The HTTP response that sends the messages of a stream as server-sent events.

The id of an event is its position, `<incarnation>:<seq>`: creation time of the stream in
nanoseconds, and sequence. A client that sends it as `Last-Event-ID`, to any node, continues after
it. If messages after it were removed, the first event reports that.
"""

import asyncio
import re

import orjson
from starlette.responses import Response

from core.client.subscribe import Position
from core.model.consumer import DeliverPolicy
from gateway.feeds.tail_source import Tail
from gateway.formats import rendering
from gateway.formats.validation import instant
from gateway.http.problems import bad_request, problem_of, quoted
from gateway.readers.entries import Gap, Start
from gateway.readers.page import Slice
from gateway.readers.reader import StreamReader
from gateway.requests.call import Call
from gateway.requests.response_body import ResponseBody
from gateway.requests.streaming_response import COMMENT, EVENTS, StreamingResponse

_SLICE_MESSAGES = 512
_SLICE_BYTES = 64 * 1024
_RETRY_MS = 1000
_ID = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")
_NAMES = {policy.value: policy for policy in DeliverPolicy if "by_start" not in policy.value}


def start_of(begin: str, last_event_id: str) -> Start:
    """Parse the start of a feed: after `last_event_id` if set, else as `begin` selects; else new.

    `begin` is a deliver policy, a sequence, or an RFC 3339 time. Raises Problem 400 for other text.
    """
    if last_event_id:
        found = _ID.fullmatch(last_event_id)
        if found is None:
            raise bad_request(
                "bad-parameter",
                f"Last-Event-ID: {quoted(last_event_id)} is not an id <incarnation>:<sequence>",
            )
        return Start(after=Position(int(found[1]), int(found[2])))
    if not begin:
        return Start()
    if begin in _NAMES:
        return Start(_NAMES[begin])
    if begin.isascii() and begin.isdigit() and int(begin[:19]) > 0 and len(begin) < 20:
        return Start(DeliverPolicy.BY_START_SEQUENCE, seq=int(begin))
    try:
        return Start(DeliverPolicy.BY_START_TIME, time=instant(begin))
    except ValueError:
        detail = f"from: one of {', '.join(_NAMES)}, a sequence, or an RFC 3339 time"
        raise bad_request("bad-parameter", detail) from None


async def open_tail(call: Call, tail: Tail, start: Start) -> Response:
    """Open a reader of a stream at a start position, and return the response that sends its
    messages.

    Raises ApiError if the server refuses, ClientError if it does not respond.
    """
    change = asyncio.Event()
    reader = tail.reader(change.set)
    await reader.open(start)
    return TailResponse(call, tail, reader, change)


class TailResponse(StreamingResponse):
    """The HTTP response: events until the client disconnects or reading of the stream fails."""

    def __init__(self, call: Call, tail: Tail, reader: StreamReader, change: asyncio.Event) -> None:
        headers = {"X-Accel-Buffering": "no", "Js-Last-Event-ID": _id(reader.position)}
        super().__init__(call, EVENTS, headers, call.gateway.metrics.feeds.kinds["tail"])
        self._tail = tail
        self._reader = reader
        self._change = change

    async def send_body(self, out: ResponseBody) -> None:
        """Send events.

        If the stream cannot be read any more, the last event, `end`, has the error.
        """
        reader = self._reader
        await out.send(self._first())
        while (data := await self._next(out)) is not None:
            await out.send(data)
        if reader.error is not None and not self._tail.feeds.js.client.closed:
            await out.send(_end(reader.error))

    def wake(self) -> None:
        """Wake the task that sends events; it then checks if the client has disconnected."""
        self._change.set()

    async def close(self) -> None:
        """Close the reader of the stream."""
        await self._reader.close()

    def _first(self) -> bytes:
        reader = self._reader
        position = reader.position
        told: dict[str, object] = {
            "stream": self._tail.stream,
            "incarnation": str(position.incarnation),
            "seq": position.seq,
            "recovered": reader.recovered,
        }
        if (gap := reader.first_gap) is not None:
            told |= {"first_seq": gap.first_seq, "last_seq": gap.last_seq}
        event = _event("position", position, told)
        return b"retry: %d\n%b" % (_RETRY_MS, event)

    async def _next(self, out: ResponseBody) -> bytes | None:
        """Wait for events and return them; a comment after `event_pause` seconds without events.

        None if reading of the stream has ended with an error.
        """
        while True:
            self._change.clear()
            found = self._reader.next_slice(_SLICE_MESSAGES, _SLICE_BYTES)
            if found is not None:
                return self._events(found)
            if self._reader.error is not None or out.is_disconnected:
                return None
            try:
                async with asyncio.timeout(self.call.gateway.settings.event_pause):
                    await self._change.wait()
            except TimeoutError:
                return COMMENT

    def _events(self, found: Slice) -> bytes:
        gap = found.gap
        if gap is not None:
            return _event("gap", gap.position, _gap(gap))
        self.count.sent += found.count
        shared = found.shared
        if shared is None:
            return self._written(found)
        key = ("sse", found.key)
        made = shared.get(key)
        if made is None:
            made = shared[key] = self._written(found)
        return made

    def _written(self, found: Slice) -> bytes:
        incarnation = self._reader.position.incarnation
        return b"".join(
            [
                b"id: %d:%d\ndata: %b\n\n"
                % (incarnation, entry.msg.stream_seq, entry.form(rendering.followed))
                for entry in found.messages()
            ]
        )


def _id(position: Position) -> str:
    return f"{position.incarnation}:{position.seq}"


def _event(kind: str, position: Position, data: dict[str, object]) -> bytes:
    head = f"id: {_id(position)}\nevent: {kind}\ndata: ".encode()
    return head + orjson.dumps(data) + b"\n\n"


def _gap(gap: Gap) -> dict[str, object]:
    return {
        "after": gap.after.seq,
        "incarnation": str(gap.position.incarnation),
        "seq": gap.position.seq,
        "first_seq": gap.first_seq,
        "last_seq": gap.last_seq,
        "recovered": False,
    }


def _end(error: Exception) -> bytes:
    return b"event: end\ndata: %b\n\n" % orjson.dumps(problem_of(error).members(), default=str)
