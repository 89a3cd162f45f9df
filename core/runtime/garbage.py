"""Shortens Python's full garbage collections, which block the event loop.

A full collection visits every object that can refer to others: this takes 0.1 to 0.2 s with a
thousand HTTP users over WebSocket. Python starts one as soon as there are a quarter more objects
than after the last one. That may be every second while users connect and disconnect. Nearly all
visited objects were in use the last time, too.

So the objects that survive a full collection are frozen (`gc.freeze`), and the next one visits only
newer objects. Reference counting frees frozen objects as always. Only unreachable cycles of frozen
objects remain, until a *thorough* collection unfreezes and visits all objects. It is made when more
objects were created than freed, and the last one took less than a thousandth of the time since
then. It is also made when as many objects may have been created as were in use at the last one.
"""

import gc
from typing import Any

from core.runtime.clock import Clock

_REST = 1000
"""Factor between the duration of a thorough collection and the pause after it.

Thorough collections thus take at most 0.1 % of the time.
"""
_FEW = 500_000
"""Number of new objects, beyond the number in use, that starts a thorough collection early (50
MiB).
"""
_SOME = 200_000
"""Number of new objects, about 20 MiB, below which no thorough collection is made."""


class FullCollections:
    """Freezes surviving objects after each full garbage collection.

    *Life cycle*: `start`, again after code that created many long-lived objects, `stop`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = 0
        self._is_thorough = False
        self._in_use = 0
        self._came = 0
        self._rests_until = 0

    def start(self) -> None:
        """Collect all garbage, and freeze the remaining objects, now and later."""
        if self._collects not in gc.callbacks:
            gc.callbacks.append(self._collects)
        self._came, self._rests_until = _SOME, 0
        gc.collect()

    def stop(self) -> None:
        """Stop freezing objects after Python's collections. Frozen objects stay frozen."""
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)

    def _collects(self, phase: str, info: dict[str, Any]) -> None:
        """Handle the start or the end of a collection by Python, in any thread.

        `phase` is "start" or "stop".
        """
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
            # Counted only here: counting takes a fifth as long as the collection.
            self._in_use, self._came = gc.get_freeze_count(), 0
            self._rests_until = now + _REST * (now - self._begun)


def _between() -> int:
    """Return the net number of new objects after which Python starts the next full collection."""
    youngest, younger, young = gc.get_threshold()
    return youngest * (younger + 1) * (young + 1)
