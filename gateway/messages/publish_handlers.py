"""Handlers of publishes: one message, a batch, an atomic batch."""

from functools import lru_cache

import msgspec
import orjson
from msgspec import Raw
from starlette.responses import Response

from core.client import NoResponders
from core.runtime.step_queue import step_queue
from gateway.formats.message_headers import publish_block
from gateway.formats.validation import publish_subject
from gateway.http.problems import Problem, bad_request
from gateway.http.responses import JSON, NDJSON, PlainResponse, location_of
from gateway.messages import atomic_batch, idempotency
from gateway.messages.batch_lines import SLICE_LINES, Lines, Run, Tally, receipt_problem
from gateway.messages.batch_publish import PublishStream
from gateway.requests.call import Call

_LINES = (NDJSON, "application/ndjson", "application/jsonl")


async def publish_one(call: Call) -> Response:
    """Publish the body as one message.

    The payload is the body, unchanged, and its `Content-Type` is a header of the message.
    `Nats-H-<Name>` sets the header `<Name>` of the message; `ce-*` are those of a CloudEvent in
    binary mode.
    """
    gateway = call.gateway
    subject = publish_subject(call.params["subject"], gateway.settings)
    headers = publish_block(call.scope["headers"], gateway.settings)
    body = await call.body(gateway.client.info.max_payload)
    if len(body) + len(headers) > gateway.client.info.max_payload:
        raise Problem(413, "body-too-large", "headers and body: larger than the server takes")
    try:
        ack = await idempotency.publish(call, subject, body, headers)
    except NoResponders:
        raise receipt_problem(b"", 503) from None
    except ValueError:
        raise receipt_problem(b"", 0) from None
    receipt: dict[str, object] = {"stream": ack.stream, "seq": ack.seq}
    if ack.domain:
        receipt["domain"] = ack.domain
    if ack.val:
        receipt["val"] = ack.val
    answer = [
        (b"content-type", JSON.encode()),
        (b"location", f"{_messages_of(ack.stream)}{ack.seq}".encode()),
        (b"etag", b'"%d"' % ack.seq),
    ]
    if ack.duplicate:
        receipt["duplicate"] = True
        answer.append((b"idempotency-replayed", b"true"))
    body = orjson.dumps(receipt, option=orjson.OPT_APPEND_NEWLINE)
    return PlainResponse(body, 200 if ack.duplicate else 201, answer)


@lru_cache(1024)
def _messages_of(stream: str) -> str:
    """Return the path of a stream's messages, with the slash before the sequence."""
    return location_of("streams", stream, "messages", "")


async def publish_batch(call: Call) -> Response:
    """Publish many messages: NDJSON streamed both ways, or one JSON array.

    The response has one result per message, in the same order; a refused message stops no other.
    """
    media_type = call.media_type()
    if media_type in _LINES:
        call.refuse_encoding()
        return PublishStream(call, brief=call.prefers("return=minimal"))
    if media_type == JSON:
        return await _array(call)
    raise _unsupported()


async def publish_atomic(call: Call) -> Response:
    """Publish many messages atomically: all of them are stored, or none.

    They belong to one stream, which needs `allow_atomic`. The problem of an invalid message has its
    `line`.
    """
    media_type = call.media_type()
    settings = call.gateway.settings
    if media_type in _LINES:
        run = await atomic_batch.read_lines(call, await call.body(settings.atomic_body_max))
    elif media_type == JSON:
        run = Run()
        for each in await _runs(call, await call.body(settings.json_body_max)):
            run.append(each)
    else:
        raise _unsupported()
    return await atomic_batch.publish_atomic(call, run)


def _unsupported() -> Problem:
    detail = f"Content-Type: {NDJSON} or {JSON} is needed"
    return Problem(415, "unsupported-media-type", detail)


async def _array(call: Call) -> Response:
    gateway = call.gateway
    runs = await _runs(call, await call.body(gateway.settings.json_body_max))
    for run in runs:
        if len(run.batch):
            run.replies = gateway.js.start_many(run.batch)
    timeout = gateway.settings.publish_timeout
    results: list[bytes] = []
    for run in runs:
        if run.replies is not None:
            await idempotency.settle(gateway.js, run.batch, run.replies, timeout)
        results += run.results(Tally(brief=False))
        if len(runs) > 1:
            await step_queue().wait()
    return Response(b"[" + b",".join(results) + b"]", media_type=JSON)


async def _runs(call: Call, body: bytes) -> list[Run]:
    """Decode a JSON array of messages into runs, each in a loop tick of its own. Raises Problem."""
    await call.turn_for(len(body))
    try:
        items = msgspec.json.decode(body, type=list[Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise bad_request("bad-json", "body: not a JSON array of messages") from None
    most = call.gateway.settings.batch_unacked_max
    if len(items) > most:
        raise Problem(413, "body-too-large", f"body: more than {most} messages; send lines of JSON")
    lines = Lines(call.gateway.settings, call.gateway.client.info.max_payload)
    runs: list[Run] = []
    for begin in range(0, len(items), SLICE_LINES):
        if begin:
            await step_queue().wait()
        run = Run()
        for item in items[begin : begin + SLICE_LINES]:
            lines.item(run, item)
        runs.append(run)
    return runs
