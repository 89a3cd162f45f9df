"""Status messages: hidden, answered or raised (ADR-15, "Automatic Status Management").

A status is a message whose header block has a status line and whose reply is no ack subject. The
reply decides, because a stored message may have such a header block too.
"""

import asyncio
from collections.abc import Callable

from core.client.msg import Msg, header_items, status_of

CONTROL = 100
"""The status of idle heartbeats and flow control requests."""

HIDDEN = frozenset((0, CONTROL, 404, 408))
"""Statuses that neither reach a reader nor count in a fetch; 0: no status. All others are
raised."""

_STALLED = b"nats-consumer-stalled"
_LAST_CONSUMER = b"nats-last-consumer"


class Control:
    """A message with status 100: an idle heartbeat, or a flow control request.

    Attributes:
        answer: The subject to publish a reply to; empty if none is requested.
        last_consumer: The consumer sequence of the last delivery; None if the message contains
            none.
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
    """Return code and text of a status message; code 0 for any other message."""
    return status_of(msg.headers) if msg.headers else (0, "")


class HeartbeatWatch:
    """The alarm for missed heartbeats: raised after each `seconds` without a message or status.

    One timer compares times when it fires, so an arriving message does not touch the timer.
    """

    def __init__(self, seconds: float, missed: Callable[[float], None]) -> None:
        self._seconds = seconds
        self._missed = missed
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start watching, with the silence counted from now."""
        if self._seconds > 0:
            self.reset()
            self.stop()
            self._timer = self._loop.call_later(self._seconds, self._check)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reset(self) -> None:
        """Record that a message or a status arrived."""
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
