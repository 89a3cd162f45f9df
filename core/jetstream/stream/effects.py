"""What a committed plan changes in memory: the machine, the log, the consumers, the timers."""

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
    from core.stream.plan import StreamPlan


class PlanEffects:
    """Applies the committed plans of one stream.

    Args:
        log: The log of the stream, with its machine.
        consumers: Who is told what was stored and what is gone.
        janitor: Deletes the rows of what is gone.
        expiry: Waits for the next message that comes of age.
        scheduler: Waits for the next schedule that comes due.
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
        """Make a committed plan the state of the stream."""
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
            # What the plan stores comes behind what it purges, and is in memory next.
            self._log.tail.clear(plan.before + 1)
            self._log.removed.clear()
        # By interest, a roll-up may not be stored itself: then consumers go on behind it.
        below = plan.purged_below
        if not plan.msgs:
            below = min(below, plan.last_seq) + 1
        for consumer in self._consumers.values():
            consumer.on_purged(below)
        self._janitor.sweep(self._log)

    def _removed(self, plan: StreamPlan) -> None:
        """Hide removed messages from every reader; leave their rows to the janitor."""
        hidden = [seq for seq, _, _ in plan.removed if seq >= self._log.machine.first_seq]
        if plan.purge_filters:
            self._log.removed.hide_purged(hidden, [seq for seq, _, _ in plan.removed])
            self._janitor.sweep_purge(self._log)
        else:
            # Erased rows too, although they are gone: what was deleted is forgotten in one way.
            self._log.removed.hide(hidden, plan.record)
        if self._consumers:
            pairs = [(seq, subject) for seq, subject, _ in plan.removed]
            # As on the reference server nobody is told of what goes by the dozen.
            purged = bool(plan.purges)
            tells = not purged or len(pairs) == len(plan.purges)
            for consumer in self._consumers.values():
                consumer.on_removed(pairs, tells=tells, purged=purged)
        self._janitor.sweep(self._log)
