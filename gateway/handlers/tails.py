"""Following streams."""

from starlette.responses import Response

from gateway.call import Call
from gateway.following import open_tail, start_of
from gateway.problems import Problem
from gateway.tailing import tail_of
from gateway.validation import filter_subject, name


async def tail_stream(call: Call) -> Response:
    """Follow a stream, or what of it matches a filter: server-sent events."""
    stream = name(call.params["stream"], "stream")
    matching = ""
    if "filter" in call.query:
        matching = filter_subject(call.query["filter"], call.gateway.settings)
    return await call.while_there(_tail(call, matching, stream))


async def tail_subject(call: Call) -> Response:
    """Follow the stream that a subject belongs to: server-sent events of what matches it."""
    matching = filter_subject(call.params["subject"], call.gateway.settings)
    return await call.while_there(_tail(call, matching))


async def _tail(call: Call, matching: str, stream: str = "") -> Response:
    begin, named = call.query.get("from", ""), call.query.get("last_event_id", "")
    start = start_of(begin, named)
    # A browser that comes back repeats the query, and says in the header how far it was meanwhile.
    if last := call.headers.get("last-event-id", ""):
        start = start_of(begin, last)
    return await open_tail(call, await tail_of(call.caller, matching, stream), start)


async def open_websocket(call: Call) -> Response:
    """Say that a WebSocket is here, to who asks for something else."""
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    raise Problem(426, "websocket-needed", "this path takes WebSocket handshakes", headers=headers)
