"""Returns free memory to the operating system after many objects were freed."""

import ctypes
from collections.abc import Callable

_COUNT_MIN = 256
"""Number of objects below which no memory is returned: it is little, and is soon used again."""


def trim_memory() -> None:
    """Return free memory of the process to the operating system, by glibc's `malloc_trim`.

    It takes about 2 ms. Other C libraries keep little free memory; nothing is done with them.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another library, or Windows
        return
    trim(0)


class MemoryTrimmer:
    """Calls `trim` when a number of objects has fallen to half of its maximum.

    Maxima below 256 do not count.
    """

    def __init__(self, trim: Callable[[], None] = trim_memory) -> None:
        self._trim = trim
        self._most = 0

    def record(self, count: int) -> None:
        """Record the present number of objects; call it from time to time."""
        self._most = max(self._most, count)
        if self._most >= _COUNT_MIN and count * 2 <= self._most:
            self._most = count
            self._trim()
