"""The asyncio NATS client that the HTTP gateway, the commands and remotes use.

`connect` opens a `Client` over one of two links: a TCP socket (`tcp.dial`), or a session of a
server in the same process (`loopback.attach`). `JetStream` has the stream and consumer API.
"""

from core.client.answers import Answers
from core.client.client import Client, Subscription, Watch, connect
from core.client.errors import (
    ClientError,
    ConnectionLost,
    NoResponders,
    NotPermitted,
    PayloadTooLarge,
    RequestTimeout,
    ServerRefused,
)
from core.client.jetstream import JetStream, direct_message, read_ack
from core.client.link import Connector, Link
from core.client.loopback import attach
from core.client.msg import Msg, header_block, header_items, status_of
from core.client.options import Options
from core.client.pull import Fetched, Pull
from core.client.replies import ReplyBatch
from core.client.tcp import dial
from core.protocol.messages import MessageColumns

__all__ = [
    "Answers",
    "Client",
    "ClientError",
    "ConnectionLost",
    "Connector",
    "Fetched",
    "JetStream",
    "Link",
    "MessageColumns",
    "Msg",
    "NoResponders",
    "NotPermitted",
    "Options",
    "PayloadTooLarge",
    "Pull",
    "ReplyBatch",
    "RequestTimeout",
    "ServerRefused",
    "Subscription",
    "Watch",
    "attach",
    "connect",
    "dial",
    "direct_message",
    "header_block",
    "header_items",
    "read_ack",
    "status_of",
]
