"""Work that is gathered during one tick of the event loop and done at its end.

Sessions with gathered output and runners with gathered work add themselves to a list; one callback
per tick serves both. No task and no timer belongs to a single message.
"""

import asyncio
from typing import Protocol


class Flushable(Protocol):
    """A session with gathered output."""

    def flush(self) -> None: ...


class Ready(Protocol):
    """A runner that gathered work during the tick."""

    def on_tick(self) -> None: ...


class LoopTick:
    """The sessions to flush and the runners to call at the end of this loop tick.

    Code that appends to an empty `session.out` also appends the session to `dirty`. A runner
    appends itself to `ready` if its columns were empty. So each is on its list at most once.

    Attributes:
        dirty: Sessions with output to write.
        ready: Runners with gathered work.
        armed: Whether `run` is scheduled.
        count: Ticks run since the start.
    """

    def __init__(self) -> None:
        self.dirty: list[Flushable] = []
        self.ready: list[Ready] = []
        self.armed = False
        self.count = 0

    def arm(self) -> None:
        """Make sure that `run` is called at the end of this loop tick."""
        if not self.armed:
            self.armed = True
            asyncio.get_running_loop().call_soon(self.run)

    def run(self) -> None:
        """Call the ready runners, then flush the sessions that have output."""
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
