"""A route to another server without a socket; tests decode its output."""

from collections.abc import Callable
from typing import Any

from core.protocol.messages import MessageColumns
from core.route.route_parser import RouteParser


class ListLink:
    """A route link that appends its output to `out` instead of writing to a socket."""

    closed = False
    blocked = False

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.sent = 0
        self.on_writable: list[Callable[[], None]] = []

    def send(self, lines: bytes, sent: int) -> None:
        self.out.append(lines)
        self.sent += sent

    def messages(self) -> list[tuple[bytes, ...]]:
        """Return subject, reply, headers and payload of each message in `out`.

        Raises AssertionError for a message of another account than `$G` or with queue groups.
        """
        found: list[tuple[bytes, ...]] = []

        class Sink:
            def on_message(self, account: bytes, *message: Any) -> None:
                subject, reply, queues, headers, payload = message
                assert (account, queues) == (b"$G", ())
                found.append((subject, reply, headers, payload))

            def on_batch(self, account: bytes, batch: MessageColumns) -> None:
                for subject, reply, headers, payload in batch.messages():
                    self.on_message(account, subject, reply, (), headers, payload)

        sink: Any = Sink()
        RouteParser(sink).feed(b"".join(self.out))
        return found
