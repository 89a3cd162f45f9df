"""What the ways to read a range of a stream have in common."""

from dataclasses import dataclass
from typing import Any

from pyspark_jetstream.nats.errors import NatsError
from pyspark_jetstream.nats.raw import Raw
from pyspark_jetstream.nats.requests import Requests


class NotServed(NatsError):
    """This way to read does not work for the stream; another one may."""


class Behind(NatsError):
    """Whoever answers reads has not yet copied what the leader has."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is asked for at once. A page holds as much, and one more is under way."""

    rows: int = 4096
    bytes: int = 4 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """What is read of a stream: sequences `first` to `last`, of subjects that match a filter.

    Without filters every subject is read.
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
        """The JSON that answers `subject`, which is given without the prefix."""
        return self.requests.api(f"{self.prefix}.{subject}", body, timeout)

    def info(self, stream: str) -> dict[str, Any]:
        """STREAM.INFO."""
        return dict(self.call(f"STREAM.INFO.{stream}"))

    def info_beside(self, stream: str, operation: bytes) -> tuple[bytes, str]:
        """Ask for STREAM.INFO in one write with another operation, which is answered behind it.

        Returns the token and the subject, for `Requests.answer`.
        """
        subject = f"{self.prefix}.STREAM.INFO.{stream}"
        token, line = self.requests.operation(subject)
        self.connection.send(line + operation)
        return token, subject
