"""Reading of the messages of buckets: in order, with a bounded read-ahead."""

from collections.abc import AsyncIterator

from core.client import ClientError, RequestTimeout
from core.client.subscribe import BufferLimits, JsMsg, OrderedSettings, OrderedSubscription
from core.goinput import text_of
from core.model.message import StoredMsg
from core.runtime.tasks import outcome, spawn

READ_S = 5.0
"""Seconds within which a stored message must arrive."""


def _repaired(_: ClientError) -> None:
    """Ignore an error that the ordered subscription repairs."""


FINITE = OrderedSettings(
    on_alarm=_repaired, limits=BufferLimits(512, 1 << 20), inactive=300.0, finite=True
)
"""Options for reading all present messages and no later ones."""


async def batches(reader: OrderedSubscription) -> AsyncIterator[list[JsMsg]]:
    """Yield batches up to the end.

    Raises ApiError, ClientError, and RequestTimeout if nothing comes for `READ_S`.
    """
    while messages := await reader.batch(within=READ_S):
        yield messages
    if not reader.is_over:
        raise RequestTimeout(reader.stream.encode(), READ_S)


def stored_of(msg: JsMsg) -> StoredMsg:
    """Return a delivered message as a stored one."""
    return StoredMsg(
        subject=text_of(msg.subject),
        seq=msg.stream_seq,
        hdrs=msg.headers,
        data=msg.payload,
        time=msg.time,
    )


def end_reading(reader: OrderedSubscription) -> None:
    """End a reader, and delete its consumer in the background.

    If the deletion fails, the server deletes the consumer after its inactivity threshold.
    """
    reader.interrupt()
    spawn(outcome(reader.unsubscribe()), name="reader end")
