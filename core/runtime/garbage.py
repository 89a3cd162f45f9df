"""Full garbage collections: short ones as Python wants them, thorough ones rarely.

A full collection looks at every object that can refer to others, and holds up the event loop
meanwhile: with a thousand callers over WebSocket for 0.1 to 0.2 s. Python begins one as soon as
there are a quarter more objects than after the last one, which may be every second while callers
come and go. Nearly all of what it looks at was in use the last time, too.

So what a full collection leaves is frozen: the next one looks at what came since. What goes out of
use is freed as always, frozen or not, as soon as nothing refers to it. Only what refers to itself
in a circle waits, until everything is looked at again: when more has come than went, and that took
less than a thousandth of the time since then, or as much may have come as was in use then.
"""

import gc
from typing import Any

from core.runtime.clock import Clock

_REST = 1000
"""How many times as long as the last thorough collection took there is none: they take 0.1 % of the
time."""
_FEW = 500_000
"""So many more objects are no reason for one at once: some 50 MiB."""
_SOME = 200_000
"""With fewer there is nothing to be found: they take some 20 MiB."""


class FullCollections:
    """Makes full collections of this process short.

    *Life cycle*: `start`, again after whatever made much that will last, `stop`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = 0
        self._is_thorough = False
        self._in_use = 0
        self._came = 0
        self._rests_until = 0

    def start(self) -> None:
        """Look at everything, and freeze what is left."""
        if self._collects not in gc.callbacks:
            gc.callbacks.append(self._collects)
        self._came, self._rests_until = _SOME, 0
        gc.collect()

    def stop(self) -> None:
        """Leave it to Python again; what is frozen stays so."""
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)

    def _collects(self, phase: str, info: dict[str, Any]) -> None:
        """Python begins a collection (`start`), or has done it (`stop`), in whichever thread."""
        if info["generation"] < 2:
            return
        now = self._clock.monotonic()
        if phase == "start":
            self._begun = now
            self._came += _between()
            has_rested = self._came > _SOME and now >= self._rests_until
            self._is_thorough = has_rested or self._came > self._in_use + _FEW
            if self._is_thorough:
                gc.unfreeze()
            return
        gc.freeze()
        if self._is_thorough:
            # Counted here alone: it takes a fifth as long as the collection.
            self._in_use, self._came = gc.get_freeze_count(), 0
            self._rests_until = now + _REST * (now - self._begun)


def _between() -> int:
    """Return how many objects come, more than go, until Python begins the next full collection."""
    youngest, younger, young = gc.get_threshold()
    return youngest * (younger + 1) * (young + 1)
