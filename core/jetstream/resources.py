"""The node's limits on the total bytes that its streams store, one per kind of storage.

Without a limit (0) no bytes are counted. With a limit, the used bytes are added up at most once per
pass of the event loop, and only when messages are published.

A stream that reserves more is refused by `core.rules.stream.config.validation`, a publish beyond
the limit by `core.rules.stream.plans.planner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from core.model.stream import Storage

if TYPE_CHECKING:
    from core.runtime.loop_tick import LoopTick


class Resources:
    """The node's limits in bytes on all streams of each kind of storage (0: no limit)."""

    def __init__(self, loop_tick: LoopTick, max_memory: int = 0, max_file: int = 0) -> None:
        self._loop_tick = loop_tick
        self._limits = {Storage.MEMORY: max_memory, Storage.FILE: max_file}
        self._used: dict[Storage, int] = {}
        self._counted = -1
        self.used: Callable[[], Iterable[tuple[Storage, int]]] = tuple
        """Returns (kind of storage, used bytes) of each stream."""

    def left(self, storage: Storage) -> int | None:
        """Return the bytes that streams of one kind of storage may still use.

        Negative: the limit is exceeded. None: there is no limit.
        """
        limit = self._limits[storage]
        if not limit:
            return None
        if self._counted != self._loop_tick.count:
            self._counted = self._loop_tick.count
            self._used = dict.fromkeys(Storage, 0)
            for kind, nbytes in self.used():
                self._used[kind] += nbytes
        return limit - self._used[storage]
