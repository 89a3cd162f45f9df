"""The clock of a node. Other packages receive it as an argument and never read time directly."""

import time
from typing import Protocol


class Clock(Protocol):
    """The source of time of a node."""

    def now(self) -> int:
        """Return wall-clock time, nanoseconds since the Unix epoch."""
        ...

    def monotonic(self) -> int:
        """Return monotonic time in nanoseconds, for deadlines."""
        ...


class SystemClock:
    """The clocks of the machine."""

    now = staticmethod(time.time_ns)
    monotonic = staticmethod(time.monotonic_ns)
