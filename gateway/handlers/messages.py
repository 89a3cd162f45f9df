"""Messages of a stream: reading and deleting."""

from collections.abc import Mapping

from starlette.responses import Response

from core.client import header_items
from core.model.api_errors import api_error
from core.model.gotime import format_time, parse_time
from core.model.message import MsgGetRequest, StoredMsg
from gateway import entity_tags, rendering
from gateway.call import Call
from gateway.headers import response_headers
from gateway.problems import bad_request
from gateway.responses import JSON, no_content
from gateway.validation import filter_subject, flag, name, sequence

_FOREVER = "private, max-age=86400, immutable"
_ALWAYS_ASK = "private, no-cache"
_NO_TIME = "start_time: not an RFC 3339 time (in a query its + is written %2B)"
# A payload is data: never a page, a script or a frame of this origin.
_INERT = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
}


async def read_message(call: Call) -> Response:
    """Read the message with a sequence."""
    stream = name(call.params["stream"], "stream")
    seq = sequence(call.params["seq"], "sequence")
    if not seq:
        raise bad_request("bad-parameter", "sequence: begins at 1")
    msg = await call.gateway.js.message(stream, MsgGetRequest(seq=seq))
    return _answer(call, stream, msg, _FOREVER)


async def find_message(call: Call) -> Response:
    """Read the last message of a subject, the next one, or the first one since a time."""
    stream = name(call.params["stream"], "stream")
    msg = await call.gateway.js.message(stream, _request(call, call.query))
    return _answer(call, stream, msg, _ALWAYS_ASK)


def _request(call: Call, query: Mapping[str, str]) -> MsgGetRequest:
    settings = call.gateway.settings
    if "last_by" in query:
        if len(query) > 1:
            raise bad_request("bad-parameter", "last_by goes with no other parameter")
        return MsgGetRequest(last_by_subj=filter_subject(query["last_by"], settings))
    if "seq" in query and "start_time" in query:
        raise bad_request("bad-parameter", "seq and start_time exclude each other")
    following = filter_subject(query["next_by"], settings) if "next_by" in query else ""
    if "start_time" in query:
        return MsgGetRequest(next_by_subj=following, start_time=_time(query["start_time"]))
    if not following:
        raise bad_request("bad-parameter", "one of last_by, next_by or start_time is needed")
    seq = sequence(query.get("seq", "1"), "seq")
    return MsgGetRequest(next_by_subj=following, seq=max(seq, 1))


def _time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError:
        raise bad_request("bad-parameter", _NO_TIME) from None


def _answer(call: Call, stream: str, msg: StoredMsg, caching: str) -> Response:
    etag = f'"{msg.seq}"'
    headers = {"ETag": etag, "Cache-Control": caching, "Vary": "Accept"}
    if entity_tags.is_known(call, etag):
        return Response(None, 304, headers=headers)
    if call.accepts(JSON):
        return Response(rendering.stored(stream, msg), headers=headers, media_type=JSON)
    response = Response(msg.data, headers=headers | _INERT)
    own = [
        (b"Nats-Stream", stream.encode()),
        (b"Nats-Subject", msg.subject.encode()),
        (b"Nats-Sequence", b"%d" % msg.seq),
        (b"Nats-Time-Stamp", format_time(msg.time).encode()),
    ]
    taken = {key.lower() for key, _ in own}
    stored = [item for item in header_items(msg.hdrs) if item[0].lower() not in taken]
    shown, media_type = response_headers(own + stored)
    response.raw_headers.append((b"content-type", media_type))
    response.raw_headers.extend(shown)
    return response


async def delete_message(call: Call) -> Response:
    """Delete a message; its payload is overwritten unless `erase=false`."""
    erase = flag(call.query.get("erase", "true"), "erase")
    stream = name(call.params["stream"], "stream")
    seq = sequence(call.params["seq"], "sequence")
    await call.no_body()
    if not seq:
        raise api_error("JSNoMessageFound")
    request = {"seq": seq} if erase else {"seq": seq, "no_erase": True}
    await call.gateway.js.call(f"STREAM.MSG.DELETE.{stream}", request)
    return no_content()
