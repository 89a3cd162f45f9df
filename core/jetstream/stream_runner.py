"""StreamRunner: one stream, its machine, its memory tail, its consumers.

Publishes are gathered in columns; the lane asks for a plan, commits it, and hands it back to
`emit`. Everything else that changes the log (purge, delete, expiry) is a command that yields a
plan of the same kind, so there is one way to write.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from core.errors import ApiError, StorageError
from core.jetstream import commands, lifetimes
from core.jetstream.acks import AckEmitter
from core.jetstream.advisories import Advisories
from core.jetstream.batches import Batches
from core.jetstream.consumer_runner import ConsumerRunner
from core.jetstream.consumers import Consumers
from core.jetstream.copying.copier import Copier
from core.jetstream.direct_get import DirectGet
from core.jetstream.facts import facts_for
from core.jetstream.opening import build_index
from core.jetstream.purging import follow_purge, follow_rollups
from core.jetstream.queries import Message, StreamQueries
from core.jetstream.republish import Republisher
from core.jetstream.retention import Keeper, make_retention
from core.jetstream.scheduler import Scheduler
from core.jetstream.shell import Shell
from core.jetstream.tail import Tail
from core.model.api_errors import api_error
from core.model.message import MsgGetRequest
from core.model.names import short_hash
from core.model.stream import ClusterInfo, StreamConfig, StreamInfo
from core.model.transform import Transform
from core.protocol.gather import Batch
from core.pubsub.account import Account, ServiceSubscription, Session
from core.storage.interface import ConsumerRow, StreamRow
from core.stream.expiry import Expiry
from core.stream.machine import StreamMachine
from core.stream.plan import Columns, StreamPlan
from core.stream.planner import decide
from core.stream.segment import Segment
from core.stream.texts import refusal, survives_failed_commit

T = TypeVar("T")

# Gathered bytes of one stream above which publishers are no longer read.
PRESSURE_BYTES = 16 << 20


@dataclass(slots=True)
class Command:
    """A change of the log other than a publish: computed when its turn comes."""

    plan: Callable[[int], Awaitable[StreamPlan]]
    done: asyncio.Future[StreamPlan]


class StreamRunner(StreamQueries):
    """The owner of one stream on the node that leads it."""

    def __init__(
        self, row: StreamRow, config: StreamConfig, account: Account, shell: Shell
    ) -> None:
        self.stream = row.stream
        self.shelf = row.shelf
        self.epoch = row.head.epoch
        self.created = row.created
        self.name = row.name
        self.nameb = row.name.encode()
        self.identity = short_hash(f"{account.name}.{row.name}.{row.created}").decode()
        """Which incarnation of the name this is, for those who copy it."""
        self.config = config
        self.account = account
        self.shell = shell
        self.machine = StreamMachine(config, shell.domain)
        self.columns = Columns()
        self.commands: deque[Command] = deque()
        self.current: Command | None = None
        # In the order of removal, which is the order of sweeping: what a newer message of its
        # subject replaced must not outlive that message in storage.
        self.backlog: dict[int, None] = {}
        self.purging: list[int] = []
        # Swept, but perhaps not yet for a read that began before.
        self.leaving: set[int] = set()
        self.forgotten = 0
        self.dead: set[int] = set()
        self.tail = Tail(shell.tails, self.machine.last_seq + 1, self._tail_dropped)
        self.advisories = Advisories(account, shell.clock, shell.server_name, shell.domain)
        self.acks = AckEmitter(account, shell.turn, self.machine.ack_name)
        self.consumers = Consumers(self)
        self.direct = DirectGet(self)
        self.subscriptions: list[ServiceSubscription] = []
        self.queued = False
        self.closed = False
        self.transform: Transform | None = None
        self.republisher: Republisher | None = None
        self._configure_subjects()
        self.batches = Batches(self)
        self.scheduler = Scheduler(self)
        self.copier = Copier(self)
        self.retention: Keeper | None = None
        self._configure_retention()
        self.loading: asyncio.Task[None] | None = None

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Take publishes and requests."""
        self.listen()
        self.direct.configure(self.config.allow_direct)
        self.consumers.start()
        if self.retention is not None:
            self.retention.sweep()
        self.copier.start()
        self.scheduler.watch()

    def close(self, *, shutdown: bool = False) -> None:
        """Take nothing any more; waiting pulls are told why."""
        self.closed = True
        self.unlisten()
        self.direct.configure(False)
        self.copier.close(forget=not shutdown)
        self.consumers.close(shutdown=shutdown)
        self.shell.janitor.forget(self)
        self.scheduler.close()
        self.batches.close()
        self.tail.clear(self.machine.last_seq + 1)
        self.refuse_gathered(api_error("JSClusterNotAvail" if shutdown else "JSStreamNotFound"))
        command, self.current = self.current, None
        if command is not None and not command.done.done():
            command.done.set_exception(api_error("JSClusterNotAvail"))

    async def reconfigure(self, config: StreamConfig, save: Callable[[], Awaitable[None]]) -> None:
        """Have `save` record a configuration in the catalogue, then take it."""
        old = self.config
        await self._stored(self.copier.restore(config))
        other_limit = max(old.max_msgs_per_subject, 0) != max(config.max_msgs_per_subject, 0)
        if other_limit or lifetimes.begin(old, config):
            await self.command(lambda _now: self._plan_new_limit(config, save))
        elif lifetimes.may_grow(old, config):
            await self.command(lambda _now: self._plan_longer_lives(config, save))
        else:
            await save()
            self.machine.configure(config)
        self.config = config
        self._configure_subjects()
        self.batches.configure()
        if old.subjects != config.subjects:
            self.listen()
        self.direct.configure(config.allow_direct)
        await self.shell.janitor.trim(self)
        await self._stored(self.scheduler.reconfigure(old))
        if old.retention is not config.retention:
            self._configure_retention()
            if self.retention is not None:
                self.retention.begin()
            await self.caught_up()
        if (old.mirror, old.sources) != (config.mirror, config.sources):
            self.copier.configure(config)
        else:
            self.copier.reconsider()

    def _configure_retention(self) -> None:
        """Have consumers decide what is stored and kept, or limits alone."""
        self.retention = make_retention(self)
        for consumer in self.consumers.values():
            consumer.watch_retention()

    def _configure_subjects(self) -> None:
        """Make what the configuration wants done with subjects, or nothing."""
        config = self.config
        transform = config.subject_transform
        self.transform = None
        if transform is not None:
            self.transform = Transform(transform.src, transform.dest, random.random)
        self.republisher = Republisher(config, self.account) if config.republish else None

    async def _plan_new_limit(
        self, config: StreamConfig, save: Callable[[], Awaitable[None]]
    ) -> StreamPlan:
        """Read the rows anew for another per-subject limit, or to know when they expire.

        Rows that the old limit removed leave storage before the new one is recorded, which could
        allow them again; nothing is published in between.
        """
        await self.shell.janitor.finish(self)
        limit = max(config.max_msgs_per_subject, 0)
        expiry = Expiry(config.max_age) if lifetimes.begin(self.config, config) else None
        index, superseded = await build_index(self, limit, expiry=expiry)
        await save()
        plan = self.machine.unchanged()
        plan.config, plan.index, plan.expiry = config, index, expiry
        for row in superseded:
            self.machine.remove(plan, *row)
        return plan

    async def _plan_longer_lives(
        self, config: StreamConfig, save: Callable[[], Awaitable[None]]
    ) -> StreamPlan:
        """Let what has expired leave storage before a configuration that would have kept it."""
        await self.shell.janitor.finish(self)
        await save()
        plan = self.machine.unchanged()
        plan.config = config
        return plan

    async def trim(self) -> None:
        """Enforce limits that a new configuration or the passing of time made tighter.

        Raises ApiError JSClusterNotAvail while storage is away.
        """
        removed = True
        while removed:
            foreseen = await self._stored(lifetimes.foresee(self))
            plan = await self.command(partial(commands.plan_expiry, self, foreseen))
            removed = bool(plan.removed)

    # -- interest ----------------------------------------------------------------------------

    def listen(self) -> None:
        """Subscribe to the stream's subjects (again, after they changed)."""
        self.unlisten()
        self.subscriptions = [
            self.account.subscribe(subject.encode(), self.ingest)
            for subject in self.config.subjects
        ]
        take = self.ingest_batch  # one object, by which its routes are known to be of one stream
        for subscription in self.subscriptions:
            subscription.batch = take

    def unlisten(self) -> None:
        """Take no more publishes."""
        for subscription in self.subscriptions:
            self.account.unsubscribe(subscription)
        self.subscriptions = []

    # -- gather ------------------------------------------------------------------------------

    def ingest(
        self,
        session: Session | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Take one publish: four appends, and a place in the lane for the first of a batch."""
        columns = self.columns
        if not self.queued:
            self.shell.lane.enqueue(self)
        columns.subjects.append(subject)
        columns.replies.append(reply)
        columns.headers.append(headers)
        columns.payloads.append(payload)
        columns.nbytes += len(payload)
        if headers:
            columns.headered = True
        if columns.nbytes > PRESSURE_BYTES:
            self.shell.press()

    def ingest_batch(self, batch: Batch) -> None:
        """Take the publishes of a read."""
        columns = self.columns
        if not self.queued:
            self.shell.lane.enqueue(self)
        columns.subjects += batch.subjects
        columns.replies += batch.replies
        columns.headers += batch.headers
        columns.payloads += batch.payloads
        columns.nbytes += sum(map(len, batch.payloads))
        columns.headered = columns.headered or batch.has_headers
        if columns.nbytes > PRESSURE_BYTES:
            self.shell.press()

    def has_work(self) -> bool:
        """Whether there is something for the next round.

        While the subjects are still being read, publishes with headers, which may name message ids
        or expected sequences, and changes of the log wait.
        """
        if self.loading is not None and (self.columns.headered or self.commands):
            return False
        return bool(self.columns.subjects or self.commands)

    async def command(self, plan: Callable[[int], Awaitable[StreamPlan]]) -> StreamPlan:
        """Run a change of the log in its turn; return the committed plan.

        Raises ApiError when the change is refused or storage is away.
        """
        return await self.submit(plan)

    def submit(self, plan: Callable[[int], Awaitable[StreamPlan]]) -> asyncio.Future[StreamPlan]:
        """Give a change of the log its turn; the future has the committed plan, or ApiError."""
        done: asyncio.Future[StreamPlan] = asyncio.get_running_loop().create_future()
        self.commands.append(Command(plan, done))
        if self.closed:
            self.refuse_gathered(
                api_error("JSStreamNotFound")
            )  # storage has no head for it any more
        else:
            self.shell.lane.enqueue(self)
        return done

    # -- decide ------------------------------------------------------------------------------

    async def next_plan(self, limit: int, now: int) -> StreamPlan | None:
        """Return what this stream wants committed next, or None."""
        if not self.has_work():
            return None
        if self.commands:
            return await self._command_plan(now)
        columns = self.columns
        if len(columns) > limit:
            columns = columns.split(limit)
        else:
            self.columns = Columns()
        in_batches = self.batches.concern(columns)
        if in_batches:
            rest, columns = columns, columns.split(self.batches.cut(columns))
            self._give_back(rest)
        published = columns.subjects
        if self.transform is not None:
            columns.subjects = self.transform.apply_all(published)
        try:
            if in_batches:
                plan = await self.batches.decide(columns, now)
            else:
                facts = await facts_for(self, columns, now)
                plan = decide(self.machine, columns, now, facts)
        except BaseException:
            columns.subjects = published
            self._give_back(columns)
            raise
        self._erase_superseded(plan)
        return plan

    def _erase_superseded(self, plan: StreamPlan) -> None:
        """Let superseded rows that still wait for removal go with an explicit removal.

        With the newest message of a subject gone, a reload would take an older one, which the
        per-subject limit had removed, for the newest, and mark again what has expired.
        """
        limited = self.machine.limit > 0 or self.machine.expiry is not None
        if limited and self.backlog and (plan.erased or plan.purge_filters):
            plan.erased += self.backlog

    async def _command_plan(self, now: int) -> StreamPlan | None:
        command = self.commands.popleft()
        if command.done.cancelled():
            return None
        try:
            plan = await command.plan(now)
        except ApiError as error:
            if not command.done.cancelled():
                command.done.set_exception(error)
            return None
        except BaseException:
            self.commands.appendleft(command)
            raise
        self.current = command
        self._erase_superseded(plan)
        return plan

    def _give_back(self, columns: Columns) -> None:
        later, self.columns = self.columns, columns
        columns.extend(later)

    # -- emit --------------------------------------------------------------------------------

    def emit(self, plan: StreamPlan) -> None:
        """Make a committed plan the state, and let out what waited for it."""
        if plan.accepted is not None and self.republisher is not None:
            self._republish(plan, plan.accepted, self.republisher)
        elif plan.changes_head:
            self._apply(plan)
        if plan.fast is not None:
            self.batches.committed(plan.fast)
        if plan.acks:
            self.shell.lane.tell(partial(self.acks.emit, plan.acks, plan.ack_first))
        if plan.answers:
            self.shell.lane.tell(partial(self.acks.answer, plan.answers))
        command, self.current = self.current, None
        if command is not None and not command.done.done():
            command.done.set_result(plan)

    def _republish(self, plan: StreamPlan, accepted: Segment, republisher: Republisher) -> None:
        """Apply a plan and send on what it stores; the last sequences are those before it."""
        index = self.machine.index
        lasts = {subject: index.last(subject) for subject in set(accepted.subjects)}
        self._apply(plan)
        republisher.send(accepted, republisher.prepare(accepted, lasts))

    def _apply(self, plan: StreamPlan) -> None:
        machine = self.machine
        machine.apply(plan)
        segment = plan.segment
        if plan.purged_below:
            self._purged(plan)
        if plan.removed:
            self._removed(plan)
        if segment is not None and len(segment):
            self.tail.append(segment)
            if self.consumers:
                counts = Counter(segment.subjects)
                for consumer in self.consumers.values():
                    consumer.on_stored(segment, counts)
        elif self.tail.start == plan.before + 1:
            self.tail.start = plan.last_seq + 1
        if plan.purges:
            follow_rollups(self, plan)
        if machine.max_age or machine.expiry is not None:
            self.shell.janitor.watch_age(self)
        if machine.schedules is not None:
            self.scheduler.watch()

    def _purged(self, plan: StreamPlan) -> None:
        if plan.index is None:
            self.tail.clear(plan.last_seq + 1)
            self.dead.clear()
            self.backlog.clear()
        for consumer in self.consumers.values():
            consumer.on_purged(plan.purged_below)
        self.shell.janitor.sweep(self)

    def _removed(self, plan: StreamPlan) -> None:
        """Hide removed messages from every reader; leave their rows to the janitor."""
        hidden = [seq for seq, _, _ in plan.removed if seq >= self.machine.first_seq]
        self.dead.update(hidden)
        if plan.purge_filters:
            self.shell.janitor.finish_purge(self, plan)
        else:
            # Erased rows too, although they are gone: the janitor forgets what it swept.
            self.backlog.update(dict.fromkeys(hidden))
        if self.consumers:
            pairs = [(seq, subject) for seq, subject, _ in plan.removed]
            # As on the reference server nobody is told of what goes by the dozen.
            tells = not plan.purges or len(pairs) == len(plan.purges)
            for consumer in self.consumers.values():
                consumer.on_removed(pairs, tells=tells)
        self.shell.janitor.sweep(self)

    def _tail_dropped(self, segment: Segment) -> None:
        """A dead message is forgotten once neither the tail nor storage holds it."""
        if self.dead and not self.purging:
            self.dead.difference_update(set(segment.seqs).difference(self.backlog, self.leaving))
            self.forgotten += 1

    def fail(self, plan: StreamPlan, error: ApiError) -> None:
        """The plan was not written: tell every publisher, change nothing."""
        self.batches.failed()
        body = refusal(error, self.machine.json_name)
        self.acks.answer((reply, body) for reply in plan.acks if reply)
        held = (
            (reply, a if survives_failed_commit(a, plan.before) else body)
            for reply, a in plan.answers
        )
        self.acks.answer(held)
        command, self.current = self.current, None
        if command is not None and not command.done.done():
            command.done.set_exception(error)

    def refuse_gathered(self, error: ApiError) -> None:
        """Answer everything that waits for storage with an error."""
        columns, self.columns = self.columns, Columns()
        if not self.config.no_ack:
            body = refusal(error, self.machine.json_name)
            self.acks.answer((reply, body) for reply in columns.replies if reply)
        commands, self.commands = self.commands, deque()
        for command in commands:
            if not command.done.done():
                command.done.set_exception(error)

    # -- requests ----------------------------------------------------------------------------

    async def purge(self, pattern: str | None, seq: int | None, keep: int | None) -> int:
        """Purge everything, or by filter, below a sequence, or all but the newest `keep`.

        Returns how many messages went. Raises ApiError.
        """
        wanted = pattern.encode() if pattern and pattern != ">" else None
        before = 0

        async def plan_it(now: int) -> StreamPlan:
            nonlocal before
            before = self.machine.msgs
            plan = await self._stored(commands.plan_purge(self, wanted, seq or 0, keep or 0, now))
            plan.purges.append((wanted or b"", 0))
            return plan

        plan = await self.command(plan_it)
        await self._stored(follow_purge(self, wanted))
        marks = 0 if plan.segment is None else len(plan.segment)
        return before - plan.msgs + marks

    async def delete_message(self, seq: int) -> None:
        """Delete one message; its row is gone when this returns.

        Raises ApiError JSStreamMsgDeleteFailed.
        """
        await self.command(lambda now: self._stored(commands.plan_delete(self, seq, now)))

    async def _stored(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except StorageError:
            raise api_error("JSClusterNotAvail") from None

    async def get_message(self, request: MsgGetRequest) -> Message | None:
        """Return the message that STREAM.MSG.GET asks for.

        Raises ApiError JSClusterNotAvail while storage is away.
        """
        await self.caught_up()
        try:
            return await self._get_message(request)
        except StorageError:
            raise api_error("JSClusterNotAvail") from None

    async def _get_message(self, request: MsgGetRequest) -> Message | None:
        if request.last_by_subj:
            return await self.last_by_subject(request.last_by_subj.encode())
        seq = request.seq
        if request.start_time is not None:
            if not request.next_by_subj:
                return await self.get_at_time(request.start_time)
            seq = await self.first_at_time(request.start_time)
        if request.next_by_subj:
            return await self.next_by_subject(request.next_by_subj.encode(), seq)
        return await self.get(seq)

    async def info(
        self,
        *,
        deleted: bool = False,
        subjects: dict[str, int] | None = None,
        with_cluster: bool = False,
    ) -> StreamInfo:
        """Return the stream's configuration and state.

        Raises ApiError JSClusterNotAvail while storage is away.
        """
        await self.caught_up()
        try:
            state = await self.state(deleted=deleted, subjects=subjects)
        except StorageError:
            raise api_error("JSClusterNotAvail") from None
        return StreamInfo(
            config=self.config,
            created=self.created,
            state=state,
            domain=self.shell.domain,
            cluster=ClusterInfo(leader=self.shell.server_name) if with_cluster else None,
            mirror=self.copier.mirror_info(),
            sources=self.copier.source_infos(),
            ts=self.shell.clock.now(),
        )

    def consumer_count(self) -> int:
        """Return how many consumers the stream has."""
        return sum(1 for consumer in self.consumers.values() if not consumer.hidden)

    # -- from and for consumers ---------------------------------------------------------------

    def on_acked(self, consumer: ConsumerRunner, sseqs: Sequence[int]) -> None:
        """Hear what a consumer is done with; consumers tell it only where retention depends on it.

        Args:
            consumer: Whose messages.
            sseqs: Settled for good: acknowledged, terminated, or delivered without need of acks.
        """
        if self.retention is not None:
            self.retention.settle(sseqs)

    async def caught_up(self) -> None:
        """Return when what consumers have acknowledged so far is gone, if it has to go."""
        if self.retention is not None:
            await self.retention.caught_up()

    async def less_wanted(self) -> None:
        """Let go what a consumer that went or changed was the last to want."""
        if self.retention is not None:
            self.retention.less_wanted()
            await self.retention.caught_up()

    async def save_consumer(self, name: str, created: int, config: str, state: bytes) -> int:
        """Record a new consumer in the catalogue; return its number.

        Raises ApiError JSClusterNotAvail while storage is away.
        """
        row = ConsumerRow(self.stream, 0, name, created, self.epoch, config, state)
        return await self._stored(self.shell.catalog.add_consumer(row))

    async def change_consumer(self, consumer: int, config: str) -> None:
        """Record a consumer's new configuration."""
        await self._stored(self.shell.catalog.set_consumer(self.stream, consumer, config))

    async def remove_consumer(self, consumer: int) -> None:
        """Drop a consumer from the catalogue."""
        await self._stored(self.shell.catalog.drop_consumer(self.stream, consumer))
