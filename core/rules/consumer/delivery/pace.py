"""The pace of deliveries: a rate limit, or the intervals at which messages were stored."""

from collections.abc import Sequence

from core.units import NANOS_PER_SECOND

_SHORT = 1_000_000


class TokenBucket:
    """A rate limit as a token bucket, which holds bytes: delivering a message takes its size.

    A message waits until the bucket holds its size.

    Args:
        rate_bps: Bits per second.
        burst: Capacity in bytes; a larger message costs no more than the capacity.
    """

    __slots__ = ("_burst", "_filled_at", "_need", "_rate", "_tokens")

    def __init__(self, rate_bps: int, burst: int) -> None:
        self._rate = max(rate_bps // 8, 1)
        self._burst = max(burst, 1)
        self._tokens = self._burst
        self._filled_at = 0
        self._need = 0

    def set_rate(self, rate_bps: int) -> None:
        """Change the rate (bits per second); the bytes in the bucket stay."""
        self._rate = max(rate_bps // 8, 1)

    def is_ready(self, now: int) -> bool:
        """Refill the bucket; return whether it holds the size of the message that waits.

        `now` is in monotonic nanoseconds.
        """
        gained = (now - self._filled_at) * self._rate // NANOS_PER_SECOND
        if gained > 0:
            self._tokens = min(self._burst, self._tokens + gained)
            self._filled_at = now
        return self._tokens >= self._need

    def affordable(self, sizes: Sequence[int]) -> int:
        """Return how many of these messages, from the first on, the bucket has enough bytes for.

        `sizes` are in bytes. If the first message has to wait, its size is recorded.
        """
        left, count = self._tokens, 0
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
        """Subtract the bytes of sent messages from the bucket."""
        self._tokens = max(self._tokens - size, 0)

    def deadline(self) -> int | None:
        """Return the time at which the waiting message can be sent, in monotonic nanoseconds.

        None: no message waits.
        """
        missing = self._need - self._tokens
        if missing <= 0:
            return None
        return self._filled_at + -(-missing * NANOS_PER_SECOND // self._rate)


class Replay:
    """The replay policy *original*: messages are delivered at their original intervals.

    The interval of two messages is the difference of the times at which they were stored.
    """

    __slots__ = ("_at", "_time", "due_at")

    def __init__(self) -> None:
        self._time = 0
        self._at = 0
        self.due_at = 0
        """Time at which the waiting message is due, in monotonic nanoseconds (0: none waits)."""

    def may_deliver(self, time: int, now: int) -> bool:
        """Return whether a message is due; if so, the next interval begins.

        Args:
            time: Time at which it was stored, in nanoseconds since the Unix epoch.
            now: Monotonic nanoseconds.
        """
        pause = time - self._time
        if self._time and pause > _SHORT and now < self._at + pause:
            self.due_at = self._at + pause
            return False
        self.due_at = 0
        self._time, self._at = time, now
        return True
