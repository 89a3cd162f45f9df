"""Applying a committed change (`StreamPlan`) in memory: to state, consumers and timers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from core.jetstream.stream.following import follow_rollups

if TYPE_CHECKING:
    from core.jetstream.consumer.consumers import Consumers
    from core.jetstream.janitor import Janitor
    from core.jetstream.log.stream_log import StreamLog
    from core.jetstream.stream.expiry_timer import ExpiryTimer
    from core.jetstream.stream.scheduler import Scheduler
    from core.rules.stream.plan import StreamPlan


class PlanEffects:
    """Applies the committed plans (`StreamPlan`) of one stream in memory.

    Args:
        log: The log of the stream, with the stream's state.
        consumers: The consumers, which process stored and removed messages.
        janitor: Deletes the rows of removed messages.
        expiry: The timer of the next message to expire.
        scheduler: The timer of the next due schedule.
    """

    def __init__(
        self,
        log: StreamLog,
        consumers: Consumers,
        janitor: Janitor,
        expiry: ExpiryTimer,
        scheduler: Scheduler,
    ) -> None:
        self._log = log
        self._consumers = consumers
        self._janitor = janitor
        self._expiry = expiry
        self._scheduler = scheduler

    def apply(self, plan: StreamPlan) -> None:
        """Apply a committed change to the stream's state, the memory tail, consumers and timers."""
        log, machine = self._log, self._log.machine
        machine.apply(plan)
        segment = plan.segment
        if plan.purged_below:
            self._purged(plan)
        if plan.removed:
            self._removed(plan)
        if segment is not None and len(segment):
            log.tail.append(segment)
            if self._consumers:
                counts = Counter(segment.subjects)
                for consumer in self._consumers.values():
                    consumer.on_stored(segment, counts)
        elif log.tail.start == plan.before + 1:
            log.tail.start = plan.last_seq + 1
        if plan.purges:
            follow_rollups(log, self._consumers, plan)
        if machine.max_age or machine.expiry is not None:
            self._expiry.watch()
        if machine.schedules is not None:
            self._scheduler.watch()

    def _purged(self, plan: StreamPlan) -> None:
        if plan.index is None:
            # The plan's own messages follow the purged ones; `apply` appends them next.
            self._log.tail.clear(plan.before + 1)
            self._log.removed.clear()
        # With interest retention a roll-up may not be stored: consumers continue after it.
        below = plan.purged_below
        if not plan.msgs:
            below = min(below, plan.last_seq) + 1
        for consumer in self._consumers.values():
            consumer.on_purged(below)
        self._janitor.sweep(self._log)

    def _removed(self, plan: StreamPlan) -> None:
        """Hide removed messages from readers, and queue their rows for deletion."""
        hidden = [seq for seq, _, _ in plan.removed if seq >= self._log.machine.first_seq]
        if plan.purge_filters:
            self._log.removed.hide_purged(hidden, [seq for seq, _, _ in plan.removed])
            self._janitor.sweep_purge(self._log)
        else:
            # Also rows that the plan itself deleted, so that all are forgotten in one way.
            self._log.removed.hide(hidden, plan.record)
        if self._consumers:
            pairs = [(seq, subject) for seq, subject, _ in plan.removed]
            # nats-server: a purge of many messages publishes no advisory for each of them.
            purged = bool(plan.purges)
            tells = not purged or len(pairs) == len(plan.purges)
            for consumer in self._consumers.values():
                consumer.on_removed(pairs, tells=tells, purged=purged)
        self._janitor.sweep(self._log)
