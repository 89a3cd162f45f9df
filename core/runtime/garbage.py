"""Full garbage collections, kept apart.

A full collection looks at every object that can refer to others and holds up the event loop
meanwhile: with a thousand callers over WebSocket for 0.1 to 0.2 s. Python begins one as soon as
there are a quarter more objects than after the last one, which may be every second while many come
and go. What refers to nothing that refers back to it is freed without any.
"""

import gc
from typing import Any

from core.runtime.clock import Clock

_REST = 200
"""How many times as long as the last full collection took there is none: they take 0.5 % of the
time."""
_ROUNDS_AT_REST = 1000
"""Collections of younger objects after which a full one begins all the same, where memory would
else be had without end: each follows some 7,000 new objects."""


class FullCollections:
    """Puts a rest behind each full collection of this process. *Life cycle*: `start`, `stop`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._usual = gc.get_threshold()
        self._begun = 0
        self._rests_until = 0

    def start(self) -> None:
        """Begin with the next collection."""
        gc.callbacks.append(self._collects)

    def stop(self) -> None:
        """Leave it to Python again."""
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)
            gc.set_threshold(*self._usual)

    def _collects(self, phase: str, info: dict[str, Any]) -> None:
        """Python begins a collection (`start`), or has done it (`stop`), in whichever thread."""
        is_begin = phase == "start"
        if info["generation"] < 2:
            if self._rests_until and not is_begin and self._clock.monotonic() >= self._rests_until:
                self._rests_until = 0
                gc.set_threshold(*self._usual)
        elif is_begin:
            self._begun = self._clock.monotonic()
        else:
            now = self._clock.monotonic()
            self._rests_until = now + _REST * (now - self._begun)
            gc.set_threshold(*self._usual[:2], _ROUNDS_AT_REST)
