"""The subscribe API of the client, as ADR-15 describes it.

    push     messages are sent to the client; with a queue name, to one member of a group
    pull     messages come when they are asked for
    ordered  every message of a stream, each once, in order, over whatever happens meanwhile

`Target` says what is read, and finds its stream by the subject; each of the three binds to the
consumer that is named, or creates one and deletes it in the end.
"""

from core.client.subscribe.acks import Acking, JsMsg, ack_fields
from core.client.subscribe.errors import (
    Alarm,
    HandlerFailed,
    HeartbeatsMissed,
    Interrupted,
    MessagesMissed,
    NotDeleted,
    NotJetStream,
    PositionLost,
    Reason,
    SlowConsumer,
    StatusRaised,
    SubscribeError,
)
from core.client.subscribe.inbox import Limits
from core.client.subscribe.ordered import OrderedReading, OrderedSubscription, Position, ordered
from core.client.subscribe.pull import Fetch, PullSubscription, pull
from core.client.subscribe.push import PushSubscription, Reading, push
from core.client.subscribe.target import Target, target_of

__all__ = [
    "Acking",
    "Alarm",
    "Fetch",
    "HandlerFailed",
    "HeartbeatsMissed",
    "Interrupted",
    "JsMsg",
    "Limits",
    "MessagesMissed",
    "NotDeleted",
    "NotJetStream",
    "OrderedReading",
    "OrderedSubscription",
    "Position",
    "PositionLost",
    "PullSubscription",
    "PushSubscription",
    "Reading",
    "Reason",
    "SlowConsumer",
    "StatusRaised",
    "SubscribeError",
    "Target",
    "ack_fields",
    "ordered",
    "pull",
    "push",
    "target_of",
]
