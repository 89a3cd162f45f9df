"""Credit: how much a reader has granted to a feed, and how much it was sent of that."""

from core.client.subscribe.inbox import Limits


class Credit:
    """Cumulative totals of messages and bytes, from the beginning of a feed.

    A grant names the totals, so that one that is repeated, or late, changes nothing. A message may
    be sent while neither total is reached: the bytes may be exceeded by one message, never by two.

    Attributes:
        messages, nbytes: granted in all.
        sent_messages, sent_bytes: sent in all.
    """

    __slots__ = ("messages", "nbytes", "sent_bytes", "sent_messages")

    def __init__(self, messages: int = 0, nbytes: int = 0) -> None:
        self.messages = messages
        self.nbytes = nbytes
        self.sent_messages = 0
        self.sent_bytes = 0

    def grant(self, messages: int, nbytes: int) -> None:
        """Raise the totals to these, where they are higher."""
        self.messages = max(self.messages, messages)
        self.nbytes = max(self.nbytes, nbytes)

    def spend(self, messages: int, nbytes: int) -> None:
        """Note what was sent."""
        self.sent_messages += messages
        self.sent_bytes += nbytes

    @property
    def left(self) -> Limits:
        """What may be sent now; nothing where one of the two is not above 0."""
        return Limits(self.messages - self.sent_messages, self.nbytes - self.sent_bytes)
