"""Whether a peer still lives: it speaks, or takes what it is sent.

A peer that is stopped, or whose packets are dropped, closes nothing. Whoever was silent for a
second gets a PING each second, which every server answers at once; who says nothing for `SILENCE_S`
is gone. Only time counts in which this server ran itself: after a stall of its own, what the
peer said meanwhile is yet to be read. A long output may hold a PING up on a slow line; so a peer
counts as alive while it takes some of it.
"""

SILENCE_S = 4.0
"""Silence after which a peer is taken for dead."""
_PING_S = 1.0
"""Silence after which it is asked, and the pause until it is asked again."""
_LOOK_S = 0.5
"""What one look adds to the silence at most; looks are more frequent unless this server stalls."""
_SECOND = 1_000_000_000


class Liveness:
    """What is known of one peer; times in nanoseconds of a monotonic clock.

    Attributes:
        heard: when something was read last.
        rtt: the last round trip of a PING; 0: none yet.
    """

    def __init__(self, now: int) -> None:
        self.heard = now
        self.rtt = 0
        self._silence = 0
        self._looked = self._pinged = self._moved = now
        self._taken = self._unsent = 0
        self._is_answered = True

    def hear(self, now: int) -> None:
        """Take note that something was read."""
        self.heard = now
        self._silence = 0

    def pinged(self, now: int) -> None:
        """Take note that a PING was sent."""
        self._pinged = now
        self._is_answered = False

    def answered(self, now: int) -> None:
        """Take note of a PONG."""
        if not self._is_answered:
            self._is_answered = True
            self.rtt = max(now - self._pinged, 1)

    def look(self, now: int, taken: int, unsent: int) -> None:
        """See what has become of the output: bytes the socket has taken, and has yet to take."""
        self._silence += min(now - self._looked, int(_LOOK_S * _SECOND))
        self._looked = now
        if not unsent or taken != self._taken:
            self._moved = now
        if unsent and taken != self._taken:
            self._silence = 0
        self._taken, self._unsent = taken, unsent

    def is_silent(self) -> bool:
        """Say whether the peer is gone."""
        return self._silence >= int(SILENCE_S * _SECOND)

    def takes_nothing(self, now: int, deadline: float) -> bool:
        """Say whether output has waited for so many seconds, and the socket took none of it."""
        return self._unsent > 0 and now - self._moved >= int(deadline * _SECOND)

    def is_ping_due(self, now: int, interval: float) -> bool:
        """Say whether to send a PING; each `interval` seconds also while the peer speaks."""
        asks = self._silence >= int(_PING_S * _SECOND)
        return now - self._pinged >= int((min(_PING_S, interval) if asks else interval) * _SECOND)
