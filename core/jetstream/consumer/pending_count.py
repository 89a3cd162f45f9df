"""How many messages a consumer has still to deliver (`num_pending`), counted anew when it must be.

As a rule the number follows from what is stored, delivered and removed. After a purge, a change of
the filters or a reset it is counted: at once where memory knows, else in the background, again
while the stream changes under the count, and later where storage is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import CoreError
from core.jetstream.log.counts import count_at_once, count_from
from core.runtime.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.consumer.machine import ConsumerMachine
    from core.jetstream.log.message import Match
    from core.jetstream.log.stream_log import StreamLog
    from core.runtime.clock import Clock

_RETRY_NS = 250_000_000
_TRIES = 5


class PendingCount:
    """Keeps the `num_pending` of one consumer's machine.

    Args:
        name: The consumer's name.
        machine: Whose number it is.
        log: The log of the stream.
        clock: The time.
        wake: Called when a count has ended.
    """

    def __init__(
        self,
        name: str,
        machine: ConsumerMachine,
        log: StreamLog,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._name = name
        self._machine = machine
        self._log = log
        self._clock = clock
        self._wake = wake
        self._is_stale = False
        self._running = 0
        self._retry_at = 0
        self._may_deliver_once = False

    @property
    def holds_deliveries(self) -> bool:
        """Whether deliveries wait for a count: each message tells how many are left.

        One is let through whenever a count had to begin again: whoever purges in a loop cannot hold
        deliveries for ever.
        """
        return self._running > 0 and not self._may_deliver_once

    def delivered(self) -> None:
        """Take note of a delivery."""
        self._may_deliver_once = False

    def invalidate(self) -> None:
        """Have it counted when the consumer has its turn."""
        self._is_stale = True

    def deadline(self) -> int | None:
        """Return when to count again after storage was away, monotonic nanoseconds."""
        return self._retry_at or None if self._is_stale and not self._running else None

    def count_if_due(self) -> None:
        """Begin to count if it has to be, and is not to wait for storage."""
        if self._is_stale and not self._running and self._clock.monotonic() >= self._retry_at:
            self._begin()

    def _begin(self) -> None:
        machine, log = self._machine, self._log
        count = None
        if not machine.chosen and machine.upcoming() <= log.first_seq:
            count = count_at_once(log, machine.match, machine.filters)
        if count is None:
            # Until it is known, rather too many than too few.
            machine.count(log.machine.msgs, is_exact=machine.is_counted)
            self._running += 1
            spawn(self._count_in_background(), name=f"count for consumer {self._name}")
        else:
            self._is_stale = False
            machine.count(count, is_exact=True)

    async def _count_in_background(self) -> None:
        try:
            await self.count()
        except CoreError:
            self._may_deliver_once = True  # It takes as long as storage is away.
        finally:
            self._running -= 1
            self._wake()

    async def count(self) -> None:
        """Count; again when the stream changed meanwhile.

        Raises Unavailable; it is counted when storage is back.
        """
        self._running += 1
        try:
            await self._count()
        except CoreError:
            self._is_stale, self._retry_at = True, self._clock.monotonic() + _RETRY_NS
            raise
        finally:
            self._running -= 1
            self._wake()

    async def _count(self) -> None:
        self._is_stale = False
        log, machine = self._log, self._machine
        machine.begin_count(log.is_live)
        for _ in range(_TRIES):
            counted = start, *_ = self._basis()
            count = await count_from(log, start, machine.match, machine.filters)
            machine.count(count + len(machine.chosen), is_exact=False)
            if self._basis() == counted:
                break
        machine.count(machine.num_pending, is_exact=not self._is_stale)
        self._may_deliver_once = self._is_stale

    def _basis(self) -> tuple[int, int, int, Match | None]:
        """Return what a count is about: where it begins, how far the log is, what is wanted."""
        machine, log = self._machine, self._log.machine
        start = machine.live_from if machine.chosen else machine.upcoming()
        return start, log.last_seq, log.msgs, machine.match
