"""Reading of a bucket's messages in order, with a bounded buffer."""

from collections.abc import AsyncIterator

from core.client import ClientError, RequestTimeout
from core.client.subscribe import BufferLimits, JsMsg, OrderedSettings, OrderedSubscription
from core.goinput import text_of
from core.model.message import StoredMsg
from core.runtime.tasks import outcome, spawn

READ_S = 5.0
"""Seconds within which a stored message must arrive from the server."""


def _repaired(_: ClientError) -> None:
    """Ignore an error that the ordered subscription repairs itself."""


FINITE = OrderedSettings(
    on_alarm=_repaired, limits=BufferLimits(512, 1 << 20), inactive=300.0, finite=True
)
"""Subscription settings for reading the messages that exist now, and no later ones."""


async def batches(reader: OrderedSubscription) -> AsyncIterator[list[JsMsg]]:
    """Yield batches of messages until the end of the subscription.

    Raises ApiError if the server refuses, ClientError if the connection fails, RequestTimeout if no
    message arrives for `READ_S` seconds.
    """
    while messages := await reader.batch(within=READ_S):
        yield messages
    if not reader.is_over:
        raise RequestTimeout(reader.stream.encode(), READ_S)


def stored_of(msg: JsMsg) -> StoredMsg:
    """Convert a message that a consumer delivered to the form of a stored message."""
    return StoredMsg(
        subject=text_of(msg.subject),
        seq=msg.stream_seq,
        hdrs=msg.headers,
        data=msg.payload,
        time=msg.time,
    )


def end_reading(reader: OrderedSubscription) -> None:
    """End a subscription, and delete its consumer in the background.

    If the deletion fails, the server deletes the consumer after its inactivity threshold.
    """
    reader.interrupt()
    spawn(outcome(reader.unsubscribe()), name="reader end")
