"""How fast a consumer may deliver: by a rate in bytes, or as fast as the messages once came."""

from collections.abc import Sequence

_SECOND = 1_000_000_000
_SHORT = 1_000_000


class Bucket:
    """A rate limit: bytes are saved up at a rate, and a message waits until it can be paid.

    Args:
        rate_bps: Bits per second.
        burst: Most bytes that are saved up; a larger message costs no more than that.
    """

    __slots__ = ("_burst", "_filled_at", "_need", "_rate", "_saved")

    def __init__(self, rate_bps: int, burst: int) -> None:
        self._rate = max(rate_bps // 8, 1)
        self._burst = max(burst, 1)
        self._saved = self._burst
        self._filled_at = 0
        self._need = 0

    def set_rate(self, rate_bps: int) -> None:
        """Take another rate; what is saved stays."""
        self._rate = max(rate_bps // 8, 1)

    def is_ready(self, now: int) -> bool:
        """Whether the message that had to wait can be paid now (monotonic nanoseconds)."""
        gained = (now - self._filled_at) * self._rate // _SECOND
        if gained > 0:
            self._saved = min(self._burst, self._saved + gained)
            self._filled_at = now
        return self._saved >= self._need

    def affordable(self, sizes: Sequence[int]) -> int:
        """How many messages of these sizes, from the first on, can be paid."""
        left, count = self._saved, 0
        for size in sizes:
            cost = min(size, self._burst)
            if cost > left:
                self._need = cost if not count else 0
                return count
            left -= cost
            count += 1
        self._need = 0
        return count

    def pay(self, size: int) -> None:
        """Take what was sent out of what is saved."""
        self._saved = max(self._saved - size, 0)

    def deadline(self) -> int | None:
        """When the message that waits can be paid."""
        missing = self._need - self._saved
        if missing <= 0:
            return None
        return self._filled_at + -(-missing * _SECOND // self._rate)


class Replay:
    """Delivers with the pauses that were between the messages when they were stored."""

    __slots__ = ("_at", "_time", "due_at")

    def __init__(self) -> None:
        self._time = 0
        self._at = 0
        self.due_at = 0
        """Monotonic time of the delivery that waits, 0 = none does."""

    def may_deliver(self, time: int, now: int) -> bool:
        """Whether the time of a message has come.

        Args:
            time: When it was stored, wall-clock nanoseconds.
            now: Monotonic nanoseconds.
        """
        pause = time - self._time
        if self._time and pause > _SHORT and now < self._at + pause:
            self.due_at = self._at + pause
            return False
        self.due_at = 0
        self._time, self._at = time, now
        return True
