"""Publishes that are repeated with the same message id and the same condition.

JetStream looks at the expected sequences before it looks for a duplicate, so the repetition of a
publish that was stored, and made its own condition untrue, would be refused.
"""

from uuid import uuid4

from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.message import PubAck
from gateway.call import Call
from gateway.headers import Items, block

WRONG_SEQUENCE = (
    err_code("JSStreamWrongLastSequence"),
    err_code("JSStreamWrongLastSequenceConstant"),
)
_ID = b"Nats-Msg-Id"


async def publish(call: Call, subject: bytes, payload: bytes, items: Items) -> PubAck:
    """Publish; what was stored before under this id is a duplicate, whatever its condition.

    Raises ApiError, ClientError, ValueError.
    """
    publisher = call.gateway.publisher
    try:
        return await publisher.publish(subject, payload, block(items))
    except ApiError as error:
        asked = [item for item in items if item[0] == _ID]
        if error.err_code not in WRONG_SEQUENCE or not asked:
            raise
        # A duplicate is noticed before the last id is compared, and no message has this one: the
        # question is answered, and nothing is stored.
        asked.append((b"Nats-Expected-Last-Msg-Id", uuid4().hex.encode()))
        try:
            return await publisher.publish(subject, b"", block(asked))
        except ApiError:
            raise error from None
