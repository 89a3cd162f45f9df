"""A substitute for an event loop whose time a test advances, with a wall clock at another rate."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.sessions import ManualClock


class DrivenTimer:
    """A substitute for `asyncio.TimerHandle`, made by `DrivenLoop.call_later`."""

    def __init__(self, when: float, call: Callable[[], Any]) -> None:
        self._when = when
        self.call = call
        self.is_cancelled = False

    def when(self) -> float:
        """Return the time at which the timer is due, in seconds of the loop."""
        return self._when

    def cancel(self) -> None:
        """Cancel the timer."""
        self.is_cancelled = True


class DrivenLoop:
    """A substitute for an event loop that wakes timers one after the other.

    Args:
        clock: The wall clock, which advances with the loop.
        rate: Seconds of the wall clock per second of the loop.
        early: Seconds by which timers run before their time.
    """

    def __init__(self, clock: ManualClock, *, rate: float = 1.0, early: float = 0.0) -> None:
        self._clock = clock
        self._rate = rate
        self._early = early
        self._timers: list[DrivenTimer] = []
        self.now = 0.0
        self.wakes = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make `core.runtime.wall_timer.WallTimer` use this loop for the rest of the test."""
        stand_in = SimpleNamespace(get_running_loop=lambda: self)
        monkeypatch.setattr("core.runtime.wall_timer.asyncio", stand_in)

    def call_later(self, delay: float, call: Callable[..., Any], *args: Any) -> DrivenTimer:
        """Schedule a call after `delay` seconds of the loop, minus `early` seconds."""
        timer = DrivenTimer(self.now + delay, lambda: call(*args))
        self._timers.append(timer)
        return timer

    def wake_next(self) -> bool:
        """Advance both clocks to the next timer and run it; return False if there is none."""
        self._timers = [timer for timer in self._timers if not timer.is_cancelled]
        if not self._timers:
            return False
        timer = min(self._timers, key=DrivenTimer.when)
        self._timers.remove(timer)
        # Time advances by at least a microsecond, as in a real loop.
        self.advance(max(timer.when() - self._early - self.now, 1e-6))
        self.wakes += 1
        timer.call()
        return True

    def advance(self, seconds: float) -> None:
        """Advance both clocks by some seconds of the loop, without running timers."""
        self.now += seconds
        self._clock.time += int(seconds * self._rate * 1e9)
