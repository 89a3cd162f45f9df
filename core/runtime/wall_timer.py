"""A timer for wall-clock times, which the event loop does not support.

The loop counts monotonic time, in whole milliseconds. The database clock may run up to a tenth
faster or slower (`core.storage.database_time`), and a machine may sleep. So the time is not
necessarily reached when the loop's timer fires: the wall timer reads the clock, and waits for the
rest if it is too early.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from core.runtime.clock import Clock

_MILLISECOND: Final = 1_000_000
_NEAR_NS: Final = 100 * _MILLISECOND
"""Longest wait, in nanoseconds, that is not divided: at worst it ends 10 ms late."""
_LONGEST_NS: Final = 60_000 * _MILLISECOND
"""Longest single wait in nanoseconds: monotonic time stops while the machine sleeps."""


def monotonic_wait(left: int) -> int:
    """Return the time to wait, in monotonic nanoseconds, before the wall clock is read again.

    `left` is the time until the target in nanoseconds. Except for waits below 0.1 s, the result is
    so short that a wall clock which runs a tenth faster does not pass the target.
    """
    return min(left - left // 11, _LONGEST_NS) if left > _NEAR_NS else left


class WallTimer:
    """A timer that calls a function at a wall-clock time: never before, and soon after.

    Args:
        clock: The clock.
        due: The function, called once for each `arm`.

    Attributes:
        at: The time given to the last `arm`, in nanoseconds since the Unix epoch.
    """

    def __init__(self, clock: Clock, due: Callable[[], None]) -> None:
        self._clock = clock
        self._due = due
        self._handle: asyncio.TimerHandle | None = None
        self.at = 0

    @property
    def is_armed(self) -> bool:
        """True if the function will be called: `arm` was called, and the time is not reached."""
        return self._handle is not None

    def arm(self, at: int) -> None:
        """Call the function at a time, in nanoseconds since the Unix epoch.

        An earlier `arm` is replaced.
        """
        self.cancel()
        self.at = at
        self._wait(max(at - self._clock.now(), 0))

    def cancel(self) -> None:
        """Do not call the function at the armed time, if any."""
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
