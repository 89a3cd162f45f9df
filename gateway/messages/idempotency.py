"""Idempotent publishes: repetitions with the same message id and the same condition.

JetStream checks expected sequences before duplicates. So it would refuse the repetition of a
publish that was stored and thereby made its own condition false. A refused publish with an id is
followed by a query: an empty message with the same id, and the condition that the last id is one
that no message has. JetStream detects a duplicate before it compares that condition, so the query
gets the receipt, and nothing is stored.
"""

import re
from contextlib import suppress
from uuid import uuid4

from core.client import ClientError, JetStream, MessageColumns, ReplyBatch, read_ack
from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.message import PubAck
from gateway.formats.message_headers import block
from gateway.requests.call import Call

WRONG_SEQUENCE = (
    err_code("JSStreamWrongLastSequence"),
    err_code("JSStreamWrongLastSequenceConstant"),
)
_ID = re.compile(rb"\r\nNats-Msg-Id: ([^\r]*)\r\n")
_SUCCESS = b'{"stream":'


def duplicate_query(headers: bytes) -> bytes:
    """Return the header block of the query whether a message is stored; empty without an id."""
    found = _ID.search(headers)
    if found is None:
        return b""
    nobody = uuid4().hex.encode()
    return block([(b"Nats-Msg-Id", found[1]), (b"Nats-Expected-Last-Msg-Id", nobody)])


async def publish(call: Call, subject: bytes, payload: bytes, headers: bytes) -> PubAck:
    """Publish; a message stored before under this id counts as a duplicate under any condition.

    `headers` is a complete block or empty. Raises ApiError, ClientError, ValueError.
    """
    publisher = call.gateway.publisher
    try:
        return await publisher.publish(subject, payload, headers)
    except ApiError as error:
        query = duplicate_query(headers) if error.err_code in WRONG_SEQUENCE else b""
        if not query:
            raise
        try:
            return await publisher.publish(subject, b"", query)
        except ApiError:
            raise error from None


async def await_acks(
    js: JetStream, batch: MessageColumns, replies: ReplyBatch, within: float
) -> None:
    """Wait for the replies to a batch; messages stored before become duplicates.

    A publish without a reply in `within` seconds, or before the connection ends, stays without one.
    """
    with suppress(ClientError):
        await replies.settled(within)
        if batch.has_headers:
            await _query_duplicates(js, batch, replies, within)


async def _query_duplicates(
    js: JetStream, batch: MessageColumns, replies: ReplyBatch, within: float
) -> None:
    queries = MessageColumns()
    refusals: dict[int, bytes] = {}
    for place, (headers, answer) in enumerate(zip(batch.headers, replies.payloads, strict=True)):
        if not headers or not answer or answer.startswith(_SUCCESS) or not is_refused(answer):
            continue
        if query := duplicate_query(headers):
            queries.add(batch.subjects[place], b"", query, b"")
            refusals[place] = answer
            replies.payloads[place] = None  # without a reply the outcome is unknown
    if not refusals:
        return
    query_replies = js.start_many(queries)
    await query_replies.settled(within)
    for (place, refusal), answer in zip(refusals.items(), query_replies.payloads, strict=True):
        if answer is not None:
            replies.payloads[place] = answer if answer.startswith(_SUCCESS) else refusal


def is_refused(answer: bytes) -> bool:
    """Return whether the reply to a publish refuses it for a wrong expected sequence."""
    try:
        read_ack(answer)
    except ApiError as error:
        return error.err_code in WRONG_SEQUENCE
    except ValueError:
        pass
    return False
