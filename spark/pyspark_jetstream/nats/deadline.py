"""Deadlines and pauses by the monotonic clock; the client uses no other clock."""

import time


class Deadline:
    """A deadline `seconds` after its creation, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds until the deadline; 0 after it."""
        return max(0.0, self._at - time.monotonic())

    def passed(self) -> bool:
        return time.monotonic() >= self._at


def pause(seconds: float) -> None:
    """Block for `seconds`, as a pause before another attempt."""
    time.sleep(seconds)


def since() -> float:
    """Return the current reading of the monotonic clock, in seconds.

    Only the difference of two readings has a meaning.
    """
    return time.monotonic()
