"""Work that is done once at the end of each tick (pass) of the event loop.

Sessions with output to write, and objects with other collected work, add themselves to a list; one
callback per tick serves both lists. No task and no timer belongs to a single message.
"""

import asyncio
from typing import Protocol


class Flushable(Protocol):
    """A session or route with output to write at the end of the loop tick, by `flush`."""

    def flush(self) -> None: ...


class Ready(Protocol):
    """An object, such as a consumer, with work for the end of the loop tick."""

    def on_tick(self) -> None: ...


class LoopTick:
    """The objects that have work to do at the end of this loop tick.

    Code that appends to an empty `session.out` also appends the session to `dirty`. Another object
    appends itself to `ready` when it gets its first work of the tick. So each is on its list at
    most once.

    Attributes:
        dirty: Sessions and routes with output to write.
        ready: Other objects with work to do.
        armed: True if `run` is scheduled.
        count: Number of calls of `run` since the start.
    """

    def __init__(self) -> None:
        self.dirty: list[Flushable] = []
        self.ready: list[Ready] = []
        self.armed = False
        self.count = 0

    def arm(self) -> None:
        """Schedule `run` for the end of this loop tick, unless it is scheduled already."""
        if not self.armed:
            self.armed = True
            asyncio.get_running_loop().call_soon(self.run)

    def run(self) -> None:
        """Call `on_tick` of all in `ready`, then `flush` of all in `dirty`."""
        self.armed = False
        self.count += 1
        while self.ready:
            ready, self.ready = self.ready, []
            for runner in ready:
                runner.on_tick()
        if self.dirty:
            dirty = self.dirty[:]
            self.dirty.clear()
            for session in dirty:
                session.flush()
