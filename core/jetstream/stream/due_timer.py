"""The timer of a stream for work that is due at a wall-clock time: schedules and expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from core.runtime.wall_timer import WallTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.runtime.clock import Clock

_MILLISECOND: Final = 1_000_000
STEP_NS: Final = 250 * _MILLISECOND
"""Average time in nanoseconds between two firings of a stream with constantly due work.

nats-server: the shortest wait of its timers.
"""
_BURST: Final = 4
"""Number of firings that may follow each other faster than `STEP_NS` after a pause."""
_SHORTEST_NS: Final = 10 * _MILLISECOND
"""Shortest time in nanoseconds between two firings. Work due within that time is combined."""


class DueTimer:
    """Calls back at a due time, never before; the owner arms the timer again after each firing.

    Firings with work are `STEP_NS` (250 ms) apart on average, so that a stream with constantly due
    work causes four transactions per second. A firing without work does not delay the next one.

    Args:
        clock: The clock to which due times refer.
        fire: Called at the due time.
    """

    def __init__(self, clock: Clock, fire: Callable[[], None]) -> None:
        self._clock = clock
        self._timer = WallTimer(clock, fire)
        self._not_before = 0
        self._paid_until = 0

    @property
    def is_armed(self) -> bool:
        """True while the timer waits for a due time."""
        return self._timer.is_armed

    def arm(self, due: int) -> None:
        """Fire at `due` (nanoseconds since the Unix epoch), or later if firings are too frequent.

        A timer armed for an earlier time stays unchanged.
        """
        at = max(due, self._not_before)
        if not self._timer.is_armed or at < self._timer.at:
            self._timer.arm(at)

    def cancel(self) -> None:
        """Disarm the timer."""
        self._timer.cancel()

    def fired(self) -> None:
        """Record a firing that did work; it may delay the next one."""
        now = self._clock.now()
        self._paid_until = max(self._paid_until, now) + STEP_NS
        self._delay(max(now + _SHORTEST_NS, self._paid_until - _BURST * STEP_NS))

    def failed(self) -> None:
        """Record a firing whose work failed; the next one is at least 250 ms (`STEP_NS`) later."""
        self._delay(self._clock.now() + STEP_NS)

    def _delay(self, until: int) -> None:
        self._not_before = max(self._not_before, until)
