"""The return of free memory to the system after many objects were freed."""

import ctypes
from collections.abc import Callable

_COUNT_MIN = 256
"""Number of objects below which nothing is returned: their memory is small, and soon reused."""


def trim_memory() -> None:
    """Return free memory to the system.

    It takes about 2 ms with glibc; other libraries keep little.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another library, or Windows
        return
    trim(0)


class MemoryTrimmer:
    """A watch on a number of objects that calls `trim` when it falls to half of its maximum.

    Maxima below `_COUNT_MIN` do not count. *Life cycle*: `record` from time to time.
    """

    def __init__(self, trim: Callable[[], None] = trim_memory) -> None:
        self._trim = trim
        self._most = 0

    def record(self, count: int) -> None:
        """Record the present number of objects."""
        self._most = max(self._most, count)
        if self._most >= _COUNT_MIN and count * 2 <= self._most:
            self._most = count
            self._trim()
