"""The one clock of the client."""

import time


class Deadline:
    """A moment some seconds ahead."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that remain, at least 0."""
        return max(0.0, self._at - time.monotonic())

    def passed(self) -> bool:
        return time.monotonic() >= self._at


def pause(seconds: float) -> None:
    """Wait before something is tried again."""
    time.sleep(seconds)


def since() -> float:
    """Seconds of a clock that never goes back; only differences mean something."""
    return time.monotonic()
