"""The only clock of the client."""

import time


class Deadline:
    """A moment `seconds` ahead, by the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that remain, at least 0."""
        return max(0.0, self._at - time.monotonic())

    def passed(self) -> bool:
        return time.monotonic() >= self._at


def pause(seconds: float) -> None:
    """Sleep for `seconds` before another attempt."""
    time.sleep(seconds)


def since() -> float:
    """Return the seconds of a monotonic clock; only differences have a meaning."""
    return time.monotonic()
