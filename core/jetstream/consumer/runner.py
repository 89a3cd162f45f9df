"""ConsumerRunner: one consumer on the node that leads its stream.

It connects the consumer's state machine (`core.rules.consumer.machine`) with subscriptions, storage
and timers. Pull requests, acks and stored messages are recorded and schedule `on_tick`, which runs
at the end of the pass of the event loop: it applies the acks together, then delivers. The changed
state is written within about 50 ms; a double ack is answered after its COMMIT. A deadline deletes
an inactive consumer (`on_deadline`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from core import retry
from core.cluster.replica_groups import Group, consumer_group
from core.jetstream.consumer.acks import AckIntake
from core.jetstream.consumer.cursor import Cursor
from core.jetstream.consumer.info import consumer_info, state_write
from core.jetstream.consumer.listeners import Listeners
from core.jetstream.consumer.pending_count import PendingCount
from core.jetstream.consumer.pump import Pump
from core.model.cluster import ClusterInfo
from core.model.consumer import ConsumerConfig, ConsumerInfo
from core.model.names import short_hash
from core.model.stream import Retention
from core.model.versions import is_level_supported
from core.rules.consumer import inactivity
from core.rules.consumer.events import GivenUp, Pinned, Removed, Unpinned
from core.rules.consumer.machine import ConsumerMachine
from core.rules.consumer.pull.requests import CONSUMER_DELETED, SERVER_SHUTDOWN
from core.rules.consumer.purging import start_after
from core.rules.consumer.state import ConsumerState, decode
from core.rules.stream.headers import publish_headers
from core.runtime.wall_timer import monotonic_wait
from core.storage.interface import StateWrite

if TYPE_CHECKING:
    from core.jetstream.consumer.stream import ConsumedStream
    from core.jetstream.log.stream_log import StreamLog
    from core.model.segment import Segment
    from core.pubsub.account import ServiceSubscription, Session

_REQUIRED_LEVEL = b"Nats-Required-Api-Level"
_DURABLE_WITHIN = 10.0
_REMOVED = "Unacknowledged message was deleted"


class ConsumerRunner:
    """One consumer on the node that leads its stream.

    Args:
        stream: The stream.
        consumer: The consumer's number in the stream directory.
        name: Its name; an ephemeral consumer's name is not in its configuration.
        config: Complete configuration.
        created: Time of its creation, in nanoseconds since the Unix epoch.
        machine: The state machine of the consumer, with the start position set.
        on_inactive: Called when no client has used the consumer for its inactivity threshold.
    """

    def __init__(
        self,
        stream: ConsumedStream,
        consumer: int,
        name: str,
        config: ConsumerConfig,
        created: int,
        machine: ConsumerMachine,
        on_inactive: Callable[[ConsumerRunner], None],
    ) -> None:
        services, log = stream.services, stream.log
        self.stream = stream
        self._log = log
        self.consumer = consumer
        self.name = name
        self.config = config
        self.created = created
        self.machine = machine
        self.armed = 0
        self.closed = False
        self.dead_letters_due = 0
        """The number of the newest dead letter that the committed state contains; 0: none."""
        self.hidden = config.direct
        """True for the consumer of a mirror or source: not listed, and not stored.

        After a crash the mirror or source creates it again.
        """
        self.last_delivered = 0
        self.last_acked = 0
        self.paused_until = 0
        """End of the pause, in monotonic nanoseconds; 0: not paused."""
        self.used: int = services.clock.monotonic()
        """Time of a client's last request or acknowledgement, in monotonic nanoseconds."""
        self.expiring = False
        """True while the consumer is being deleted for inactivity."""
        self._account = stream.account
        self._clock = services.clock
        self._loop_tick = services.loop_tick
        self._states = services.states
        self._timers = services.timers
        self._trust = services.trust
        self._on_inactive = on_inactive
        self._head = b"$JS.ACK.%b.%b" % (log.name.encode(), name.encode())
        self.cursor = Cursor(log, services.clock, self.wake)
        self.pump = Pump(
            log, stream.account, services.loop_tick, self.cursor, machine, self._head, self.wake
        )
        self.acks = AckIntake(
            self,
            machine,
            stream.account,
            services.clock,
            services.states,
            stream.advisories,
            (log.name, name),
        )
        self.listeners = Listeners(self, machine, stream.account, services.clock, services.states)
        self._queued = False
        self.pending_count = PendingCount(name, machine, log, services.clock, self.wake)
        self.subscriptions: list[ServiceSubscription] = []
        self.watch_retention()
        self._schedule_pause()

    # -- life --------------------------------------------------------------------------------

    @property
    def in_memory(self) -> bool:
        """True if the configuration of the consumer or its stream asks for memory storage."""
        return self.config.mem_storage or not self._log.machine.on_file

    def start(self) -> None:
        """Subscribe to pull requests and acks, watch the deliver subject, and begin deliveries."""
        account, names = self._account, (self._log.name.encode(), self.name.encode())
        self.subscriptions = [
            account.subscribe(b"$JS.API.CONSUMER.MSG.NEXT.%b.%b" % names, self._on_next)
        ]
        for head in self._ack_heads():
            account.ack_handlers[head] = self.acks
        self.subscriptions += self.listeners.start()
        self._timers.at(self, self.deadline())
        if self.machine.pending_dead_letters:
            # A restored state is committed.
            self._store_dead_letters(self.machine.pending_dead_letters.last)
        self.wake()

    def _ack_heads(self) -> list[bytes]:
        if not self.machine.acks:
            return []
        domain = self.stream.services.domain.encode() or b"_"
        names = (self._log.name.encode(), self.name.encode())
        long = b"$JS.ACK.%b.%b.%b.%b" % (domain, short_hash(self._account.name), *names)
        return [self._head, long]

    def close(self, *, deleted: bool) -> None:
        """Stop the consumer, and end waiting pull requests with a status.

        `deleted` selects the status: consumer deleted, or server shutdown.
        """
        if self.closed:
            return
        self.acks.apply()
        if deleted:
            self.machine.waiting.end_all(CONSUMER_DELETED)
        else:
            self.machine.waiting.end_all(SERVER_SHUTDOWN, tell_left=True)
        self.pump.send_statuses()
        if self.machine.settled:
            self._report_settled()
        self.closed = True
        for subscription in self.subscriptions:
            self._account.unsubscribe(subscription)
        for head in self._ack_heads():
            self._account.ack_handlers.pop(head, None)
        self.listeners.close()
        self._timers.forget(self)

    # -- loop ticks -------------------------------------------------------------------------------

    def wake(self) -> None:
        """Schedule `on_tick` for the end of this pass of the event loop."""
        if not self._queued and not self.closed:
            self._queued = True
            self._loop_tick.ready.append(self)
            self._loop_tick.arm()

    def on_tick(self) -> None:
        """Apply the acks collected in this pass of the event loop, then deliver messages."""
        self._queued = False
        if self.closed:
            return
        if self.acks.noted:
            self.acks.apply()
        if self.acks.answers:
            self.acks.answer_later()
        self.pending_count.count_if_due()
        machine, pump = self.machine, self.pump
        if self.paused_until:
            if machine.ack_pending_left():
                machine.waiting.end_of_stream()
            pump.send_statuses()
        elif self.pending_count.holds_deliveries:
            pump.send_statuses()
        elif machine.waiting.queue or machine.outbox or machine.push is not None:
            self._deliver()
        if machine.settled:
            self._report_settled()
        if machine.events:
            self._publish_events()
        if machine.pending_dead_letters.is_new:
            machine.pending_dead_letters.is_new = False
            self._states.sync(
                self, partial(self._store_dead_letters, machine.pending_dead_letters.last)
            )
        self._timers.at(self, self.deadline())

    def _deliver(self) -> None:
        """Deliver messages, if the leadership of this node is confirmed.

        Otherwise `core.jetstream.trust_gate` calls `wake` once it is.
        """
        pump = self.pump
        if not self._trust.allows(self.wake):
            pump.send_statuses()
            return
        before = pump.delivered
        if pump.run(self._clock.monotonic()):
            # Deliver the rest after other consumers and the sockets have run.
            asyncio.get_running_loop().call_soon(self.wake)
        if pump.delivered != before:
            self.last_delivered = self._clock.now()
            self._states.mark(self)
            self.pending_count.delivered()

    def _store_dead_letters(self, through: int) -> None:
        """Start storing the dead letters up to number `through`, all in the committed state."""
        self.dead_letters_due = max(self.dead_letters_due, through)
        dead_letters = self.stream.services.dead_letters
        if dead_letters is not None and not self.closed:
            dead_letters.schedule(self)

    @property
    def log(self) -> StreamLog:
        """The log of the stream."""
        return self._log

    def remove_dead_letters(self, through: int) -> None:
        """Remove stored dead letters from the state, up to number `through` inclusive."""
        self.machine.remove_dead_letters(through)
        self._states.mark(self)
        self.wake()

    def _report_settled(self) -> None:
        if settled := self.machine.pop_settled():
            self.machine.leaving.update(settled)
            self.stream.mark_settled(settled)

    def report_settled_now(self) -> None:
        """Apply collected acks and report finished messages to the stream, before `on_tick`."""
        self.acks.apply()
        if self.machine.settled:
            self._report_settled()

    def _publish_events(self) -> None:
        events = self.machine.events.copy()
        self.machine.events.clear()
        tell, names = self.stream.advisories, (self._log.name, self.name)
        for event in events:
            match event:
                case GivenUp():
                    tell.max_deliveries(*names, event.sseq, event.deliveries)
                case Removed():
                    tell.terminated(*names, event.cseq, event.sseq, event.deliveries, _REMOVED)
                case Pinned():
                    tell.group_pinned(*names, event.group, event.pin)
                case Unpinned():
                    tell.group_unpinned(*names, event.group, event.reason)

    def deadline(self) -> int | None:
        """Return the time of the next call of `on_deadline`, in monotonic nanoseconds.

        None: the consumer has no deadline.
        """
        times = [
            self.machine.deadline(),
            self._inactive_at(),
            self.pending_count.deadline(),
            self.paused_until or None,
        ]
        if self.pump.replay is not None and self.pump.replay.due_at:
            times.append(self.pump.replay.due_at)
        failed_at = self.cursor.failed_at
        if failed_at and (self.machine.waiting.queue or self.has_subscriber()):
            times.append(failed_at + retry.CONSUMER_NS)
        return min((time for time in times if time is not None), default=None)

    def on_deadline(self, now: int) -> None:
        """Process due deadlines: pull requests, heartbeats, ack waits, pauses, inactivity.

        `now` is in monotonic nanoseconds.
        """
        if self.closed:
            return
        if self.acks.noted:
            self.acks.apply()
        if 0 < self.paused_until <= now:
            self._schedule_pause()
            if not self.paused_until:
                self._resume()
        if self.pump.replay is not None:
            self.pump.replay.due_at = 0
        if 0 < self.cursor.failed_at <= now - retry.CONSUMER_NS:
            self.cursor.retry()
        self.machine.expire(now)
        push = self.machine.push
        if push is not None and push.due_heartbeat(now):
            self.pump.heartbeat()
        inactive_at = self._inactive_at()
        if inactive_at is not None and inactive_at <= now:
            threshold = self.config.inactive_threshold
            restart = inactivity.restart_at(
                self.machine, self.used, threshold, now, self._account.has_interest
            )
            if restart is None:
                self._on_inactive(self)
                return
            self.used = restart
        self.wake()

    def _inactive_at(self) -> int | None:
        """Return when the consumer is inactive, in monotonic nanoseconds; None: never."""
        if self.expiring:
            return None
        return inactivity.due_at(self.machine, self.used, self.config.inactive_threshold)

    def deletion_failed(self) -> None:
        """Restart the inactivity threshold after the deletion of the inactive consumer failed."""
        self.expiring = False
        if not self.closed:
            self.used = self._clock.monotonic()
            self._timers.at(self, self.deadline())

    # -- from clients ------------------------------------------------------------------------

    def _on_next(
        self, session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        level = publish_headers(headers).get(_REQUIRED_LEVEL) if headers else None
        if level and self.machine.push is None and not is_level_supported(level):
            self._account.publish(reply, b"", b"NATS/1.0 412 Required Api Level\r\n\r\n", b"")
            return
        self.used = now = self._clock.monotonic()
        self.machine.request(payload, reply, now)
        self.wake()

    def has_subscriber(self) -> bool:
        """Return whether this is a push consumer whose deliver subject has a subscriber."""
        return self.machine.push is not None and self.machine.push.active

    # -- from the stream ---------------------------------------------------------------------

    def on_stored(self, segment: Segment, counts: dict[bytes, int]) -> None:
        """Process messages that the stream has committed; `counts` is their number per subject."""
        machine = self.machine
        if machine.match is None:
            count = len(segment)
        else:
            count = sum(counts[subject] for subject in filter(machine.match, counts))
        if count:
            machine.stored(count)
            if segment.last >= machine.next_seq:  # The start may lie beyond the last sequence.
                self._wake_if_served()

    def on_removed(
        self, removed: Sequence[tuple[int, bytes]], *, tells: bool = True, purged: bool = False
    ) -> None:
        """Process messages that the stream has removed, as pairs (sequence, subject).

        With `tells`, removed messages with a pending ack cause advisories, and count as
        acknowledged under ack policy all.

        Args:
            removed: The sequence and the subject of each message.
            purged: Whether a purge by filter or a roll-up removed them. Such messages never count
                as acknowledged.
        """
        chosen = len(self.machine.chosen)
        is_done = self.machine.removed(removed, tells=tells, purged=purged)
        if is_done:
            self.last_acked = self._clock.now()
        if is_done or len(self.machine.chosen) < chosen:
            self._states.mark(self)  # Else a restart would wait for removed messages.
        self.cursor.hide(removed)
        if self.machine.events:
            self.wake()
        self._wake_if_served()

    def _wake_if_served(self) -> None:
        machine = self.machine
        if machine.waiting.queue or machine.push is not None:
            self.wake()

    def watch_retention(self) -> None:
        """Report finished messages to the stream if it has interest or work-queue retention."""
        watched = self.stream.config.retention is not Retention.LIMITS
        self.machine.watch_settled(is_watched=watched)

    def needs(self, seq: int, subject: bytes) -> bool:
        """Return whether this consumer has still to deliver the message, or awaits its ack."""
        return self.machine.needs(seq, subject)

    def on_purged(self, first_seq: int) -> None:
        """Process a purge of all messages of the stream below `first_seq`."""
        self.cursor.reset()
        if self.machine.has_open_below(first_seq):
            self.last_acked = self._clock.now()
        if self.machine.purged(first_seq):
            # Messages that the same commit adds are reported after this call.
            self.pending_count.invalidate()
        self._states.mark(self)
        self.wake()

    def follow(self, pattern: bytes, left: int, first: int) -> None:
        """Move the consumer's read position past purged or rolled-up messages.

        Args:
            pattern: The purged subjects (empty: all).
            left: Sequence of the first message that remains on these subjects; if there is none,
                the next sequence to be assigned.
            first: First sequence of the stream after the purge.
        """
        machine = self.machine
        start = start_after(machine.filters, pattern, left, first)
        if start is None:
            return
        if machine.follow(start):
            self.last_acked = self._clock.now()
        self._states.mark(self)

    async def reset(self, seq: int) -> ConsumerInfo:
        """Let the consumer continue at a sequence; return its info once the state is committed.

        Raises TimeoutError after ten seconds (`_DURABLE_WITHIN`) without COMMIT, Unavailable if
        PostgreSQL does not answer.
        """
        self.acks.apply()
        self.last_acked = self.last_delivered = 0
        self.cursor.reset()
        self.machine.reset(seq)
        self._states.mark(self)
        await self.pending_count.count()
        info = self.info()
        durable = asyncio.Event()
        self._states.sync(self, durable.set)
        async with asyncio.timeout(_DURABLE_WITHIN):
            await durable.wait()
        return info

    # -- configuration and state -------------------------------------------------------------

    def configure(self, config: ConsumerConfig) -> None:
        """Apply a new configuration. If filters changed, the caller counts `num_pending` again."""
        old, self.config = self.config, config
        self.machine.configure(config)
        self._states.mark(self)  # Deadlines, part of the state, may have changed.
        self.acks.configure()
        self._schedule_pause()
        if old.deliver_subject != config.deliver_subject:
            self.pump.set_receiver()
            if self.machine.push is not None:
                self.machine.push.stop()
            self.listeners.watch()  # A new deliver group applies from the next subscriber on.
        self.used = self._clock.monotonic()
        self._timers.at(self, self.deadline())
        self.wake()

    def _schedule_pause(self) -> None:
        left = (self.config.pause_until or 0) - self._clock.now()
        self.paused_until = self._clock.monotonic() + monotonic_wait(left) if left > 0 else 0

    def _resume(self) -> None:
        """Publish the advisory that the pause has ended; the configuration keeps `pause_until`."""
        until = self.config.pause_until or 0
        tell = self.stream.advisories.consumer_paused
        tell(self._log.name, self.name, paused=False, until=until)

    def restore_state(self, state: bytes) -> None:
        """Restore the state that storage has. Raises StateError if it cannot be decoded."""
        restored: ConsumerState = decode(state)
        last = self._log.machine.last_seq
        restored.delivered_sseq = min(restored.delivered_sseq, max(last, 0))
        restored.floor_sseq = min(restored.floor_sseq, restored.delivered_sseq)
        shift = self._clock.now() - self._clock.monotonic()
        self.machine.restored(restored, shift, self._log.is_live)

    def state_write(self) -> StateWrite | None:
        """Return the row of the consumer's state to write; None if it is closed or not stored."""
        if self.closed or self.hidden:
            return None
        self.acks.apply()
        return state_write(
            self.machine,
            self._clock,
            stream=self._log.stream,
            consumer=self.consumer,
            epoch=self.stream.epoch,
        )

    def info(self) -> ConsumerInfo:
        """Return the CONSUMER.INFO of the consumer."""
        self.acks.apply()
        self.pending_count.count_if_due()
        if self.machine.waiting.queue:
            self.pump.forget_gone()
        self.machine.bound(self._log.machine.last_seq, self._log.machine.msgs)
        return consumer_info(self, self._log.name, self._clock, self._cluster_info())

    @property
    def group(self) -> Group:
        """The nodes that lead or could lead the consumer, for CONSUMER.INFO."""
        return consumer_group(
            self.stream.group, self.stream.config, self.name, self.created, self.config
        )

    def announce_leader(self) -> None:
        """Publish the leader-elected advisory if the consumer has several replicas."""
        cluster, group = self.stream.services.cluster, self.group
        if cluster is not None and group.replicas > 1 and not self.hidden:
            peers = partial(cluster.peers, group)
            self.stream.advisories.consumer_led(self._log.name, self.name, cluster.own, peers)

    def _cluster_info(self) -> ClusterInfo | None:
        cluster = self.stream.services.cluster
        return None if cluster is None else cluster.info(self.group)
