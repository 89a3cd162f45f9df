"""An atomic batch publish (ADR-50) in one HTTP request: all of its messages are stored, or none."""

from starlette.responses import Response

from core.client import ClientError, MessageColumns, PayloadTooLarge, ReplyBatch, read_ack
from core.errors import ApiError
from core.runtime.nuid import nuid
from core.runtime.step_queue import step_queue
from gateway.http.problems import Problem, bad_request, problem_of
from gateway.http.responses import json_response, location_of
from gateway.messages.batch_lines import SLICE_LINES, BatchPart, LineDecoder, receipt_problem
from gateway.requests.call import Call

_SLICE_BYTES = 64 * 1024


async def read_lines(call: Call, body: bytes) -> BatchPart:
    """Decode the messages of an NDJSON body, about 64 KiB per loop tick."""
    lines = _lines_of(call)
    part = BatchPart()
    begin = 0
    while begin < len(body):
        end = body.find(b"\n", begin + _SLICE_BYTES) + 1 or len(body)
        piece = [line for line in body[begin:end].split(b"\n") if line.strip()]
        for first in range(0, len(piece), SLICE_LINES):
            part.append(lines.decode(piece[first : first + SLICE_LINES]))
            await step_queue().wait()
        begin = end
        await step_queue().wait()
    return part


def _lines_of(call: Call) -> LineDecoder:
    return LineDecoder(call.gateway.settings, call.gateway.client.info.max_payload)


async def publish_atomic(call: Call, part: BatchPart) -> Response:
    """Publish messages as one atomic batch, and return the receipt as response.

    Raises Problem if nothing is stored. Only after a Problem 504 is the outcome unknown.
    """
    if not part.size:
        raise bad_request("empty-batch", "body: no messages")
    if part.refused:
        raise _at(*min(part.refused.items(), key=lambda item: item[0]))
    batch_id = nuid()
    batch = _stamped(call, part.batch, batch_id.encode())
    replies = call.gateway.js.start_many(batch)
    settled = await replies.settled(call.gateway.settings.publish_timeout)
    _raise_refusal(replies, settled=settled)
    try:
        ack = read_ack(replies.payloads[-1] or b"")
    except ValueError:
        raise Problem(409, "not-a-receipt", _NOT_A_RECEIPT) from None
    if ack.batch != batch_id:
        raise Problem(409, "not-a-receipt", _NOT_A_RECEIPT)
    result: dict[str, object] = {"stream": ack.stream, "seq": ack.seq, "count": ack.count}
    if ack.domain:
        result["domain"] = ack.domain
    if ack.val:
        result["val"] = ack.val
    location = location_of("streams", ack.stream, "messages", str(ack.seq))
    return json_response(result, 201, {"Location": location})


_NOT_A_RECEIPT = "not stored as a batch: the subject belongs to something else than one stream"


def _stamped(call: Call, batch: MessageColumns, batch_id: bytes) -> MessageColumns:
    """Return the messages with the headers of an atomic batch.

    Raises NotPermitted for a subject, or Problem 413 for a message that is too large, before any
    message is sent.
    """
    client = call.gateway.client
    stamped = MessageColumns()
    last = len(batch)
    for place, subject in enumerate(batch.subjects, 1):
        own = batch.headers[place - 1]
        client.check(subject, own)
        commit = b"Nats-Batch-Commit: 1\r\n" if place == last else b""
        headers = b"%bNats-Batch-Id: %b\r\nNats-Batch-Sequence: %d\r\n%b\r\n" % (
            own[:-2] or b"NATS/1.0\r\n",
            batch_id,
            place,
            commit,
        )
        payload = batch.payloads[place - 1]
        if (size := len(headers) + len(payload)) > client.info.max_payload:
            raise _at(place - 1, problem_of(PayloadTooLarge(size, client.info.max_payload)))
        stamped.add(subject, b"", headers, payload)
    return stamped


def _raise_refusal(replies: ReplyBatch, *, settled: bool) -> None:
    """Raise Problem for the first message of an atomic batch that was refused, if any.

    Later messages are then refused only because of it. `settled` False: not all replies arrived in
    time; then Problem 504 is raised if no message was refused.
    """
    last = len(replies.payloads) - 1
    for index, payload in enumerate(replies.payloads):
        status = replies.statuses.get(index, 0)
        if payload is None or (not payload and not status and index < last):
            continue
        problem: Problem | None = None
        if status:
            problem = receipt_problem(payload, status)
        else:
            try:
                read_ack(payload)
            except ApiError as error:
                problem = problem_of(error)
            except (ValueError, ClientError):
                problem = Problem(409, "not-a-receipt", _NOT_A_RECEIPT)
        if problem is not None:
            raise problem if index == last else _at(index, problem)
    if not settled:
        raise receipt_problem(None, 0)


def _at(index: int, problem: Problem) -> Problem:
    """Add the line of a message, counted from 1, to its problem, and return the problem."""
    problem.extra["line"] = index + 1
    return problem
