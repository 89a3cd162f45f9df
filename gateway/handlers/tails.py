"""Following streams."""

from starlette.responses import Response

from core.client.subscribe import SubscribeError, Target
from core.client.subscribe.lookup import find_stream
from gateway.call import Call
from gateway.following import open_tail, start_of
from gateway.problems import Problem
from gateway.validation import filter_subject, name


async def tail_stream(call: Call) -> Response:
    """Follow a stream, or what of it matches a filter: server-sent events."""
    stream = name(call.params["stream"], "stream")
    matching = ""
    if "filter" in call.query:
        matching = filter_subject(call.query["filter"], call.gateway.settings)
    return await _tail(call, stream, matching)


async def tail_subject(call: Call) -> Response:
    """Follow the stream that a subject belongs to: server-sent events of what matches it."""
    matching = filter_subject(call.params["subject"], call.gateway.settings)
    try:
        stream = await find_stream(call.gateway.js, Target(subject=matching))
    except SubscribeError as error:
        raise Problem(404, "no-stream", str(error)) from None
    return await _tail(call, stream, matching)


async def _tail(call: Call, stream: str, matching: str) -> Response:
    for verb in ("STREAM.INFO.{}", "CONSUMER.CREATE.{}", "CONSUMER.MSG.NEXT.{}.x"):
        call.gateway.client.check(b"$JS.API." + verb.format(stream).encode())
    begin, named = call.query.get("from", ""), call.query.get("last_event_id", "")
    start = start_of(begin, named)
    # A browser that comes back repeats the query, and says in the header how far it was meanwhile.
    if last := call.headers.get("last-event-id", ""):
        start = start_of(begin, last)
    return await open_tail(call, stream, matching, start)


async def open_websocket(call: Call) -> Response:
    """Say that a WebSocket is here, to who asks for something else."""
    headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
    raise Problem(426, "websocket-needed", "this path takes WebSocket handshakes", headers=headers)
