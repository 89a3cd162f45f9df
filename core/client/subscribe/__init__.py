"""The subscribe API of the client, as described in ADR-15.

    push     the server sends messages; with a queue name, to one member of a group
    pull     the client requests messages
    ordered  every message of a stream, each once, in order, across restarts and lost connections

A `SubscriptionTarget` selects the messages; without a stream name, the stream is found by the
subject. Each kind reads from the named consumer, or creates one and deletes it at the end.
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
from core.client.subscribe.message_buffer import BufferLimits
from core.client.subscribe.ordered import OrderedSettings, OrderedSubscription, Position, ordered
from core.client.subscribe.pull import FetchOptions, PullSubscription, pull
from core.client.subscribe.push import PushSettings, PushSubscription, push
from core.client.subscribe.target import SubscriptionTarget, target_of

__all__ = [
    "Acking",
    "Alarm",
    "BufferLimits",
    "FetchOptions",
    "HandlerFailed",
    "HeartbeatsMissed",
    "Interrupted",
    "JsMsg",
    "MessagesMissed",
    "NotDeleted",
    "NotJetStream",
    "OrderedSettings",
    "OrderedSubscription",
    "Position",
    "PositionLost",
    "PullSubscription",
    "PushSettings",
    "PushSubscription",
    "Reason",
    "SlowConsumer",
    "StatusRaised",
    "SubscribeError",
    "SubscriptionTarget",
    "ack_fields",
    "ordered",
    "pull",
    "push",
    "target_of",
]
