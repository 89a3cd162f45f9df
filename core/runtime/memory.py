"""Memory that is free, and that the process keeps all the same: given back when many have gone."""

import ctypes
from collections.abc import Callable

_CROWD = 256
"""So few are no crowd: what they leave is little, and is taken again soon."""


def give_back() -> None:
    """Return what is free to the system. It takes glibc some 2 ms; other libraries keep little."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another library, or Windows
        return
    trim(0)


class Ebb:
    """Calls `gone` when at most half as many are there as were at the most.

    *Life cycle*: `look` now and then.
    """

    def __init__(self, gone: Callable[[], None] = give_back) -> None:
        self._gone = gone
        self._most = 0

    def look(self, count: int) -> None:
        """Take note of how many there are now."""
        self._most = max(self._most, count)
        if self._most >= _CROWD and count * 2 <= self._most:
            self._most = count
            self._gone()
