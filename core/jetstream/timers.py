"""The one timer of a node: a heap of deadlines of streams and consumers, and one `call_later`.

An owner (a stream or consumer with deadlines) registers its earliest deadline with `Timers.at`. If
its deadline moves to a later time, it need not register again: the timer wakes the owner at the old
time, finds no work, and asks for the new deadline. So frequent changes cost one comparison.
"""

import asyncio
from heapq import heappop, heappush
from typing import Protocol

from core.runtime.clock import Clock
from core.units import NANOS_PER_SECOND


class Timed(Protocol):
    """An object with deadlines that `Timers` wakes. Times are monotonic nanoseconds.

    `on_deadline` is called when a deadline is due, then `deadline` for the next one (None: no
    deadline).
    """

    armed: int
    """Time of the owner's wake-up in the heap, in monotonic nanoseconds (0: none). Set by `Timers`.
    """

    def deadline(self) -> int | None: ...
    def on_deadline(self, now: int) -> None: ...


class Timers:
    """Wakes owners (`Timed`) at their deadlines, never early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Timed]] = []
        self._serial = 0
        self._handle: asyncio.TimerHandle | None = None
        self._handle_at = 0

    def at(self, owner: Timed, when: int | None) -> None:
        """Register a deadline: `on_deadline` of the owner is called at `when`.

        `when` is in monotonic nanoseconds; None registers nothing. If an earlier wake-up of the
        owner is registered, it stays, and the owner is asked for its next deadline then.
        """
        if when is None or (owner.armed and owner.armed <= when):
            return
        owner.armed = when
        self._serial += 1
        heappush(self._heap, (when, self._serial, owner))
        if self._handle is None or when < self._handle_at:
            self._schedule()

    def forget(self, owner: Timed) -> None:
        """Cancel the registered deadline of an owner (a stream or consumer)."""
        owner.armed = 0

    def run(self) -> None:
        """Call `on_deadline` of every owner whose deadline has passed.

        Called by the event loop, or by the clock of a test.
        """
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
        """Cancel all wake-ups, when the node stops leading."""
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
