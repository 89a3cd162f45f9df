"""What the streams of a node may use together, in memory and on file.

A node without limits (0) asks nothing. With limits, what is used is added up once per turn of
the loop, and only when something is published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from core.model.stream import Storage

if TYPE_CHECKING:
    from core.runtime.turn import Turn


class Resources:
    """Limits in bytes for all streams of one kind of storage (0: none)."""

    def __init__(self, turn: Turn, max_memory: int = 0, max_file: int = 0) -> None:
        self._turn = turn
        self._limits = {Storage.MEMORY: max_memory, Storage.FILE: max_file}
        self._used: dict[Storage, int] = {}
        self._counted = -1
        self.used: Callable[[], Iterable[tuple[Storage, int]]] = tuple
        """What each stream uses of which kind."""

    def left(self, storage: Storage) -> int | None:
        """Return how many bytes are left (below 0: more is used already; None: no limit)."""
        limit = self._limits[storage]
        if not limit:
            return None
        if self._counted != self._turn.count:
            self._counted = self._turn.count
            self._used = dict.fromkeys(Storage, 0)
            for kind, nbytes in self.used():
                self._used[kind] += nbytes
        return limit - self._used[storage]
