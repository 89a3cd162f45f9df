"""State that all feeds over one client share."""

from core.client import JetStream
from gateway.readers.tail import Tails


class Feeds:
    """JetStream over a client, and the tails of followed streams.

    Attributes:
        js: JetStream over the client.
        tails: The shared tails of followed streams.
    """

    def __init__(self, js: JetStream, items: int, nbytes: int) -> None:
        self.js = js
        self.tails = Tails(js, items, nbytes)
