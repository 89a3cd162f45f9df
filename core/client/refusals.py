"""What can go wrong on the client's side of a connection."""


class ClientError(Exception):
    """Base of everything that `core.client` raises by itself."""


class ConnectionLost(ClientError):
    """There is no connection, or it ended before the answer came.

    Whether the server acted on what was sent is unknown.
    """

    def __str__(self) -> str:
        return "connection to the NATS server lost"


class ServerRefused(ClientError):
    """The server answered `-ERR` while connecting; carries its text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class NoResponders(ClientError):
    """Nobody listens on the subject of a request."""

    def __init__(self, subject: bytes) -> None:
        super().__init__(subject)
        self.subject = subject

    def __str__(self) -> str:
        return f"no responders for {self.subject.decode(errors='replace')}"


class PayloadTooLarge(ClientError):
    """Headers and payload are more than the server takes, which would end the connection."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return f"a request of {self.size} bytes: the server takes {self.limit}"


class NotPermitted(ClientError):
    """The server would refuse this subject to this user; nothing was sent."""

    def __init__(self, subject: bytes) -> None:
        super().__init__(subject)
        self.subject = subject

    def __str__(self) -> str:
        return f"not permitted: publishing to {self.subject.decode(errors='replace')}"


class RequestTimeout(ClientError):
    """No answer came in time. Whether the request was executed is unknown."""

    def __init__(self, subject: bytes, seconds: float) -> None:
        super().__init__(subject, seconds)
        self.subject = subject
        self.seconds = seconds

    def __str__(self) -> str:
        name = self.subject.decode(errors="replace")
        return f"no answer on {name} within {self.seconds:g} s"
