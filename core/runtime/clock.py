"""The clock of a node. Other packages receive it as an argument and never read time directly."""

import time
from collections.abc import Callable
from typing import Protocol, cast

from core.units import Nanos


class Clock(Protocol):
    """Interface of a node's clock: wall-clock time and monotonic time."""

    def now(self) -> Nanos:
        """Return the wall-clock time, in nanoseconds since the Unix epoch."""
        ...

    def monotonic(self) -> Nanos:
        """Return the monotonic time in nanoseconds, for deadlines and durations."""
        ...


class SystemClock:
    """The wall clock and the monotonic clock of this machine."""

    now = staticmethod(cast("Callable[[], Nanos]", time.time_ns))
    monotonic = staticmethod(cast("Callable[[], Nanos]", time.monotonic_ns))
