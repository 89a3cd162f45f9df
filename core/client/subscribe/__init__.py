"""The subscribe API of the client, as ADR-15 describes it.

    push     the server sends messages; with a queue name, to one member of a group
    pull     the client requests messages
    ordered  every message of a stream, each once, in order, across restarts and lost connections

A `Target` names the messages to read, and its stream is found by the subject. Each of the three
binds to the named consumer, or creates one and deletes it at the end.
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
