"""StreamRunner: one stream on the node that leads it, from its publishes to its consumers.

Publishes are collected in columns (one list per field). The group committer requests a plan for
them (`next_plan`), commits it, and calls `emit`. All other modifications, such as purges, deletes
and expiry, are queued as changes and yield plans too, so there is one way to write.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from core.cluster.replica_groups import Group, stream_group
from core.errors import ApiError
from core.jetstream.advisories import Advisories
from core.jetstream.availability import retry_until_available, unavailable_as_api_error
from core.jetstream.changes import Change, Changes
from core.jetstream.consumer.consumers import Consumers
from core.jetstream.direct.direct_get import DirectGet
from core.jetstream.log.loading import load, load_behind, take_head
from core.jetstream.log.preconditions import PreconditionReader
from core.jetstream.log.state import state_of
from core.jetstream.log.stream_log import StreamLog
from core.jetstream.services import Services
from core.jetstream.sourcing.stream_sourcing import StreamSourcing
from core.jetstream.stream import commands, reconfiguring
from core.jetstream.stream.acks import AckEmitter
from core.jetstream.stream.batches import Batches
from core.jetstream.stream.effects import PlanEffects
from core.jetstream.stream.expiry_timer import ExpiryTimer
from core.jetstream.stream.republish import Republisher
from core.jetstream.stream.requests import Requests
from core.jetstream.stream.retention import RetentionKeeper
from core.jetstream.stream.scheduler import Scheduler
from core.model.api_errors import api_error
from core.model.cluster import ClusterInfo
from core.model.names import short_hash
from core.model.segment import Segment
from core.model.stream import Retention, StreamConfig, StreamInfo
from core.model.transform import Transform
from core.protocol.messages import MessageColumns
from core.pubsub.account import Account, ServiceSubscription, Session
from core.pubsub.receivers import Trace
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import PlanBuilder, StreamPlan
from core.rules.stream.plans.planner import decide
from core.rules.stream.plans.sourced import SourcedBatch, SourcedPlan, plan_sourced
from core.rules.stream.plans.transaction_rows import RowsPlan, plan_rows
from core.rules.stream.texts import refusal, survives_failed_commit
from core.runtime.tasks import spawn
from core.storage.interface import Head, StreamRow

# Gathered bytes of one stream above which reading from publishers is paused.
PRESSURE_BYTES = 16 << 20


class StreamRunner:
    """The leader of one stream: processes its publishes and requests, and commits its changes.

    Life cycle: `restore` (for a stream that exists), `start`, `reconfigure` per update, `close`.

    Args:
        row: The row of the stream in the stream directory.
        config: Its configuration.
        account: The account that it belongs to.
        services: The objects that all streams of the node share.
    """

    def __init__(
        self, row: StreamRow, config: StreamConfig, account: Account, services: Services
    ) -> None:
        self.stream = row.stream
        self.partition = row.partition
        self.epoch = row.head.epoch
        self.lease_group = row.lease_group
        self.created = row.created
        self.name = row.name
        self.identity = short_hash(f"{account.name}.{row.name}.{row.created}").decode()
        """Distinguishes this stream from a deleted one with the same name, for mirrors and sources.
        """
        self.config = config
        self.account = account
        self.services = services
        self.queued = False
        self.transform: Transform | None = None
        self.republisher: Republisher | None = None
        self.retention: RetentionKeeper | None = None
        self._columns = MessageColumns()
        self._changes = Changes()
        # True if the last plan was that of a change: then publishes are planned next.
        self._changed = False
        self._subscriptions: list[ServiceSubscription] = []
        self._acks_interest: ServiceSubscription | None = None
        self.machine = StreamMachine(config, services.domain)
        self.log = StreamLog(
            row.stream,
            row.partition,
            row.name,
            self.machine,
            services.reader,
            services.tails,
            services.committer,
            services.janitor,
        )
        self._open_parts()
        self.consumers.changes = row.consumer_changes

    def _open_parts(self) -> None:
        """Create the objects that read and change the stream."""
        account, services, log = self.account, self.services, self.log
        clock = services.clock
        self.advisories = Advisories(account, clock, services.server_name, services.domain)
        self.acks = AckEmitter(account, services.loop_tick, self.machine.ack_name)
        self.consumers = Consumers(self)
        self.direct = DirectGet(log, account, services.loop_tick, services.trust)
        self.requests = Requests(
            log, self.consumers, clock, self.submit, self._without_interest, self.caught_up
        )
        self.expiry = ExpiryTimer(log, clock, services.janitor, self.requests.trim)
        preconditions = PreconditionReader(
            log, services.resources, services.max_payload, self._without_interest
        )
        abandoned = partial(self.advisories.batch_abandoned, self.name)
        self.batches = Batches(
            self.machine, preconditions, clock, services.timers, services.batches, abandoned
        )
        self.scheduler = Scheduler(
            log, preconditions, clock, self.submit, self.map_subjects, services.sweeper
        )
        self.sourcing = StreamSourcing(
            log, preconditions, account, services, self.submit, self.map_subjects
        )
        self._preconditions = preconditions
        self._effects = PlanEffects(
            log, self.consumers, services.janitor, self.expiry, self.scheduler
        )
        self._configure_subjects()
        self._configure_retention()

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Subscribe to publishes and requests, and start consumers, sourcing and timers."""
        self._acks_interest = self.account.announce_acks_of(self.name)
        self.listen()
        self.direct.configure(self.config.allow_direct)
        self.consumers.start()
        if self.retention is not None:
            self.retention.sweep()
        self.sourcing.start()
        self.scheduler.watch()

    async def restore(self, head: Head) -> None:
        """Load counts, subject index, message ids and schedules of the stream from storage.

        A long stream without limits that evict is served at once: its subjects and ids are read
        meanwhile (`StreamLog.loading`), and only requests that need them wait. Raises Unavailable
        if PostgreSQL does not answer.
        """
        may_wait = take_head(self.log, head)
        await self.sourcing.restore(self.config)
        if may_wait:
            self.log.loading = spawn(self._load_behind(head), name=f"load {self.name}")
            return
        await load(self.log, head, self.services.clock.now())
        await self.scheduler.restore()
        self.services.janitor.sweep(self.log)
        self.expiry.watch()

    async def _load_behind(self, head: Head) -> None:
        await load_behind(self.log, head, self.services.clock.now)
        self.log.loading = None
        self.services.janitor.sweep(self.log)
        if self.has_work():
            self.services.committer.enqueue(self)

    @property
    def group(self) -> Group:
        """The nodes that lead or could lead the stream, for STREAM.INFO."""
        return stream_group(self.stream, self.lease_group, self.config)

    def withdraw(self) -> None:
        """Stop receiving messages from other servers for the stream and its consumers."""
        own = [*self._subscriptions, *self.direct.subscriptions]
        if self._acks_interest is not None:
            own.append(self._acks_interest)
        for consumer in self.consumers.values():
            own += consumer.subscriptions
        for subscription in own:
            self.account.withdraw(subscription)

    async def drained(self) -> None:
        """Apply the received acks of consumers, then wait until all queued publishes are committed.

        Raises ApiError while storage is unavailable.
        """
        for consumer in self.consumers.values():
            consumer.acks.apply()
        while True:
            await self.submit(self._no_change)
            if not self._columns.subjects:
                return

    async def _no_change(self, _now: int) -> PlanBuilder:
        return self.machine.unchanged(self.log.first_seq)

    def close(self, *, shutdown: bool = False) -> None:
        """Close the stream: end subscriptions and timers, and refuse queued publishes and changes.

        `shutdown` True: this node stops leading it. False: the stream was deleted. Waiting pull
        requests end with the corresponding status.
        """
        self.log.closed = True
        if self._acks_interest is not None:
            self.account.unsubscribe(self._acks_interest)
            self._acks_interest = None
        self.unlisten()
        self.direct.configure(False)
        self.sourcing.close(forget=not shutdown)
        self.consumers.close(shutdown=shutdown)
        self.services.janitor.forget(self.log)
        self.expiry.stop()
        self.scheduler.close()
        self.batches.close()
        self.log.tail.clear(self.machine.last_seq + 1)
        self.refuse_gathered(api_error("JSClusterNotAvail" if shutdown else "JSStreamNotFound"))
        unavailable = api_error("JSClusterNotAvail")
        if shutdown:
            self._changes.close(unavailable)
        else:  # A change of this queue deletes the stream.
            self._changes.failed(unavailable)

    async def reconfigure(self, config: StreamConfig, save: Callable[[], Awaitable[None]]) -> None:
        """Store a new configuration with `save`, then apply it.

        Raises ApiError if the update is refused or storage is unavailable.
        """
        old = self.config
        await unavailable_as_api_error(self.sourcing.restore(config))
        await reconfiguring.record(self.log, old, config, save, self.submit)
        self.config = config
        if self.log.closed:
            raise api_error("JSClusterNotAvail")  # The stream was lost after it was stored.
        self._configure_subjects()
        self.batches.configure()
        if old.subjects != config.subjects:
            self.listen()
        self.direct.configure(config.allow_direct)
        await self.expiry.trim()
        await retry_until_available(lambda: self.scheduler.reconfigure(old), self.log)
        if old.retention is not config.retention:
            self._configure_retention()
            if self.retention is not None:
                self.retention.begin()
            await self.caught_up()
        if (old.mirror, old.sources) != (config.mirror, config.sources):
            self.sourcing.configure(config)
        else:
            self.sourcing.update_direct_get()

    def _configure_retention(self) -> None:
        """Create the retention keeper for interest and work-queue retention, or remove it."""
        retention = self.config.retention
        self.retention = None
        if retention is not Retention.LIMITS:
            self.retention = RetentionKeeper(self.log, self.consumers, retention, self.submit)
        for consumer in self.consumers.values():
            consumer.watch_retention()

    def _configure_subjects(self) -> None:
        """Create the configured subject transform and republisher, or remove them."""
        config = self.config
        transform = config.subject_transform
        self.transform = None
        if transform is not None:
            self.transform = Transform(transform.src, transform.dest, random.random)
        self.republisher = Republisher(config, self.account) if config.republish else None

    def _without_interest(self, subjects: Iterable[bytes]) -> frozenset[bytes]:
        """Return those of the given subjects whose messages are not stored (interest retention).

        These are the subjects that no consumer's filter matches.
        """
        return frozenset() if self.retention is None else self.retention.without_interest(subjects)

    def map_subjects(self, subjects: list[bytes]) -> list[bytes]:
        """Return the subjects under which messages are stored, by the stream's transform."""
        return subjects if self.transform is None else self.transform.apply_all(subjects)

    # -- interest ----------------------------------------------------------------------------

    def listen(self) -> None:
        """Subscribe to the subjects in the stream's configuration, instead of former ones."""
        self.unlisten()
        self._subscriptions = [
            self.account.subscribe(subject.encode(), self.ingest)
            for subject in self.config.subjects
        ]
        ingest = self.ingest_batch  # One object: routes with the same `batch` are of one stream.
        for subscription in self._subscriptions:
            subscription.batch = ingest
            subscription.traced = self._ingest_traced
            subscription.takes_authors = True

    def unlisten(self) -> None:
        """Unsubscribe from the subjects of the stream."""
        for subscription in self._subscriptions:
            self.account.unsubscribe(subscription)
        self._subscriptions = []

    # -- gather ------------------------------------------------------------------------------

    def ingest(
        self,
        session: Session | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Queue one publish for the next commit; the first queued one enqueues the stream."""
        columns = self._columns
        if not self.queued:
            self.services.committer.enqueue(self)
        columns.subjects.append(subject)
        columns.replies.append(reply)
        columns.headers.append(headers)
        columns.payloads.append(payload)
        columns.nbytes += len(payload)
        if headers:
            columns.nbytes += len(headers)
            columns.has_headers = True
        if columns.nbytes > PRESSURE_BYTES:
            self.services.begin_backpressure()

    def ingest_batch(self, batch: MessageColumns) -> None:
        """Queue all publishes that one read from a connection contained."""
        columns = self._columns
        if not self.queued:
            self.services.committer.enqueue(self)
        columns.extend(batch)
        if columns.nbytes > PRESSURE_BYTES:
            self.services.begin_backpressure()

    def _ingest_traced(
        self, trace: Trace, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        from core.jetstream.stream.traced import TracedPublishes  # Tracing is rare: import late.

        TracedPublishes(self).ingest(trace, subject, reply, headers, payload)

    def answer_to(self, reply: bytes) -> None:
        """Ack the queued message with this reply subject even if the stream has `no_ack`."""
        self._columns.answered |= {reply}

    def has_work(self) -> bool:
        """Return whether the stream has publishes or changes to commit next.

        While the subjects are being loaded, changes wait, and so do publishes with headers, which
        may contain message ids or expected sequences.
        """
        if self.log.loading is not None and (self._columns.has_headers or self._changes):
            return False
        return bool(self._columns.subjects or self._changes)

    async def plan_dead_letters(self, run: SourcedBatch, now: int) -> SourcedPlan:
        """Decide the storing of dead letters, with the number of the last one as position.

        `now` is in nanoseconds since the Unix epoch. Stops at the first dead letter that the stream
        refuses. Raises Unavailable if PostgreSQL does not answer.
        """
        preconditions = await self._preconditions.read(run.columns, now)
        return plan_sourced(
            self.machine, [run], now, preconditions, mirrors=False, leaves_out=False
        )

    def submit(self, change: Change) -> asyncio.Future[StreamPlan]:
        """Queue a change of the stream other than a publish.

        The future yields the plan after its COMMIT. It raises ApiError if the change is refused or
        storage is unavailable.
        """
        done = self._changes.add(change)
        if self.log.closed:
            # Storage may have no head row for the stream any more.
            self.refuse_gathered(api_error("JSStreamNotFound"))
        else:
            self.services.committer.enqueue(self)
        return done

    # -- decide ------------------------------------------------------------------------------

    async def next_plan(self, limit: int, now: int) -> StreamPlan | None:
        """Decide the next commit: one change, or up to `limit` publishes; None: no work.

        Called by the group committer. Changes (purges, deletes, expiry) and publishes alternate.
        `now` is in nanoseconds since the Unix epoch. Raises Unavailable if PostgreSQL does not
        answer; then the work stays queued.
        """
        if not self.has_work():
            return None
        if self._changes and not (self._changed and self._columns.subjects):
            self._changed = True
            change = await self._changes.plan_next(now)
            if change is None:
                return None
            if self.log.closed:
                # The change deleted the stream: without a head row its outcome could not be read.
                self._changes.committed(change.build())
                return None
            commands.erase_superseded(self.log, change)
            return change.build()
        self._changed = False
        columns = self._columns
        if len(columns) > limit:
            columns = columns.split(limit)
        else:
            self._columns = MessageColumns()
        in_batches = self.batches.concern(columns)
        if in_batches:
            rest, columns = columns, columns.split(self.batches.split_at(columns))
            self._requeue(rest)
        published = columns.subjects
        if self.transform is not None:
            columns.subjects = self.transform.apply_all(published)
        try:
            if in_batches:
                plan = await self.batches.decide(columns, now)
            else:
                preconditions = await self._preconditions.read(columns, now)
                plan = decide(self.machine, columns, now, preconditions)
        except BaseException:
            columns.subjects = published
            self._requeue(columns)
            raise
        commands.erase_superseded(self.log, plan)
        return plan.build()

    async def foresee(self, columns: MessageColumns, now: int) -> PlanBuilder:
        """Decide publishes as the next commit would, but do not commit them; return the plan.

        Used for message traces. `now` is in nanoseconds since the Unix epoch. Raises Unavailable if
        PostgreSQL does not answer.
        """
        return decide(self.machine, columns, now, await self._preconditions.read(columns, now))

    async def plan_rows(self, columns: MessageColumns, now: int) -> RowsPlan:
        """Decide the storing of rows of a transaction (`core.jetstream.transactions`).

        Called as a queued change. `now` is in nanoseconds since the Unix epoch. Raises Unavailable
        if PostgreSQL does not answer.
        """
        return plan_rows(self.machine, columns, now, await self._preconditions.read(columns, now))

    def lacks_interest(self, subject: bytes) -> bool:
        """Return whether a message on `subject` is not stored because no consumer matches it."""
        return subject in self._without_interest((subject,))

    def _requeue(self, columns: MessageColumns) -> None:
        later, self._columns = self._columns, columns
        columns.extend(later)

    # -- emit --------------------------------------------------------------------------------

    def emit(self, plan: StreamPlan) -> None:
        """Apply a committed plan (`StreamPlan`) in memory, and queue its acks for sending."""
        self._count_refused(plan)
        if plan.accepted is not None and self.republisher is not None:
            self._republish(plan, plan.accepted, self.republisher)
        elif plan.changes_head:
            self._effects.apply(plan)
        if plan.fast is not None:
            self.batches.committed(plan.fast)
        if plan.acks:
            self.services.committer.answer_after_commit(
                partial(self.acks.emit, plan.acks, plan.ack_first)
            )
        if plan.answers:
            self.services.committer.answer_after_commit(partial(self.acks.answer, plan.answers))
        self._changes.committed(plan)

    def _republish(self, plan: StreamPlan, accepted: Segment, republisher: Republisher) -> None:
        """Apply a committed plan, and republish its messages."""
        index = self.machine.index
        last_seqs = {subject: index.last(subject) for subject in set(accepted.subjects)}
        self._effects.apply(plan)
        republisher.send(accepted, republisher.prepare(accepted, last_seqs))

    def fail(self, plan: StreamPlan, error: ApiError) -> None:
        """Answer the publishers of a plan (`StreamPlan`) with an error: its commit was refused."""
        self.batches.failed()
        self._count_refused(plan)
        self.services.committer.refuse(error.err_code, plan.rows)
        body = refusal(error, self.machine.json_name)
        self.acks.answer((reply, body) for reply in plan.acks if reply)
        held = (
            (reply, a if survives_failed_commit(a, plan.before) else body)
            for reply, a in plan.answers
        )
        self.acks.answer(held)
        self._changes.failed(error)

    def _count_refused(self, plan: StreamPlan) -> None:
        for code, count in plan.refused.items():
            self.services.committer.refuse(code, count)

    def refuse_gathered(self, error: ApiError) -> None:
        """Answer all queued publishes and changes with an error."""
        columns, self._columns = self._columns, MessageColumns()
        self.services.committer.refuse(error.err_code, len(columns))
        replies = columns.replies
        if self.config.no_ack:
            replies = [reply for reply in replies if reply in columns.answered]
        body = refusal(error, self.machine.json_name)
        self.acks.answer((reply, body) for reply in replies if reply)
        self._changes.refuse(error)

    # -- info --------------------------------------------------------------------------------

    async def info(
        self,
        *,
        deleted: bool = False,
        subjects: dict[str, int] | None = None,
        with_cluster: bool = False,
    ) -> StreamInfo:
        """Return the STREAM.INFO: configuration and state of the stream.

        Args:
            deleted: Whether to list deleted sequences.
            subjects: Subjects to list with their message counts; None: no list.
            with_cluster: Whether to name the leader even if this server has no peers.

        Raises:
            ApiError: JSClusterNotAvail while storage is unavailable.
        """
        await self.caught_up()
        state = await unavailable_as_api_error(
            state_of(self.log, self.consumer_count, deleted=deleted, subjects=subjects)
        )
        return StreamInfo(
            config=self.config,
            created=self.created,
            state=state,
            domain=self.services.domain,
            cluster=self._cluster_info(with_cluster=with_cluster),
            mirror=self.sourcing.mirror_info(),
            sources=self.sourcing.source_infos(),
            ts=self.services.clock.now(),
        )

    def _cluster_info(self, *, with_cluster: bool) -> ClusterInfo | None:
        if (cluster := self.services.cluster) is not None:
            return cluster.info(self.group)
        return ClusterInfo(leader=self.services.server_name) if with_cluster else None

    def consumer_count(self) -> int:
        """Return the number of the stream's consumers, without those of mirrors and sources."""
        return sum(1 for consumer in self.consumers.values() if not consumer.hidden)

    # -- from and for consumers ---------------------------------------------------------------

    def mark_settled(self, sseqs: Sequence[int]) -> None:
        """Record messages that a consumer has finished, for interest or work-queue retention."""
        if self.retention is not None:
            self.retention.mark_settled(sseqs)

    async def caught_up(self) -> None:
        """Wait until retention has removed the messages that were acknowledged before this call."""
        if self.retention is not None:
            await self.retention.caught_up()

    async def less_wanted(self, start: int = 0) -> None:
        """Remove messages at or after `start` that no consumer needs.

        Called after a consumer was changed or deleted.
        """
        if self.retention is not None:
            self.retention.less_wanted(start)
            await self.retention.caught_up()
