"""The pace of a replay: the times of messages, scaled by a factor."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """Messages that are published together.

    Attributes:
        offset: Seconds, in the time of the messages, from the first message to the end of the
            window.
        last: The last sequence of the window.
        rows: Number of its messages.
    """

    offset: float
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Due:
    """The next step of a replay.

    Attributes:
        through: Number of windows, from the first, that are published after this batch; unchanged
            if nothing is due.
        wait: Seconds until the next window is due; 0 if one is due now.
        behind: Seconds by which the oldest due window is late.
    """

    through: int
    wait: float
    behind: float


class Pace:
    """The pace of a replay.

    Args:
        windows: In order; their offsets and sequences ascend.
        speed: Factor of time; None publishes without waiting.
        most: Largest number of messages of one batch; a larger window is a batch of its own.
    """

    def __init__(self, windows: Sequence[Window], speed: float | None, most: int) -> None:
        self._windows = windows
        self._speed = speed
        self._most = most
        self._times = [w.offset / speed if speed else 0.0 for w in windows]

    def due(self, done: int, elapsed: float) -> Due:
        """Return the next step after `done` windows, `elapsed` seconds after the start."""
        ready = bisect_right(self._times, elapsed)
        if ready <= done:
            wait = self._times[done] - elapsed if done < len(self._windows) else 0.0
            return Due(done, wait, 0.0)
        through, rows = done, 0
        while through < ready and (through == done or rows + self._next(through) <= self._most):
            rows += self._next(through)
            through += 1
        behind = elapsed - self._times[done] if self._speed else 0.0
        return Due(through, 0.0, behind)

    def _next(self, place: int) -> int:
        return self._windows[place].rows
