"""The timers of an event loop whose time a test moves, beside a wall clock that runs otherwise."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.sessions import ManualClock


class DrivenTimer:
    """Stands in for asyncio.TimerHandle."""

    def __init__(self, when: float, call: Callable[[], Any]) -> None:
        self._when = when
        self.call = call
        self.is_cancelled = False

    def when(self) -> float:
        """When it is due, seconds of the loop."""
        return self._when

    def cancel(self) -> None:
        """Call nothing."""
        self.is_cancelled = True


class DrivenLoop:
    """Wakes timers one after the other.

    Args:
        clock: The wall clock, which advances with the loop.
        rate: How fast the wall clock runs.
        early: How much too early timers wake, seconds.
    """

    def __init__(self, clock: ManualClock, *, rate: float = 1.0, early: float = 0.0) -> None:
        self._clock = clock
        self._rate = rate
        self._early = early
        self._timers: list[DrivenTimer] = []
        self.now = 0.0
        self.wakes = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have `WallTimer` wait with this loop."""
        stand_in = SimpleNamespace(get_running_loop=lambda: self)
        monkeypatch.setattr("core.runtime.wall_timer.asyncio", stand_in)

    def call_later(self, delay: float, call: Callable[..., Any], *args: Any) -> DrivenTimer:
        """Call back after so many seconds, or a little earlier."""
        timer = DrivenTimer(self.now + delay, lambda: call(*args))
        self._timers.append(timer)
        return timer

    def wake_next(self) -> bool:
        """Let time pass to the next timer; returns False if there is none."""
        self._timers = [timer for timer in self._timers if not timer.is_cancelled]
        if not self._timers:
            return False
        timer = min(self._timers, key=DrivenTimer.when)
        self._timers.remove(timer)
        # Time moves by a microsecond at least, as it does for a loop that runs.
        self.advance(max(timer.when() - self._early - self.now, 1e-6))
        self.wakes += 1
        timer.call()
        return True

    def advance(self, seconds: float) -> None:
        """Let time pass without a wake-up."""
        self.now += seconds
        self._clock.time += int(seconds * self._rate * 1e9)
