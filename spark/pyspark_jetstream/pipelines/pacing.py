"""When a replay publishes what: the times of messages, stretched or squeezed by a factor."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """Messages that are published together.

    Args:
        offset: Seconds, in the time of the messages, from the first message to the end of the
            window.
        last: The last sequence of the window.
        rows: How many messages it holds.
    """

    offset: float
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Due:
    """What to do now.

    Args:
        through: How many windows, from the first, are to be published with this batch; as many as
            before means that nothing is due.
        wait: Seconds until the next window is due; 0 when something is due now.
        behind: Seconds that the oldest of the due windows is late.
    """

    through: int
    wait: float
    behind: float


class Pace:
    """The pace of a replay.

    Args:
        windows: In order; their offsets and sequences ascend.
        speed: Factor of time; None publishes without waiting.
        most: Messages of one batch; a window that holds more is a batch by itself.
    """

    def __init__(self, windows: Sequence[Window], speed: float | None, most: int) -> None:
        self._windows = windows
        self._speed = speed
        self._most = most
        self._times = [w.offset / speed if speed else 0.0 for w in windows]

    def due(self, done: int, elapsed: float) -> Due:
        """What is to be published after `done` windows, `elapsed` seconds after the begin."""
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
