"""Statuses: which are hidden, which are answered, which are errors (ADR-15, "Automatic Status
Management").

A status is a message whose header block has a status line and whose reply is no ack subject: a
stored message may have such a block too.
"""

import asyncio
from collections.abc import Callable

from core.client.msg import Msg, header_items, status_of

CONTROL = 100
"""Idle heartbeats and requests of flow control."""

HIDDEN = frozenset((0, CONTROL, 404, 408))
"""Statuses that no reader sees and no fetch counts; 0 is none. All others are raised."""

_STALLED = b"nats-consumer-stalled"
_LAST_CONSUMER = b"nats-last-consumer"


class Control:
    """What a status of code 100 says: a heartbeat, or a request of flow control.

    Attributes:
        answer: the subject to publish to, empty where none is asked for.
        last_consumer: the consumer sequence of the last delivery; None where it is not told.
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
    """Return code and text of a status; code 0 when the message is none."""
    return status_of(msg.headers) if msg.headers else (0, "")


class HeartbeatWatch:
    """Raises an alarm when nothing was heard for `seconds`, and again for each such time after it.

    One timer, which looks when it fires: hearing something costs no timer.
    """

    def __init__(self, seconds: float, missed: Callable[[float], None]) -> None:
        self._seconds = seconds
        self._missed = missed
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to watch, as if something had just been heard."""
        if self._seconds > 0:
            self.heard()
            self.stop()
            self._timer = self._loop.call_later(self._seconds, self._look)

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def heard(self) -> None:
        """Note that a message or a status arrived."""
        self._heard = self._loop.time()

    def _look(self) -> None:
        due = self._heard + self._seconds
        now = self._loop.time()
        if now < due:
            self._timer = self._loop.call_at(due, self._look)
            return
        self._heard = now
        self._timer = self._loop.call_later(self._seconds, self._look)
        self._missed(self._seconds)
