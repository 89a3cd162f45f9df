"""HTTP handlers that send the messages of a stream as server-sent events."""

from starlette.responses import Response

from gateway.feeds.tail_response import open_tail, start_of
from gateway.feeds.tail_source import tail_of
from gateway.formats.validation import filter_subject, name
from gateway.requests.call import Call


async def tail_stream(call: Call) -> Response:
    """Follow a stream, or the messages that match a filter, as server-sent events."""
    stream = name(call.params["stream"], "stream")
    matching = ""
    if "filter" in call.query:
        matching = filter_subject(call.query["filter"], call.gateway.settings)
    return await call.until_disconnected(_tail(call, matching, stream))


async def tail_subject(call: Call) -> Response:
    """Follow the messages that match a subject, in the stream that stores it, as server-sent
    events.
    """
    matching = filter_subject(call.params["subject"], call.gateway.settings)
    return await call.until_disconnected(_tail(call, matching))


async def _tail(call: Call, matching: str, stream: str = "") -> Response:
    begin, named = call.query.get("from", ""), call.query.get("last_event_id", "")
    start = start_of(begin, named)
    # A browser that reconnects repeats the query; its header has the latest position.
    if last := call.headers.get("last-event-id", ""):
        start = start_of(begin, last)
    return await open_tail(call, await tail_of(call.caller, matching, stream), start)
