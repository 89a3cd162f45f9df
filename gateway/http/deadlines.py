"""Timeouts of many waits with one shared timer.

A timer for each request body would cost more than reading the body, which has usually arrived.
"""

import asyncio
import math
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

_AT_ONCE = 32


class Deadlines:
    """The deadlines of all current waits in one event loop."""

    def __init__(self) -> None:
        self._deadlines: dict[asyncio.Timeout, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, awaited: Awaitable[T], within: float) -> T:
        """Await an awaitable and return its result. Raises TimeoutError after `within` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        if self._timer is None or deadline < self._timer.when():
            self._arm(loop, deadline)
        async with asyncio.timeout(None) as timeout:
            self._deadlines[timeout] = deadline
            try:
                return await awaited
            finally:
                del self._deadlines[timeout]

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(deadline, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """Expire up to 32 late waits in this loop tick, and set the timer for the next ones.

        A thousand requests that arrive together expire together; other work must not wait for all
        of their responses.
        """
        self._timer = None
        now = loop.time()
        late = [timeout for timeout, deadline in self._deadlines.items() if deadline <= now]
        for timeout in late[:_AT_ONCE]:
            self._deadlines[timeout] = math.inf
            timeout.reschedule(now)
        following = min(self._deadlines.values(), default=math.inf)
        if following < math.inf:
            self._arm(loop, following)
