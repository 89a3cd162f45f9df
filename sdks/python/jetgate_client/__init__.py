"""Client of jetgate over HTTP and WebSocket: publish, consume, key-value, objects, feeds.

Writes are repeated without duplicates after lost connections; feeds reconnect and resume.
"""

from jetgate_client.client import Jetgate, connect
from jetgate_client.consuming import Consumption, Delivery
from jetgate_client.errors import (
    BadRequest,
    Conflict,
    ConnectionLost,
    Forbidden,
    JetgateError,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Problem,
    ServerProblem,
    TooManyRequests,
    Unauthorized,
)
from jetgate_client.events import Event
from jetgate_client.feeds import Core, CoreMessage, Dropped, Durable, SocketDelivery, Tail
from jetgate_client.kv import Bucket, Change, Entry
from jetgate_client.objects import (
    Content,
    DigestMismatch,
    DigestMissing,
    Download,
    ObjectChange,
    ObjectInfo,
    ObjectStore,
)
from jetgate_client.payloads import Message, Payload
from jetgate_client.publishing import Outgoing, Receipt
from jetgate_client.retrying import Retry
from jetgate_client.socket import Socket
from jetgate_client.tail import Gap

__all__ = [
    "BadRequest",
    "Bucket",
    "Change",
    "Conflict",
    "ConnectionLost",
    "Consumption",
    "Content",
    "Core",
    "CoreMessage",
    "Delivery",
    "DigestMismatch",
    "DigestMissing",
    "Download",
    "Dropped",
    "Durable",
    "Entry",
    "Event",
    "Forbidden",
    "Gap",
    "Jetgate",
    "JetgateError",
    "Message",
    "NotFound",
    "ObjectChange",
    "ObjectInfo",
    "ObjectStore",
    "OutcomeUnknown",
    "Outgoing",
    "Payload",
    "PreconditionFailed",
    "Problem",
    "Receipt",
    "Retry",
    "ServerProblem",
    "Socket",
    "SocketDelivery",
    "Tail",
    "TooManyRequests",
    "Unauthorized",
    "connect",
]
