"""A timer for wall-clock times, which the event loop does not support.

The loop counts monotonic time, in whole milliseconds. The database clock may run up to a tenth
faster or slower (`core.storage.database_time`), and a machine may sleep. So a wake-up does not
imply that the time has come: the timer reads the clock, and waits for the rest if it woke up early.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from core.runtime.clock import Clock

_MILLISECOND: Final = 1_000_000
_NEAR_NS: Final = 100 * _MILLISECOND
"""Longest wait that is not divided: a clock that is a tenth faster makes it 10 ms late."""
_LONGEST_NS: Final = 60_000 * _MILLISECOND
"""Longest single wait: monotonic time stops while the machine sleeps."""


def monotonic_wait(left: int) -> int:
    """Return the monotonic wait in nanoseconds before the wall clock is read again.

    Except for short waits, it is never longer than the wall clock takes for `left` nanoseconds if
    that clock runs at most a tenth faster.
    """
    return min(left - left // 11, _LONGEST_NS) if left > _NEAR_NS else left


class WallTimer:
    """A timer that calls back at a wall-clock time: never before, and soon after.

    Args:
        clock: The clock.
        due: Called once for each time that is armed.
    """

    def __init__(self, clock: Clock, due: Callable[[], None]) -> None:
        self._clock = clock
        self._due = due
        self._handle: asyncio.TimerHandle | None = None
        self.at = 0

    @property
    def is_armed(self) -> bool:
        """True while the timer waits."""
        return self._handle is not None

    def arm(self, at: int) -> None:
        """Call back at a time in nanoseconds of the clock; this replaces the armed time."""
        self.cancel()
        self.at = at
        self._wait(max(at - self._clock.now(), 0))

    def cancel(self) -> None:
        """Cancel the armed time, if any."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _wait(self, left: int) -> None:
        milliseconds = -(-monotonic_wait(left) // _MILLISECOND)
        loop = asyncio.get_running_loop()
        self._handle = loop.call_later(milliseconds / 1000, self._wake)

    def _wake(self) -> None:
        left = self.at - self._clock.now()
        if left > 0:
            self._wait(left)
            return
        self._handle = None
        self._due()
