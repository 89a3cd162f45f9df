"""Counting the messages that a consumer has still to deliver (`num_pending`).

Normally each store, delivery and removal updates the number. After a purge, a change of the filters
or a reset it is counted again: at once if the subject index in memory suffices, else by a task that
reads storage. The count is repeated if the stream changes meanwhile, and retried later if
PostgreSQL does not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core import retry
from core.errors import CoreError
from core.jetstream.log.counts import count_at_once, count_from
from core.runtime.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.jetstream.log.message import Match
    from core.jetstream.log.stream_log import StreamLog
    from core.rules.consumer.machine import ConsumerMachine
    from core.runtime.clock import Clock

_TRIES = 5


class PendingCount:
    """Counts `num_pending` of one consumer whenever the number cannot be updated step by step.

    Args:
        name: The consumer's name.
        machine: The state machine of the consumer, which has the number.
        log: The log of the stream.
        clock: The clock.
        wake: Called at the end of each count.
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
        """True while deliveries wait for a count, since each delivered message contains the number.

        A restarted count allows one delivery, so that repeated purges cannot block deliveries
        forever.
        """
        return self._running > 0 and not self._may_deliver_once

    def delivered(self) -> None:
        """Record a delivery; afterwards a count in progress holds deliveries again."""
        self._may_deliver_once = False

    def invalidate(self) -> None:
        """Request a new count, which the next `count_if_due` starts."""
        self._is_stale = True

    def deadline(self) -> int | None:
        """Return the time of the next attempt after a failed count, in monotonic nanoseconds.

        None: the last count did not fail.
        """
        return self._retry_at or None if self._is_stale and not self._running else None

    def count_if_due(self) -> None:
        """Start a count if one is requested; after a failed count only from its retry time on."""
        if self._is_stale and not self._running and self._clock.monotonic() >= self._retry_at:
            self._begin()

    def _begin(self) -> None:
        machine, log = self._machine, self._log
        count = None
        if not machine.chosen and machine.upcoming() <= log.first_seq:
            count = count_at_once(log, machine.match, machine.filters)
        if count is None:
            # Until the count ends, the number errs on the high side.
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
            self._may_deliver_once = True  # The outage may last: deliver without an exact number.
        finally:
            self._running -= 1
            self._wake()

    async def count(self) -> None:
        """Count the messages still to deliver; repeat at most five times if the stream changes.

        Raises Unavailable if PostgreSQL does not answer; then `count_if_due` retries after 250 ms.
        """
        self._running += 1
        try:
            await self._count()
        except CoreError:
            self._is_stale, self._retry_at = True, self._clock.monotonic() + retry.CONSUMER_NS
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
        """Return the inputs of a count: (start, last sequence, message count, filter)."""
        machine, log = self._machine, self._log.machine
        start = machine.live_from if machine.chosen else machine.upcoming()
        return start, log.last_seq, log.msgs, machine.match
