"""Idempotent publishes: a repetition with the same message id and condition gets the first receipt.

JetStream checks expected sequences before duplicates. So it refuses the repetition of a publish
that was stored, because the stored message changed the sequence. After a refusal of a publish with
an id, a query follows: an empty message with the same id, and `Nats-Expected-Last-Msg-Id` with an
id that no message has. JetStream detects a duplicate before it compares that condition. So the
query gets the receipt of the stored message, and is itself never stored.
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
    """Return the header block of a query for a stored message with the same message id.

    Empty if `headers` have no message id. The module docstring describes the query.
    """
    found = _ID.search(headers)
    if found is None:
        return b""
    nobody = uuid4().hex.encode()
    return block([(b"Nats-Msg-Id", found[1]), (b"Nats-Expected-Last-Msg-Id", nobody)])


async def publish(call: Call, subject: bytes, payload: bytes, headers: bytes) -> PubAck:
    """Publish a message. If a message with the same id is stored, returns its receipt as duplicate.

    `headers` is a complete header block or empty. Raises ApiError if the stream refuses the
    message, ClientError if the server does not respond, ValueError if the reply is not a receipt.
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
    """Wait at most `within` seconds for the replies to a batch, and write them into `replies`.

    A refused publish may repeat a message that is stored already; then its reply becomes the
    receipt of that message, as a duplicate. A publish without a reply in time, or before the
    connection ends, stays without one.
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
    """Return True if the reply to a publish refuses it for a wrong expected sequence."""
    try:
        read_ack(answer)
    except ApiError as error:
        return error.err_code in WRONG_SEQUENCE
    except ValueError:
        pass
    return False
