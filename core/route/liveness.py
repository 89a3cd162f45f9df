"""Detects dead servers at the other end of a route: a live one sends data or accepts output.

A server whose process is stopped, or whose packets are dropped, closes no connection. After a
second of silence it gets a PING each second, which every live server answers at once. After
`SILENCE_S` of silence it counts as dead. Only time in which this server itself ran counts: after a
stall of its own, received data is still unread. A long output may delay a PING on a slow line, so a
server counts as alive while its socket accepts output.
"""

from core.units import NANOS_PER_SECOND, Seconds

SILENCE_S = 4.0
"""Seconds of silence after which the other server counts as dead."""
_PING_S = 1.0
"""Seconds of silence before the first PING, and between further ones."""
_UPDATE_S = 0.5
"""Largest time, in seconds, that one call of `update` adds to the silence.

Calls are more frequent than that, except after a stall of this server.
"""


class PeerLiveness:
    """The silence and round trips of the server at the other end of a route.

    All times are in nanoseconds of the monotonic clock.

    Attributes:
        last_read: Time at which data was last read.
        rtt: The last round trip of a PING; 0 before the first.
    """

    def __init__(self, now: int) -> None:
        self.last_read = now
        self.rtt = 0
        self._silence = 0
        self._updated = self._pinged = self._moved = now
        self._taken = self._unsent = 0
        self._is_answered = True

    def record_read(self, now: int) -> None:
        """Record that data was read at the time `now`, in monotonic nanoseconds."""
        self.last_read = now
        self._silence = 0

    def pinged(self, now: int) -> None:
        """Record that a PING was sent at the time `now`, in monotonic nanoseconds."""
        self._pinged = now
        self._is_answered = False

    def answered(self, now: int) -> None:
        """Record that a PONG was read at the time `now`, in monotonic nanoseconds.

        The round trip `rtt` is computed from it.
        """
        if not self._is_answered:
            self._is_answered = True
            self.rtt = max(now - self._pinged, 1)

    def update(self, now: int, taken: int, unsent: int) -> None:
        """Update the silence of the other server and the progress of output.

        Called every 0.25 seconds.

        Args:
            now: Monotonic time, in nanoseconds.
            taken: Number of bytes that the socket has accepted so far.
            unsent: Number of bytes that wait for the socket.
        """
        self._silence += min(now - self._updated, int(_UPDATE_S * NANOS_PER_SECOND))
        self._updated = now
        if not unsent or taken != self._taken:
            self._moved = now
        if unsent and taken != self._taken:
            self._silence = 0
        self._taken, self._unsent = taken, unsent

    def is_silent(self) -> bool:
        """Return whether the other server counts as dead, after `SILENCE_S` of silence."""
        return self._silence >= int(SILENCE_S * NANOS_PER_SECOND)

    def is_stuck(self, now: int, deadline: Seconds) -> bool:
        """Return whether output waits and the socket has accepted none of it for `deadline`
        seconds.
        """
        return self._unsent > 0 and now - self._moved >= int(deadline * NANOS_PER_SECOND)

    def is_ping_due(self, now: int, interval: Seconds) -> bool:
        """Return whether a PING has to be sent at the time `now`, in nanoseconds.

        After a second of silence one is due each second, otherwise one each `interval` seconds.
        """
        asks = self._silence >= int(_PING_S * NANOS_PER_SECOND)
        return now - self._pinged >= int(
            (min(_PING_S, interval) if asks else interval) * NANOS_PER_SECOND
        )
