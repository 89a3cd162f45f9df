"""The return of free memory to the system after many objects were freed."""

import ctypes
from collections.abc import Callable

_CROWD = 256
"""Number of objects below which nothing is returned: their memory is small, and soon reused."""


def give_back() -> None:
    """Return free memory to the system.

    It takes about 2 ms with glibc; other libraries keep little.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another library, or Windows
        return
    trim(0)


class Ebb:
    """A watch on a number of objects that calls `gone` when it falls to half of its maximum.

    Maxima below `_CROWD` do not count. *Life cycle*: `look` from time to time.
    """

    def __init__(self, gone: Callable[[], None] = give_back) -> None:
        self._gone = gone
        self._most = 0

    def look(self, count: int) -> None:
        """Record the present number of objects."""
        self._most = max(self._most, count)
        if self._most >= _CROWD and count * 2 <= self._most:
            self._most = count
            self._gone()
