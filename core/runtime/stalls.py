"""Detects callbacks that block the event loop."""

import asyncio
import logging

from core.runtime.clock import Clock
from core.units import NANOS_PER_SECOND

log = logging.getLogger(__name__)

_TICK_S = 0.05
_STALL_NS = 100_000_000


class StallWatch:
    """Counts the stalls of the event loop: a timer that ran more than 100 ms late.

    Attributes:
        count: Number of stalls since the start.
        longest: Duration of the longest stall in nanoseconds.
    """

    def __init__(self, clock: Clock) -> None:
        self.count = 0
        self.longest = 0
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0

    def start(self) -> None:
        """Start the timer that detects stalls; it runs every 50 ms."""
        self._due = self._clock.monotonic() + int(_TICK_S * NANOS_PER_SECOND)
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        late = self._clock.monotonic() - self._due
        if late > _STALL_NS:
            self.count += 1
            self.longest = max(self.longest, late)
            log.info("the event loop was held up for %d ms", late // 1_000_000)
        self.start()
