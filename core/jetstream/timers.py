"""The one timer of a node: a heap of everything that has a deadline, and one `call_later`.

An owner tells its earliest deadline with `at`; it may become later without a word, because a
wake-up that finds nothing due only asks the owner again. So the hot path pays one comparison.
"""

import asyncio
from heapq import heappop, heappush
from typing import Protocol

from core.runtime.clock import Clock


class Timed(Protocol):
    """Something with deadlines, in monotonic nanoseconds."""

    armed: int
    """The wake-up that is in the heap for this owner, 0 = none; kept by `Timers`."""

    def deadline(self) -> int | None: ...
    def on_deadline(self, now: int) -> None: ...


class Timers:
    """Wakes owners at their deadlines, never early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Timed]] = []
        self._serial = 0
        self._handle: asyncio.TimerHandle | None = None
        self._handle_at = 0

    def at(self, owner: Timed, when: int | None) -> None:
        """Wake the owner at `when` unless it is woken earlier anyway."""
        if when is None or (owner.armed and owner.armed <= when):
            return
        owner.armed = when
        self._serial += 1
        heappush(self._heap, (when, self._serial, owner))
        if self._handle is None or when < self._handle_at:
            self._schedule()

    def forget(self, owner: Timed) -> None:
        """Never wake this owner again."""
        owner.armed = 0

    def run(self) -> None:
        """Wake every owner that is due. Called by the event loop, or by a test's clock."""
        now = self._clock.monotonic()
        heap = self._heap
        while heap and heap[0][0] <= now:
            when, _, owner = heappop(heap)
            if owner.armed == when:
                owner.armed = 0
                owner.on_deadline(now)
                # Not before the next tick of the clock: an owner that stays due must not spin.
                again = owner.deadline()
                self.at(owner, again if again is None else max(again, now + 1))
        if self._handle is None or (heap and heap[0][0] < self._handle_at):
            self._schedule()

    def close(self) -> None:
        """Wake nobody any more."""
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if not self._heap:
            return
        self._handle_at = self._heap[0][0]
        delay = max(self._handle_at - self._clock.monotonic(), 0) / 1e9
        self._handle = asyncio.get_running_loop().call_later(delay, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self.run()
