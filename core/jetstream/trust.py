"""Trust: whether a leader may tell clients what its memory holds.

A leader that has not heard from PostgreSQL for some seconds may have a successor, which takes
acknowledgements that this node knows nothing of. So outside its trust window
(`core.node.trust_window`) it delivers nothing and answers no API request; it goes on as soon as its
leadership is confirmed. Direct Get does not ask: its reader wants what one node has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

HOLD_S = 2.0
"""How long API requests wait for the leadership to be confirmed, from the first of them on."""


class Trust:
    """The trust window as the streams and consumers of a node see it.

    Args:
        is_open: says whether the leadership was confirmed recently enough.
    """

    def __init__(self, is_open: Callable[[], bool] = lambda: True) -> None:
        self._is_open = is_open
        self._waiting: dict[Callable[[], None], None] = {}
        self._until: float | None = None
        self._confirmed = asyncio.Event()

    def allows(self, go_on: Callable[[], None]) -> bool:
        """Whether there is trust now; else `go_on` is called, once, when there is again."""
        if self._is_open():
            return True
        self._waiting[go_on] = None
        return False

    async def is_back(self) -> bool:
        """Whether there is trust; when not, after waiting for it."""
        if self._is_open():
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
        return self._is_open()

    def confirm(self) -> None:
        """The leadership has been confirmed: go on with what waits."""
        self._until = None
        self._confirmed.set()
        self._confirmed = asyncio.Event()
        waiting, self._waiting = self._waiting, {}
        for go_on in waiting:
            go_on()
