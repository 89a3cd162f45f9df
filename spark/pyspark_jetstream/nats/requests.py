"""Requests and their replies, over one subscription of a connection."""

import json
import secrets
from typing import Any

from pyspark_jetstream.nats.connection import Connection
from pyspark_jetstream.nats.errors import NoResponders, ProtocolError, Refused, refused
from pyspark_jetstream.nats.headers import Status, status_of
from pyspark_jetstream.nats.parser import Columns


class Requests:
    """Sender of requests over one connection; several requests may await replies at once.

    All share one wildcard subscription, created with the first request. Each request has its own
    reply subject below it, which is also the token of the request.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._prefix = f"{connection.settings.inbox_prefix}.{secrets.token_hex(11)}"
        self._columns = Columns()
        self._subscribed = False
        self._tokens = 0
        self._open: dict[bytes, Columns] = {}

    def send(self, subject: str, payload: bytes = b"") -> bytes:
        """Send a request; return its token, by which `columns` and `answer` find its replies."""
        token, line = self.operation(subject, payload)
        self.connection.send(line)
        return token

    def operation(self, subject: str, payload: bytes = b"") -> tuple[bytes, bytes]:
        """Prepare a request; return its token and the bytes of its PUB, which the caller sends."""
        if not self._subscribed:
            _, self._columns = self.connection.subscribe(f"{self._prefix}.*")
            self._subscribed = True
        self._tokens += 1
        reply = f"{self._prefix}.{self._tokens}".encode()
        self._open[reply] = Columns()
        line = b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply, len(payload), payload)
        return reply, line

    def columns(self, token: bytes) -> Columns:
        """Return the replies that have arrived for a request, by the token that `send` returned."""
        self._sort()
        return self._open[token]

    def done(self, token: bytes) -> None:
        """Close a request by the token that `send` returned; later replies are dropped."""
        self._open.pop(token, None)

    def _sort(self) -> None:
        """Assign the received replies to their requests; mostly all belong to one request."""
        gathered = self._columns
        if not len(gathered):
            return
        first = gathered.subjects[0]
        if gathered.subjects.count(first) == len(gathered):
            groups = {first: slice(None)}
            whole = self._open.get(first)
            if whole is not None:
                _extend(whole, gathered, groups[first])
        else:
            for place, subject in enumerate(gathered.subjects):
                target = self._open.get(subject)
                if target is not None:
                    _extend(target, gathered, slice(place, place + 1))
        gathered.clear()

    def first(self, token: bytes, what: str, timeout: float = 0.0) -> tuple[bytes, bytes]:
        """Wait for the first reply of a request; return its header block and its payload.

        Args:
            token: Token of the request, which `send` returned.
            `what`: Name of the request, for error messages.
            timeout: Limit of silence in seconds; 0 for that of the settings.

        Raises:
            NoResponders: No subscription serves the subject.
            Timeout: No reply arrived within the timeout.
        """
        connection = self.connection
        connection.wait(
            lambda: len(self.columns(token)) > 0, timeout or connection.settings.timeout, what
        )
        replies = self.columns(token)
        block, payload = replies.headers[0], replies.payloads[0]
        self.done(token)
        status = status_of(block)
        if status is not None and status.code == 503:
            raise NoResponders(f"no responder for {what} at {connection.server}")
        return block, payload

    def api(self, subject: str, body: dict[str, Any] | None = None, timeout: float = 0.0) -> Any:
        """Send a request to JetStream's API, or a similar one; return the JSON object of the reply.

        Args:
            subject: Full subject of the request.
            body: Request as a JSON object; None for an empty one.
            timeout: Limit of silence in seconds; 0 for that of the settings.

        Raises:
            Refused: The reply is an error.
            ProtocolError: The reply is not a JSON object.
        """
        return self.answer(self.send(subject, encoded(body)), subject, timeout)

    def answer(self, token: bytes, subject: str, timeout: float = 0.0) -> Any:
        """Wait for the reply of a request that was sent before; return its JSON object.

        Args:
            token: Token of the request, which `send` or `operation` returned.
            subject: Subject of the request, for error messages.
            timeout: Limit of silence in seconds; 0 for that of the settings.

        Raises:
            Refused: The reply is an error.
            ProtocolError: The reply is not a JSON object.
        """
        block, payload = self.first(token, subject, timeout)
        if not payload:
            status = status_of(block) or Status(0, "an empty answer", {})
            raise Refused(status.code, 0, f"{subject}: {status.text}")
        try:
            answer = json.loads(payload)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise ProtocolError(f"{subject} was answered with no JSON object")
        error = answer.get("error")
        if error:
            raise refused(error)
        return answer


def encoded(body: dict[str, Any] | None) -> bytes:
    """Encode the body of a request as JSON bytes; `b""` for None."""
    return b"" if body is None else json.dumps(body, separators=(",", ":")).encode()


def _extend(target: Columns, source: Columns, part: slice) -> None:
    target.subjects += source.subjects[part]
    target.replies += source.replies[part]
    target.headers += source.headers[part]
    target.payloads += source.payloads[part]
