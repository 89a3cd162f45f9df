"""How what buckets hold is read: in order, no further ahead than a slow caller may cost."""

from core.client import ClientError
from core.client.subscribe import JsMsg, Limits, OrderedReading, OrderedSubscription
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


def stored_of(msg: JsMsg) -> StoredMsg:
    """Return a delivered message as it is stored."""
    return StoredMsg(
        subject=msg.subject.decode(errors="replace"),
        seq=msg.stream_seq,
        hdrs=msg.headers,
        data=msg.payload,
        time=msg.time,
    )


def end_reading(reader: OrderedSubscription) -> None:
    """End a reader and its consumer, without waiting for that; else the server will."""
    reader.interrupt()
    spawn(outcome(reader.unsubscribe()), name="reader end")
