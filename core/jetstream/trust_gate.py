"""The trust window of a leader: the time during which it may answer from memory.

After some seconds without an answer from PostgreSQL, another node may have taken over the streams
and acknowledged messages that this node does not have. So outside its trust window
(`core.node.trust_window`) a leader delivers no messages and answers no API requests. It resumes
once its leadership is confirmed. Direct Get waits too, but is answered from memory after `HOLD_S`
seconds (`core.jetstream.direct.held`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

HOLD_S = 2.0
"""Seconds for which requests wait for confirmed leadership, counted from the first waiting request.
"""


class TrustGate:
    """Holds the work of streams and consumers while the leadership of this node is not confirmed.

    Args:
        is_open: Returns whether the leadership was confirmed recently enough.

    Attributes:
        is_open: The function given as argument.
    """

    def __init__(self, is_open: Callable[[], bool] = lambda: True) -> None:
        self.is_open = is_open
        self._waiting: dict[Callable[[], None], None] = {}
        self._until: float | None = None
        self._confirmed = asyncio.Event()

    def allows(self, go_on: Callable[[], None]) -> bool:
        """Return whether the leadership is confirmed.

        If it is not, `go_on` is called once at the next `confirm`.
        """
        if self.is_open():
            return True
        self._waiting[go_on] = None
        return False

    async def wait_open(self) -> bool:
        """Wait at most `HOLD_S` seconds until the leadership is confirmed; return whether it is."""
        if self.is_open():
            return True
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + HOLD_S
        if now < self._until:
            try:
                async with asyncio.timeout_at(self._until):
                    await self._confirmed.wait()
            except TimeoutError:
                return False
        return self.is_open()

    def confirm(self) -> None:
        """Wake all waiting requests and callbacks. Called after leadership is confirmed."""
        self._until = None
        self._confirmed.set()
        self._confirmed = asyncio.Event()
        waiting, self._waiting = self._waiting, {}
        for go_on in waiting:
            go_on()
