"""Types that all ways to read a range of a stream share."""

from dataclasses import dataclass
from typing import Any

from pyspark_jetstream.nats.errors import NatsError
from pyspark_jetstream.nats.raw import Raw
from pyspark_jetstream.nats.requests import Requests


class NotServed(NatsError):
    """The stream does not support this way of reading; another one may work."""


class Behind(NatsError):
    """The answering replica has not yet copied all messages of the leader."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The size of one request. One page holds as much, and one more is under way."""

    rows: int = 4096
    bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """The part of a stream to read: sequences `first` to `last`, of subjects that match a filter.

    Without filters all subjects are read.
    """

    stream: str
    first: int
    last: int
    filters: tuple[str, ...] = ()
    headers: bool = True
    data: bool = True


@dataclass(frozen=True, slots=True)
class Part:
    """Messages in ascending order, complete through a sequence, and STREAM.INFO after them."""

    raw: Raw | None
    through: int
    info: dict[str, Any]


class Api:
    """JetStream's API under a prefix, over the requests of a connection."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.connection = requests.connection
        self.prefix = requests.connection.settings.api_prefix

    def call(self, subject: str, body: dict[str, Any] | None = None, timeout: float = 0.0) -> Any:
        """Return the JSON answer of `subject`, which is given without the prefix."""
        return self.requests.api(f"{self.prefix}.{subject}", body, timeout)

    def info(self, stream: str) -> dict[str, Any]:
        """Return the answer of STREAM.INFO."""
        return dict(self.call(f"STREAM.INFO.{stream}"))

    def info_beside(self, stream: str, operation: bytes) -> tuple[bytes, str]:
        """Send a STREAM.INFO request and another operation in one write, in this order.

        Returns the token and the subject, for `Requests.answer`.
        """
        subject = f"{self.prefix}.STREAM.INFO.{stream}"
        token, line = self.requests.operation(subject)
        self.connection.send(line + operation)
        return token, subject
