"""A timer for a time of a wall clock, which the event loop does not count by.

The loop counts monotonic time, in whole milliseconds; the database clock may run up to a tenth
faster or slower (`core.storage.database_time`), and a machine may sleep. So a wake-up is never
taken for the time itself: the timer reads the clock, and waits for what is left when it was early.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from core.runtime.clock import Clock

_MILLISECOND: Final = 1_000_000
_NEAR_NS: Final = 100 * _MILLISECOND
"""A wait that is not divided: a clock that is a tenth faster makes it 10 ms late."""
_LONGEST_NS: Final = 60_000 * _MILLISECOND
"""The longest wait at once: monotonic time stands still while the machine sleeps."""


def monotonic_wait(left: int) -> int:
    """Return how long to wait on the monotonic clock before a wall clock is read again.

    Never longer than the wall clock takes for `left`, if it runs at most a tenth faster; short
    waits excepted. Nanoseconds.
    """
    return min(left - left // 11, _LONGEST_NS) if left > _NEAR_NS else left


class WallTimer:
    """Calls back at a time of a wall clock: never before, and soon after.

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
        """Whether it waits."""
        return self._handle is not None

    def arm(self, at: int) -> None:
        """Call back at a time (nanoseconds of the clock) instead of one that was armed before."""
        self.cancel()
        self.at = at
        self._wait(max(at - self._clock.now(), 0))

    def cancel(self) -> None:
        """Wait for nothing any more."""
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
