"""How what buckets hold is read: in order, no further ahead than a slow caller may cost."""

from collections.abc import AsyncIterator

from core.client import ClientError, RequestTimeout
from core.client.subscribe import JsMsg, Limits, OrderedReading, OrderedSubscription
from core.goinput import text_of
from core.model.message import StoredMsg
from core.runtime.tasks import outcome, spawn

READ_S = 5.0
"""How long something that is there may take to come."""


def _repaired(_: ClientError) -> None:
    """Read on: what an ordered subscription repairs is no error here."""


FINITE = OrderedReading(
    on_alarm=_repaired, limits=Limits(512, 1 << 20), inactive=300.0, finite=True
)
"""The messages that are there."""


async def batches(reader: OrderedSubscription) -> AsyncIterator[list[JsMsg]]:
    """Read to the end. Raises ApiError, ClientError, and RequestTimeout when nothing comes."""
    while messages := await reader.batch(within=READ_S):
        yield messages
    if not reader.is_over:
        raise RequestTimeout(reader.stream.encode(), READ_S)


def stored_of(msg: JsMsg) -> StoredMsg:
    """Return a delivered message as it is stored."""
    return StoredMsg(
        subject=text_of(msg.subject),
        seq=msg.stream_seq,
        hdrs=msg.headers,
        data=msg.payload,
        time=msg.time,
    )


def end_reading(reader: OrderedSubscription) -> None:
    """End a reader and its consumer, without waiting for that; else the server will."""
    reader.interrupt()
    spawn(outcome(reader.unsubscribe()), name="reader end")
