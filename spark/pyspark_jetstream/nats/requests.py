"""Requests and their replies over one subscription of a connection."""

import json
import secrets
from typing import Any

from pyspark_jetstream.nats.connection import Connection
from pyspark_jetstream.nats.errors import NoResponders, ProtocolError, Refused, refused
from pyspark_jetstream.nats.headers import Status, status_of
from pyspark_jetstream.nats.parser import Columns


class Requests:
    """Requests of a connection, each with its own replies, by the last token of their subject.

    Several requests may be under way at once. All share one subscription, made with the first.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._prefix = f"{connection.settings.inbox_prefix}.{secrets.token_hex(11)}"
        self._columns = Columns()
        self._subscribed = False
        self._tokens = 0
        self._open: dict[bytes, Columns] = {}

    def send(self, subject: str, payload: bytes = b"") -> bytes:
        """Send a request; return the token by which `columns` finds its replies."""
        token, line = self.operation(subject, payload)
        self.connection.send(line)
        return token

    def operation(self, subject: str, payload: bytes = b"") -> tuple[bytes, bytes]:
        """Return the token of a new request and the bytes of its operation, without sending it."""
        if not self._subscribed:
            _, self._columns = self.connection.subscribe(f"{self._prefix}.*")
            self._subscribed = True
        self._tokens += 1
        reply = f"{self._prefix}.{self._tokens}".encode()
        self._open[reply] = Columns()
        line = b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply, len(payload), payload)
        return reply, line

    def columns(self, token: bytes) -> Columns:
        """Return the replies that have arrived for an open request."""
        self._sort()
        return self._open[token]

    def done(self, token: bytes) -> None:
        """Forget a request; its later replies are dropped."""
        self._open.pop(token, None)

    def _sort(self) -> None:
        """Assign the gathered replies to their requests; mostly all belong to one."""
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

        Raises:
            NoResponders: No subscription serves the subject.
            Timeout: No reply came within the timeout (seconds; 0 means that of the settings).
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
        """Send a request to JetStream's API, or a similar one; return the JSON of the answer.

        Raises:
            Refused: The answer is an error.
        """
        return self.answer(self.send(subject, encoded(body)), subject, timeout)

    def answer(self, token: bytes, subject: str, timeout: float = 0.0) -> Any:
        """Return the JSON answer of a request sent before; raises as `api`."""
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
    """Return a request body as JSON; `b""` for None."""
    return b"" if body is None else json.dumps(body, separators=(",", ":")).encode()


def _extend(target: Columns, source: Columns, part: slice) -> None:
    target.subjects += source.subjects[part]
    target.replies += source.replies[part]
    target.headers += source.headers[part]
    target.payloads += source.payloads[part]
