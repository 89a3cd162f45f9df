"""Status messages of JetStream: ignored, answered or raised.

Source: ADR-15, "Automatic Status Management". A status message has a status line in its header
block, and its reply subject is not that of a delivery. Without the second condition a stored
message with such a header block would match too.
"""

import asyncio
from collections.abc import Callable

from core.client.msg import Msg, header_items, status_of

CONTROL = 100
"""The status of idle heartbeats and flow control requests."""

HIDDEN = frozenset((0, CONTROL, 404, 408))
"""Statuses that are ignored; 0: no status. All others are raised as `StatusRaised`."""

_STALLED = b"nats-consumer-stalled"
_LAST_CONSUMER = b"nats-last-consumer"


class Control:
    """A message with status 100: an idle heartbeat, or a flow control request.

    Attributes:
        answer: Subject to which a reply must be published; empty if none is requested.
        last_consumer: Consumer sequence of the last delivery; None if the message has none.
    """

    __slots__ = ("answer", "last_consumer")

    def __init__(self, msg: Msg) -> None:
        self.answer = msg.reply
        self.last_consumer: int | None = None
        if msg.reply:
            return
        for name, value in header_items(msg.headers):
            key = name.lower()
            if key == _STALLED:
                self.answer = value
            elif key == _LAST_CONSUMER and value.isdigit():
                self.last_consumer = int(value)


def read_status(msg: Msg) -> tuple[int, str]:
    """Return the status code and text of a message; code 0 if it has no status."""
    return status_of(msg.headers) if msg.headers else (0, "")


class HeartbeatWatch:
    """Calls `missed` after each `seconds` without a message or status; 0 seconds: never.

    Life cycle: `start`, `reset` for each arrival, `stop`. An arrival only records the time; one
    timer compares times when it fires.
    """

    def __init__(self, seconds: float, missed: Callable[[float], None]) -> None:
        self._seconds = seconds
        self._missed = missed
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start watching; the silence counts from now."""
        if self._seconds > 0:
            self.reset()
            self.stop()
            self._timer = self._loop.call_later(self._seconds, self._check)

    def stop(self) -> None:
        """Stop watching. May be called twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reset(self) -> None:
        """Record that a message or a status has arrived."""
        self._heard = self._loop.time()

    def _check(self) -> None:
        due = self._heard + self._seconds
        now = self._loop.time()
        if now < due:
            self._timer = self._loop.call_at(due, self._check)
            return
        self._heard = now
        self._timer = self._loop.call_later(self._seconds, self._check)
        self._missed(self._seconds)
