"""The clock of a node. Other packages receive it as an argument and never read time directly."""

import time
from collections.abc import Callable
from typing import Protocol, cast

from core.units import Nanos


class Clock(Protocol):
    """The source of time of a node."""

    def now(self) -> Nanos:
        """Return wall-clock time, nanoseconds since the Unix epoch."""
        ...

    def monotonic(self) -> Nanos:
        """Return monotonic time in nanoseconds, for deadlines."""
        ...


class SystemClock:
    """The clocks of the machine."""

    now = staticmethod(cast("Callable[[], Nanos]", time.time_ns))
    monotonic = staticmethod(cast("Callable[[], Nanos]", time.monotonic_ns))
