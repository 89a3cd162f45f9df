"""The timer of a stream's own work: schedules and expiry, which are due at a time of its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.runtime.wall_timer import WallTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.runtime.clock import Clock

_MILLISECOND: Final = 1_000_000
STEP_NS: Final = 250 * _MILLISECOND
"""Time between two firings of a busy stream (nats-server: the shortest wait of its timers)."""
_BURST: Final = 4
"""Firings that may follow each other sooner when the stream was quiet before."""
_SHORTEST_NS: Final = 10 * _MILLISECOND
"""Time between two firings of a quiet stream: what is due within it goes as one."""


class DueTimer:
    """Calls back when something is due, never before. The owner arms it anew after each firing.

    Firings that did something are `STEP_NS` apart on average, so that a stream with something due
    all the time pays for four transactions a second. A wake-up without work delays nothing.

    Args:
        clock: The clock that times are of.
        fire: Called when the time has come.
    """

    def __init__(self, clock: Clock, fire: Callable[[], None]) -> None:
        self._clock = clock
        self._timer = WallTimer(clock, fire)
        self._not_before = 0
        self._paid_until = 0

    @property
    def is_armed(self) -> bool:
        """Whether it waits for a time."""
        return self._timer.is_armed

    def arm(self, due: int) -> None:
        """Fire at `due` (nanoseconds), or as soon after it as the pace of firings allows.

        A timer that is armed for an earlier time stays as it is.
        """
        at = max(due, self._not_before)
        if not self._timer.is_armed or at < self._timer.at:
            self._timer.arm(at)

    def cancel(self) -> None:
        """Wait for nothing any more."""
        self._timer.cancel()

    def fired(self) -> None:
        """Count a firing that did something."""
        now = self._clock.now()
        self._paid_until = max(self._paid_until, now) + STEP_NS
        self._delay(max(now + _SHORTEST_NS, self._paid_until - _BURST * STEP_NS))

    def failed(self) -> None:
        """Count a firing whose work has to be tried again."""
        self._delay(self._clock.now() + STEP_NS)

    def _delay(self, until: int) -> None:
        self._not_before = max(self._not_before, until)
