"""The clock of a node. Every other package is given one and never reads time itself."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where a node takes its time from."""

    def now(self) -> int:
        """Wall-clock time, nanoseconds since the Unix epoch."""
        ...

    def monotonic(self) -> int:
        """Monotonic time in nanoseconds, for deadlines."""
        ...


class SystemClock:
    """The machine's own clocks."""

    now = staticmethod(time.time_ns)
    monotonic = staticmethod(time.monotonic_ns)
