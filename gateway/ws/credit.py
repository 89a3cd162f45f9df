"""Flow control of WebSocket feeds: the messages and bytes that the client still accepts."""

UNLIMITED = 1 << 62


class FeedCredit:
    """The credit of a feed: totals of messages and bytes since its start, granted and used.

    The last message may exceed the byte credit. Granted totals never fall: a late, repeated or
    smaller grant has no effect.

    Attributes:
        counts_bytes: True if the client limits the bytes.
        granted_msgs: Total number of messages that the client accepts.
        granted_bytes: Total number of bytes that the client accepts.
        used_msgs: Total number of messages sent.
        used_bytes: Total number of bytes sent.
    """

    __slots__ = ("counts_bytes", "granted_bytes", "granted_msgs", "used_bytes", "used_msgs")

    def __init__(self, msgs: int | None = None, nbytes: int | None = None) -> None:
        self.counts_bytes = nbytes is not None
        self.granted_msgs = UNLIMITED if msgs is None else msgs
        self.granted_bytes = UNLIMITED if nbytes is None else nbytes
        self.used_msgs = 0
        self.used_bytes = 0

    def grant(self, msgs: int | None, nbytes: int | None) -> None:
        """Raise the granted totals of messages and bytes to these values.

        None leaves a total unchanged.
        """
        self.granted_msgs = max(self.granted_msgs, msgs or 0)
        self.granted_bytes = max(self.granted_bytes, nbytes or 0)

    def left(self) -> tuple[int, int]:
        """Return the remaining (messages, bytes); (0, 0) if either is used up."""
        msgs = self.granted_msgs - self.used_msgs
        nbytes = self.granted_bytes - self.used_bytes
        return (msgs, nbytes) if msgs > 0 and nbytes > 0 else (0, 0)

    def use(self, msgs: int, nbytes: int) -> None:
        """Add sent messages and bytes to the used totals."""
        self.used_msgs += msgs
        self.used_bytes += nbytes
