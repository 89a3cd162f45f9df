"""HTTP handlers of stored messages: read and delete."""

from collections.abc import Mapping

from starlette.responses import Response

from core.model.api_errors import api_error
from core.model.message import MsgGetRequest, StoredMsg
from gateway.formats import rendering
from gateway.formats.models import ReadRequest
from gateway.formats.raw_messages import INERT, Origin, not_modified, shown_headers
from gateway.formats.validation import filter_subject, flag, instant, name, sequence, struct
from gateway.http.problems import bad_request
from gateway.http.responses import JSON, no_content
from gateway.messages.multi_get import BatchRead, read_response
from gateway.requests import entity_tags
from gateway.requests.call import Call

_FOREVER = "private, max-age=86400, immutable"
_ALWAYS_ASK = "private, no-cache"
_NO_TIME = "not an RFC 3339 time (in a query its + is written %2B)"


async def read_message(call: Call) -> Response:
    """Read the message with a sequence.

    Its payload is the body and its headers are response headers `Nats-H-<Name>`. With `Accept:
    application/json` the response is one JSON object.
    """
    stream = name(call.params["stream"], "stream")
    seq = sequence(call.params["seq"], "sequence")
    if not seq:
        raise bad_request("bad-parameter", "sequence: 0, at least 1")
    msg = await call.gateway.js.message(stream, MsgGetRequest(seq=seq))
    return _answer(call, stream, msg, _FOREVER)


async def find_message(call: Call) -> Response:
    """Read the last message of a subject, the next one, or the first one since a time.

    The response has the form of a read by sequence.
    """
    stream = name(call.params["stream"], "stream")
    msg = await call.gateway.js.message(stream, _request(call, call.query))
    return _answer(call, stream, msg, _ALWAYS_ASK)


def _request(call: Call, query: Mapping[str, str]) -> MsgGetRequest:
    settings = call.gateway.settings
    if "last_by" in query:
        if len(query) > 1:
            raise bad_request("bad-parameter", "last_by excludes all other parameters")
        return MsgGetRequest(last_by_subj=filter_subject(query["last_by"], settings))
    if "seq" in query and "start_time" in query:
        raise bad_request("bad-parameter", "seq and start_time exclude each other")
    following = filter_subject(query["next_by"], settings) if "next_by" in query else ""
    if "start_time" in query:
        return MsgGetRequest(
            next_by_subj=following, start_time=_time(query["start_time"], "start_time")
        )
    if not following:
        raise bad_request("bad-parameter", "one of last_by, next_by and start_time is needed")
    seq = sequence(query.get("seq", "1"), "seq")
    return MsgGetRequest(next_by_subj=following, seq=max(seq, 1))


async def read_messages(call: Call) -> Response:
    """Read many messages: consecutive ones, or the last one of each subject.

    The response is JSON, or NDJSON whose last line has the `end`. The stream needs `allow_direct`.
    """
    stream = name(call.params["stream"], "stream")
    request = struct(ReadRequest, await call.json_body())
    return await read_response(BatchRead(call, stream, _many(call, request)))


def _many(call: Call, request: ReadRequest) -> MsgGetRequest:
    settings = call.gateway.settings
    batch = request.batch or settings.fetch_batch_default
    if batch > settings.fetch_batch_max:
        raise bad_request("bad-parameter", f"batch: more than {settings.fetch_batch_max}")
    as_of = request.up_to_seq is not None or request.up_to_time is not None
    if request.up_to_seq is not None and request.up_to_time is not None:
        raise bad_request("bad-parameter", "up_to_seq and up_to_time exclude each other")
    if request.multi_last is None and as_of:
        raise bad_request("bad-parameter", "up_to_seq and up_to_time need multi_last")
    if request.multi_last is not None and (request.next_by or request.start_time):
        raise bad_request("bad-parameter", "multi_last excludes next_by and start_time")
    if request.seq is not None and request.start_time is not None:
        raise bad_request("bad-parameter", "seq and start_time exclude each other")
    start = _optional_time(request.start_time, "start_time")
    first = 1 if request.multi_last is None and start is None else 0
    return MsgGetRequest(
        seq=request.seq or first,
        start_time=start,
        next_by_subj=filter_subject(request.next_by, settings) if request.next_by else "",
        multi_last=tuple(filter_subject(text, settings) for text in request.multi_last or ()),
        up_to_seq=request.up_to_seq or 0,
        up_to_time=_optional_time(request.up_to_time, "up_to_time"),
        batch=batch,
        max_bytes=min(request.max_bytes or settings.fetch_bytes_max, settings.fetch_bytes_max),
    )


def _optional_time(text: str | None, what: str) -> int | None:
    return None if text is None else _time(text, what)


def _time(text: str, what: str) -> int:
    try:
        return instant(text)
    except ValueError:
        raise bad_request("bad-parameter", f"{what}: {_NO_TIME}") from None


def _answer(call: Call, stream: str, msg: StoredMsg, caching: str) -> Response:
    etag = f'"{msg.seq}"'
    headers = {"ETag": etag, "Cache-Control": caching} | INERT
    if entity_tags.is_known(call, etag):
        return not_modified(headers)
    if call.accepts(JSON):
        return Response(rendering.stored(stream, msg), headers=headers, media_type=JSON)
    response = Response(msg.data, headers=headers)
    origin = Origin(stream, msg.subject.encode(), msg.seq, msg.time)
    shown, media_type = shown_headers(origin, msg.hdrs)
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
