"""Work that is gathered during one iteration (turn) of the event loop and done at its end.

Sessions with gathered output and runners with gathered work put themselves on a list; one
callback per turn serves both. No task and no timer belongs to a single message.
"""

import asyncio
from typing import Protocol


class Flushable(Protocol):
    """A session with gathered output."""

    def flush(self) -> None: ...


class Ready(Protocol):
    """Something that gathered work during the turn."""

    def on_turn(self) -> None: ...


class Turn:
    """The sessions to flush and the runners to call at the end of this turn.

    Whoever appends to an empty `session.out` also appends the session to `dirty`; a runner
    appends itself to `ready` when its columns were empty. So each is on its list at most once.

    Attributes:
        dirty: sessions with output to write.
        ready: runners with gathered work.
        armed: whether `run` is scheduled.
        count: turns run since the start.
    """

    def __init__(self) -> None:
        self.dirty: list[Flushable] = []
        self.ready: list[Ready] = []
        self.armed = False
        self.count = 0

    def arm(self) -> None:
        """Make sure that `run` is called at the end of this loop turn."""
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
                runner.on_turn()
        if self.dirty:
            dirty = self.dirty[:]
            self.dirty.clear()
            for session in dirty:
                session.flush()
