"""The one timer of a node: a heap of the deadlines of all owners, and one `call_later`.

An owner registers its earliest deadline with `at`. It need not register a later deadline: a
wake-up without due work only asks the owner again. So the hot path costs one comparison.
"""

import asyncio
from heapq import heappop, heappush
from typing import Protocol

from core.runtime.clock import Clock
from core.units import NANOS_PER_SECOND


class Timed(Protocol):
    """The interface of an owner of deadlines, in monotonic nanoseconds."""

    armed: int
    """Time of the owner's wake-up in the heap, 0: none; `Timers` maintains it."""

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
        """Call the owner's `on_deadline` at `when` or before (None: never).

        `when` is in monotonic nanoseconds. An earlier wake-up of the owner stays as it is.
        """
        if when is None or (owner.armed and owner.armed <= when):
            return
        owner.armed = when
        self._serial += 1
        heappush(self._heap, (when, self._serial, owner))
        if self._handle is None or when < self._handle_at:
            self._schedule()

    def forget(self, owner: Timed) -> None:
        """Cancel the wake-up of an owner."""
        owner.armed = 0

    def run(self) -> None:
        """Wake every owner that is due; called by the event loop, or by a test's clock."""
        now = self._clock.monotonic()
        heap = self._heap
        while heap and heap[0][0] <= now:
            when, _, owner = heappop(heap)
            if owner.armed == when:
                owner.armed = 0
                owner.on_deadline(now)
                # Later than now: an owner that stays due must not be called in a busy loop.
                again = owner.deadline()
                self.at(owner, again if again is None else max(again, now + 1))
        if self._handle is None or (heap and heap[0][0] < self._handle_at):
            self._schedule()

    def close(self) -> None:
        """Cancel all wake-ups."""
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
        delay = max(self._handle_at - self._clock.monotonic(), 0) / NANOS_PER_SECOND
        self._handle = asyncio.get_running_loop().call_later(delay, self._fire)

    def _fire(self) -> None:
        self._handle = None
        self.run()
