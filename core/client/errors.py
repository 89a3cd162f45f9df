"""The exceptions of the NATS client."""


class ClientError(Exception):
    """The base of the exceptions that `core.client` defines."""


class ConnectionLost(ClientError):
    """No connection to the server exists, or it was lost before the reply arrived.

    In the second case the server may or may not have processed the request.
    """

    def __str__(self) -> str:
        return "connection to the NATS server lost"


class ServerRefused(ClientError):
    """The server refuses the connection (-ERR), or is no NATS server; `text` is the reason."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class NoResponders(ClientError):
    """The subject of a request has no subscription (status 503)."""

    def __init__(self, subject: bytes) -> None:
        super().__init__(subject)
        self.subject = subject

    def __str__(self) -> str:
        return f"no responders for {self.subject.decode(errors='replace')}"


class PayloadTooLarge(ClientError):
    """Headers and payload of a message exceed the server's `max_payload`; it was not sent."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return f"a request of {self.size} bytes: the server takes {self.limit}"


class NotPermitted(ClientError):
    """The user lacks the permission to publish or subscribe to a subject.

    `wanted_by` is the header that requires the permission; empty: the subject itself requires it.
    """

    def __init__(self, subject: bytes, doing: str = "publishing", wanted_by: str = "") -> None:
        super().__init__(subject, doing, wanted_by)
        self.subject = subject
        self.doing = doing
        self.wanted_by = wanted_by

    def __str__(self) -> str:
        by = f" ({self.wanted_by})" if self.wanted_by else ""
        return f"not permitted: {self.doing} to {self.subject.decode(errors='replace')}{by}"


class RequestTimeout(ClientError):
    """No reply arrived in time. The server may or may not have processed the request."""

    def __init__(self, subject: bytes, seconds: float) -> None:
        super().__init__(subject, seconds)
        self.subject = subject
        self.seconds = seconds

    def __str__(self) -> str:
        name = self.subject.decode(errors="replace")
        return f"no answer on {name} within {self.seconds:g} s"


def reason_of(error: Exception) -> str:
    """Return a short text with the reason of a failed connection attempt."""
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
