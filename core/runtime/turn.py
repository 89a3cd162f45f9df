"""One turn of the event loop: where batches form.

Sessions that gathered output and runners that gathered work put themselves on a list; one
callback per loop turn serves both. No task and no timer belongs to a single message.
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
    """The lists of one event loop.

    Emptiness is the flag: whoever appends to an empty `session.out` appends the session to
    `dirty`; a runner appends itself to `ready` once when its columns were empty.
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
        """Serve what became ready, then write what that produced."""
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
