"""Who waits for a link to have less unsent: publishers that fill it, and consumers.

They go on in the order in which they came, some in each turn of the loop, as long as little is
unsent: each brings as much as one read of a socket, or one turn of a consumer, is.
"""

import asyncio
from collections.abc import Callable

HIGH_WATER = 8 * 1024 * 1024
"""Unsent bytes from which on those who send more have to wait, until half of it is left."""
_AT_ONCE = 16


class Waiting:
    """The calls to make when a link takes more; `is_blocked` says whether it does not."""

    def __init__(self, is_blocked: Callable[[], bool]) -> None:
        self.calls: list[Callable[[], None]] = []
        self._is_blocked = is_blocked
        self._is_scheduled = False

    def go_on(self) -> None:
        """Let the first ones go on in the next turn of the loop, and the others after them."""
        if self.calls and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_scheduled = False
        if self._is_blocked():
            return
        some = self.calls[:_AT_ONCE]
        del self.calls[:_AT_ONCE]
        for call in some:
            call()
        self.go_on()
