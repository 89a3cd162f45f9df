"""The pace of a replay: when to publish messages, by their original times and a factor."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive messages of a replay that are published together; their original times are close.

    Attributes:
        offset: Seconds of original time from the first message of the replay to the window's end.
        last: The last sequence of the window.
        rows: Number of messages.
    """

    offset: float
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Due:
    """The next action of a replay: publish the windows (groups of messages) that are due, or wait.

    Attributes:
        through: Number of windows of the whole replay that are published after this action; equal
            to the present number if none is due.
        wait: Seconds until the next window is due; 0 if one is due now, or none is left.
        behind: Seconds by which the oldest due window is late.
    """

    through: int
    wait: float
    behind: float


class Pace:
    """Schedule of a replay: which windows (groups of messages) are due at a time.

    Args:
        windows: The windows in order; their offsets and sequences ascend.
        speed: Factor by which the replay is faster than the original; None: without waiting.
        most: Largest number of messages of one batch; a larger window is a batch of its own.
    """

    def __init__(self, windows: Sequence[Window], speed: float | None, most: int) -> None:
        self._windows = windows
        self._speed = speed
        self._most = most
        self._times = [w.offset / speed if speed else 0.0 for w in windows]

    def due(self, done: int, elapsed: float) -> Due:
        """Return how many windows (groups of messages) to publish now, or how long to wait.

        The windows that are due and fit into one batch are published together.

        Args:
            done: Number of windows published so far.
            elapsed: Seconds since the start of the replay.
        """
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
