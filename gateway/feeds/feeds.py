"""What the feeds over one client have in common."""

from core.client import JetStream
from gateway.feeds.tail import Tails


class Feeds:
    """What is read of streams over a client.

    Attributes:
        js: JetStream over the client.
        tails: of the streams that are followed.
    """

    def __init__(self, js: JetStream, items: int, nbytes: int) -> None:
        self.js = js
        self.tails = Tails(js, items, nbytes)
