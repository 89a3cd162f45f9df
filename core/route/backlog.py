"""The senders (clients, consumers) that wait until a route has less unsent output.

They resume in the order of arrival, 16 per loop tick, as long as the route is not blocked again.
Each adds about one socket read, or one delivery batch of a consumer, to the output.
"""

import asyncio
from collections.abc import Callable

HIGH_WATER = 8 * 1024 * 1024
"""Unsent bytes of a route above which senders wait; they resume below half of it."""
_AT_ONCE = 16


class WaitingSenders:
    """The callbacks of senders that wait for one route.

    Args:
        is_blocked: Returns True while the route accepts no more output.

    Attributes:
        calls: The callbacks, in order of arrival. Each is called once, when its sender may resume.
    """

    def __init__(self, is_blocked: Callable[[], bool]) -> None:
        self.calls: list[Callable[[], None]] = []
        self._is_blocked = is_blocked
        self._is_scheduled = False

    def go_on(self) -> None:
        """Resume the first 16 senders in the next loop tick, others in later ticks."""
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
