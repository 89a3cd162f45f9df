"""Feeds: what a reader behind a socket is sent, as far as it grants.

    DurableFeed  a pull consumer; pulls no more than was granted
    OrderedFeed  every message of a stream, in order, from a position on
    CoreFeed     what is published meanwhile; drops what a slow reader has no room for, and counts

All yield lists of messages with `batch`, hold a bounded number of them, and take grants with
`grant`. They are the frame of the façade's WebSocket and SSE feeds around `core.client.subscribe`.
"""

from core.client.feeds.core import CoreFeed, core_feed
from core.client.feeds.credit import Credit
from core.client.feeds.durable import DurableFeed, DurableReading, durable_feed
from core.client.feeds.feed import Feed
from core.client.feeds.ordered import OrderedFeed, ordered_feed

__all__ = [
    "CoreFeed",
    "Credit",
    "DurableFeed",
    "DurableReading",
    "Feed",
    "OrderedFeed",
    "core_feed",
    "durable_feed",
    "ordered_feed",
]
