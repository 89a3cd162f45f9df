"""The state that all feeds over one NATS connection share."""

from core.client import JetStream
from gateway.readers.tail import Tails


class Feeds:
    """JetStream over one NATS connection, and the recent messages of streams that feeds follow.

    Args:
        js: JetStream over the connection.
        items: Maximum number of recent messages per stream and filter.
        nbytes: Maximum size of these messages, in bytes.

    Attributes:
        js: JetStream over the connection.
        tails: The recent messages of each followed stream.
    """

    def __init__(self, js: JetStream, items: int, nbytes: int) -> None:
        self.js = js
        self.tails = Tails(js, items, nbytes)
