"""HTTP handlers of publishes: one message, a batch, an atomic batch."""

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
from gateway.messages.batch_lines import (
    SLICE_LINES,
    BatchPart,
    LineDecoder,
    ResultCounter,
    receipt_problem,
)
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
        raise Problem(
            413, "body-too-large", "headers and body: larger than max_payload of the server"
        )
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

    The response has one result per message, in the same order. If a message is refused, the others
    are still published.
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
        part = await atomic_batch.read_lines(call, await call.body(settings.atomic_body_max))
    elif media_type == JSON:
        part = BatchPart()
        for each in await _parts(call, await call.body(settings.json_body_max)):
            part.append(each)
    else:
        raise _unsupported()
    return await atomic_batch.publish_atomic(call, part)


def _unsupported() -> Problem:
    detail = f"Content-Type: {NDJSON} or {JSON} is needed"
    return Problem(415, "unsupported-media-type", detail)


async def _array(call: Call) -> Response:
    gateway = call.gateway
    parts = await _parts(call, await call.body(gateway.settings.json_body_max))
    for part in parts:
        if len(part.batch):
            part.replies = gateway.js.start_many(part.batch)
    timeout = gateway.settings.publish_timeout
    results: list[bytes] = []
    for part in parts:
        if part.replies is not None:
            await idempotency.await_acks(gateway.js, part.batch, part.replies, timeout)
        results += part.results(ResultCounter(brief=False))
        if len(parts) > 1:
            await step_queue().wait()
    return Response(b"[" + b",".join(results) + b"]", media_type=JSON)


async def _parts(call: Call, body: bytes) -> list[BatchPart]:
    """Decode a JSON array of messages, 2048 messages per loop tick.

    Raises Problem 400 if the body is not an array, 413 for too many messages.
    """
    await call.wait_for_tick(len(body))
    try:
        items = msgspec.json.decode(body, type=list[Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise bad_request("bad-json", "body: not a JSON array of messages") from None
    most = call.gateway.settings.batch_unacked_max
    if len(items) > most:
        raise Problem(413, "body-too-large", f"body: more than {most} messages; send lines of JSON")
    lines = LineDecoder(call.gateway.settings, call.gateway.client.info.max_payload)
    parts: list[BatchPart] = []
    for begin in range(0, len(items), SLICE_LINES):
        if begin:
            await step_queue().wait()
        part = BatchPart()
        for item in items[begin : begin + SLICE_LINES]:
            lines.decode_line(part, item)
        parts.append(part)
    return parts
