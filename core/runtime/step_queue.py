"""A queue for blocking work of connections, which uses a few milliseconds per loop tick.

One connection may send bytes that cost a millisecond of work, and a hundred may do so at once.
Without the queue the loop would serve all of them in one tick, and all other connections would
wait.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from weakref import WeakKeyDictionary

TICK_NS = 4_000_000
"""Work per loop tick, in nanoseconds, after which the other steps wait for the next tick."""

Step = Callable[[], None]


class StepQueue:
    """The queue of one event loop. Steps, short pieces of work, run in the order of `add`."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self._is_armed = False
        self._is_given = False

    def add(self, step: Step) -> None:
        """Queue a function for a later loop tick.

        It does a short piece of work, and may queue itself again.
        """
        self._steps.append(step)
        self._arm()

    async def wait(self) -> None:
        """Wait until all earlier steps have run.

        The caller then has the rest of the loop tick for its work.
        """
        place = asyncio.get_running_loop().create_future()
        self.add(partial(self._give, place))
        await place

    def _give(self, place: "asyncio.Future[None]") -> None:
        if not place.done():
            place.set_result(None)
            self._is_given = True

    def _arm(self) -> None:
        if not self._is_armed:
            self._is_armed = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_armed = self._is_given = False
        end = perf_counter_ns() + TICK_NS
        try:
            while self._steps:
                self._steps.popleft()()
                if self._is_given or perf_counter_ns() >= end:
                    return
        finally:
            if self._steps:
                self._arm()


_step_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, StepQueue] = WeakKeyDictionary()


def step_queue() -> StepQueue:
    """Return the queue of the running event loop."""
    loop = asyncio.get_running_loop()
    if (found := _step_queues.get(loop)) is None:
        found = _step_queues[loop] = StepQueue()
    return found
