"""Types shared by the three ways to read a stream: Direct Get, a pull consumer, STREAM.MSG.GET."""

from dataclasses import dataclass
from typing import Any

from pyspark_jetstream.nats.errors import NatsError
from pyspark_jetstream.nats.raw import Raw
from pyspark_jetstream.nats.requests import Requests


class NotServed(NatsError):
    """The stream does not support this way of reading it; another way may work."""


class Behind(NatsError):
    """The replica that answers Direct Get has not yet replicated a message of the leader."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The size of one request for messages. Up to two answers of this size are in memory.

    Attributes:
        rows: Largest number of messages.
        bytes: Largest number of bytes.
    """

    rows: int = 4096
    bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """The messages to read from a stream.

    Attributes:
        stream: Name of the stream.
        first, last: Range of sequences, inclusive.
        filters: Subject filters; empty for all subjects.
        headers: True to read header blocks.
        data: True to read payloads.
    """

    stream: str
    first: int
    last: int
    filters: tuple[str, ...] = ()
    headers: bool = True
    data: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a read: the messages that one request returned.

    Attributes:
        raw: Messages by ascending sequence; None if there are none.
        through: The sequence up to which the read is complete.
        info: Response of STREAM.INFO, requested after the messages.
    """

    raw: Raw | None
    through: int
    info: dict[str, Any]


class Api:
    """JetStream's API over one connection, with its subject prefix (`$JS.API` by default)."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.connection = requests.connection
        self.prefix = requests.connection.settings.api_prefix

    def call(self, subject: str, body: dict[str, Any] | None = None, timeout: float = 0.0) -> Any:
        """Send a request to the API; return the JSON object of the response.

        Args:
            subject: Subject without the prefix, such as `STREAM.INFO.ORDERS`.
            body: Request as a JSON object; None for an empty one.
            timeout: Limit of silence in seconds; 0 for that of the settings.

        Raises:
            Refused: The response is an error.
        """
        return self.requests.api(f"{self.prefix}.{subject}", body, timeout)

    def info(self, stream: str) -> dict[str, Any]:
        """Return the response of STREAM.INFO. Raises Refused if the stream does not exist."""
        return dict(self.call(f"STREAM.INFO.{stream}"))

    def info_beside(self, stream: str, operation: bytes) -> tuple[bytes, str]:
        """Send a STREAM.INFO request and after it another operation, in one write.

        Returns token and subject of the STREAM.INFO request, by which `Requests.answer` finds the
        response.
        """
        subject = f"{self.prefix}.STREAM.INFO.{stream}"
        token, line = self.requests.operation(subject)
        self.connection.send(line + operation)
        return token, subject
