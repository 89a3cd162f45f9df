"""The consumers of one stream: creating, changing, restoring, deleting and expiring them.

All checks of a request precede the first change, so that a refused request changes nothing. A new
consumer exists once its row is committed. Its start position is determined before that, so that it
delivers also the messages stored during the creation.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from core.errors import CoreError
from core.jetstream.availability import unavailable_as_api_error
from core.jetstream.consumer.listeners import make_push
from core.jetstream.consumer.runner import ConsumerRunner
from core.jetstream.log.subjects import next_by_subject, subjects_matching
from core.model import codec
from core.model.account import ServerLimits
from core.model.api_errors import api_error
from core.model.consumer import Action, ConsumerConfig, ConsumerInfo, DeliverPolicy
from core.model.versions import stamp_consumer
from core.model.wire import ZERO_TIME
from core.rules.consumer.config.sourcing import sourcing_form
from core.rules.consumer.config.validation import check_create_or_update
from core.rules.consumer.machine import ConsumerMachine
from core.rules.consumer.state import StateError, encode
from core.runtime.nuid import nuid, random_id
from core.runtime.tasks import spawn
from core.storage.interface import ConsumerRow
from core.units import Epoch

if TYPE_CHECKING:
    from core.jetstream.consumer.stream import ConsumedStream

log = logging.getLogger(__name__)

EPHEMERAL_NAME = 8
_STORE = ("JSConsumerCreate", "consumer")
"""The error name and the noun for a configuration that cannot be stored."""
_NO_LIMITS = ServerLimits()


class Consumers(dict[str, ConsumerRunner]):
    """The consumers of one stream by name: creates, changes, restores and deletes them.

    Attributes:
        changes: Count of creations, changes and deletions of the stream's consumers so far.
    """

    def __init__(self, stream: ConsumedStream) -> None:
        super().__init__()
        self._stream = stream
        self._log = stream.log
        self._directory_store = stream.services.directory_store
        self._started = False
        self._changing = asyncio.Lock()
        self.changes = 0

    # -- requests ----------------------------------------------------------------------------

    async def create(
        self,
        requested: ConsumerConfig,
        action: Action = Action.CREATE_OR_UPDATE,
        *,
        limits: ServerLimits = _NO_LIMITS,
        pedantic: bool = False,
    ) -> ConsumerRunner:
        """Create a consumer, or change the one with its name.

        Args:
            requested: The configuration in the request.
            action: Whether to create, to update, or either of both.
            limits: Limits of the account.
            pedantic: Whether to refuse values that would otherwise be corrected.

        Raises:
            ApiError: The request is refused; nothing has changed.
        """
        async with self._changing:
            return await self._create(requested, action, limits, pedantic)

    async def _create(
        self, requested: ConsumerConfig, action: Action, limits: ServerLimits, pedantic: bool
    ) -> ConsumerRunner:
        stream = self._stream
        others = {name: runner.config for name, runner in self.items()}
        if requested.sourcing:
            retention = stream.config.retention
            requested = sourcing_form(requested, retention, others, nuid(EPHEMERAL_NAME))
        present = self.get(requested.durable_name or requested.name)
        config, existing = check_create_or_update(
            requested,
            stream.config,
            others,
            action=action,
            has_interest=present is not None and present.has_subscriber(),
            limits=limits,
            pedantic=pedantic,
        )
        if existing:
            return await self._change(self[existing], config)
        return await self._add(config.durable_name or config.name or self._free_name(), config)

    def _free_name(self) -> str:
        while (name := nuid(EPHEMERAL_NAME)) in self:
            pass
        return name

    async def delete(self, name: str) -> None:
        """Delete a consumer, after its dead letters are stored (at most two seconds).

        Raises:
            ApiError: JSConsumerNotFound, no consumer has that name; JSClusterNotAvail, storage is
                unavailable.
        """
        async with self._changing:
            runner = self.get(name)
            if runner is None:
                raise api_error("JSConsumerNotFound")
            # Before the state row is deleted, which contains the dead letters.
            if (
                runner.machine.pending_dead_letters
                and self._stream.services.dead_letters is not None
            ):
                await self._stream.services.dead_letters.await_stored(runner)
            await self._stream.caught_up()
            if not runner.hidden:
                drop = self._directory_store.drop_consumer(
                    self._log.stream, runner.consumer, self._epoch
                )
                self.changes = await unavailable_as_api_error(drop)
            if self.get(name) is runner:
                del self[name]
            runner.close(deleted=True)
            self._stream.advisories.consumer_deleted(self._log.name, name)
            await self._stream.less_wanted(runner.machine.pending.floor()[1])

    async def pause(self, name: str, until: int) -> ConsumerRunner:
        """Pause deliveries of a consumer until a time, in nanoseconds since the Unix epoch.

        A time in the past, or ZERO_TIME, resumes them.

        Raises:
            ApiError: JSConsumerNotFound, no consumer has that name.
        """
        async with self._changing:
            runner = self.get(name)
            if runner is None:
                raise api_error("JSConsumerNotFound")
            config = replace(runner.config, pause_until=None if until == ZERO_TIME else until)
            if config.pause_until != runner.config.pause_until:
                await self._change(runner, stamp_consumer(config))
                if not runner.paused_until:
                    self._announce_pause(runner)
            return runner

    async def reset(self, name: str, seq: int) -> tuple[ConsumerInfo, int]:
        """Let a consumer continue at a sequence, or (0) at the one after its ack floor.

        Returns:
            The info of the consumer after the reset, and the sequence it delivers next.

        Raises:
            ApiError: JSConsumerNotFound, no consumer has that name; JSConsumerInvalidReset, its
                deliver policy does not allow the sequence; JSClusterNotAvail, storage is
                unavailable.
        """
        async with self._changing:
            runner = self.get(name)
            if runner is None:
                raise api_error("JSConsumerNotFound")
            if seq:
                await self._check_reset(runner.config, seq)
            else:
                runner.acks.apply()
                seq = runner.machine.pending.floor()[1] + 1
            try:
                info = await runner.reset(seq)
            except TimeoutError:
                raise api_error("JSClusterNotAvail") from None
            if seq <= self._log.machine.last_seq + 1:
                # nats-server: messages that a reset beyond the last sequence skips are kept.
                await self._stream.less_wanted()
            return info, seq

    async def _check_reset(self, config: ConsumerConfig, seq: int) -> None:
        """Raise JSConsumerInvalidReset if the deliver policy excludes the sequence."""
        reason = ""
        match config.deliver_policy:
            case DeliverPolicy.ALL:
                return
            case DeliverPolicy.BY_START_SEQUENCE:
                reason = "below start seq" if seq < config.opt_start_seq else ""
            case DeliverPolicy.BY_START_TIME:
                first = await self._log.first_at_time(config.opt_start_time or 0)
                reason = "below start time" if seq < first else ""
            case _:
                reason = "not allowed"
        if reason:
            raise api_error("JSConsumerInvalidReset", err=reason)

    def start(self) -> None:
        """Start all consumers of the stream. Consumers created later start at their creation."""
        if not self._started:
            self._started = True
            for runner in self.values():
                runner.start()

    def close(self, *, shutdown: bool = False) -> None:
        """Stop all consumers of the stream.

        `shutdown` True: this node stops leading the stream. False: the stream was deleted, which an
        advisory per consumer reports.
        """
        self._started = False  # for consumers whose creation is in progress
        for runner in list(self.values()):
            runner.close(deleted=not shutdown)
            if not shutdown:
                self._stream.advisories.consumer_deleted(self._log.name, runner.name)
        self.clear()

    async def restore(self, row: ConsumerRow, config: ConsumerConfig) -> ConsumerRunner:
        """Restore a consumer and its state from the stream directory; `start` starts it.

        If the state cannot be decoded, this is logged and the consumer starts over. Raises
        Unavailable if PostgreSQL does not answer.
        """
        runner = await self._make(row.consumer, row.name, config, row.created)
        if row.state is not None:
            try:
                runner.restore_state(row.state)
            except StateError as error:
                # A damaged state must not delete the consumer: it starts over.
                log.error("consumer %s.%s starts over: %s", self._log.name, row.name, error)
        await runner.pending_count.count()
        self._enter(runner)
        return runner

    # -- steps -------------------------------------------------------------------------------

    def _epoch(self) -> Epoch:
        """Return the stream's current epoch; it may increase while a change waits."""
        return self._stream.epoch

    async def _add(self, name: str, config: ConsumerConfig) -> ConsumerRunner:
        stream = self._stream
        created = stream.services.clock.now()
        text = codec.encode_stored(config, *_STORE)
        runner = await self._make(0, name, config, created)
        if not runner.hidden:
            state = encode(runner.machine.state(0))
            row = ConsumerRow(
                self._log.stream, 0, name, created, stream.epoch, text, state, random_id()
            )
            added = self._directory_store.add_consumer(row, self._epoch)
            runner.consumer, self.changes = await unavailable_as_api_error(added)
        await runner.pending_count.count()
        self._enter(runner)
        runner.announce_leader()
        stream.advisories.consumer_created(self._log.name, name)
        if runner.paused_until:
            self._announce_pause(runner)
        return runner

    async def _change(self, runner: ConsumerRunner, config: ConsumerConfig) -> ConsumerRunner:
        if config == runner.config:
            # Nothing to change; the pause advisory is published as after a change.
            if runner.paused_until:
                self._announce_pause(runner)
            return runner
        text = codec.encode_stored(config, *_STORE)
        if not runner.hidden:
            change = self._directory_store.set_consumer(
                self._log.stream, runner.consumer, text, self._epoch
            )
            self.changes = await unavailable_as_api_error(change)
        filters = runner.config.filters
        runner.configure(config)
        if config.filters != filters:
            await runner.pending_count.count()
            await self._stream.less_wanted(runner.machine.pending.floor()[1])
        if runner.paused_until:
            self._announce_pause(runner)
        return runner

    def _announce_pause(self, runner: ConsumerRunner) -> None:
        paused, until = runner.paused_until > 0, runner.config.pause_until
        tell = self._stream.advisories.consumer_paused
        told = ZERO_TIME if until is None else until
        tell(self._log.name, runner.name, paused=paused, until=told)

    async def _make(
        self, number: int, name: str, config: ConsumerConfig, created: int
    ) -> ConsumerRunner:
        stream = self._stream
        next_seq, chosen, live_from = await self._start(config)
        push = make_push(config, self._log.name.encode(), name, stream.config.max_msg_size)
        machine = ConsumerMachine(
            config,
            next_seq,
            chosen=chosen,
            live_from=live_from,
            push=push,
            new_pin=nuid,
            on_file=self._log.machine.on_file,
        )
        return ConsumerRunner(stream, number, name, config, created, machine, self._delete_inactive)

    async def _start(self, config: ConsumerConfig) -> tuple[int, list[int], int]:
        """Return the start position that a new consumer's deliver policy selects.

        The result is (next sequence, last sequence of each subject for policy last_per_subject,
        sequence from which all messages are delivered after those).
        """
        log = self._log
        machine = log.machine
        first, end = await self._first(), machine.last_seq + 1
        match config.deliver_policy:
            case DeliverPolicy.NEW:
                return end, [], 0
            case DeliverPolicy.LAST:
                if not config.filters:
                    return max(machine.last_seq, first), [], 0
                rows = await subjects_matching(log, [f.encode() for f in config.filters])
                return max((last for _, _, last in rows), default=first), [], 0
            case DeliverPolicy.LAST_PER_SUBJECT if self._stream.config.max_msgs_per_subject != 1:
                rows = await subjects_matching(log, [f.encode() for f in config.filters])
                # Messages stored during the search have sequences from `end` on.
                chosen = sorted(last for _, _, last in rows if 0 < last < end)
                if not chosen:
                    # nats-server starts at the last message, which the filters exclude.
                    return max(end - 1, first, 1), [], 0
                return chosen[0], chosen, end
            case DeliverPolicy.BY_START_SEQUENCE:
                return max(config.opt_start_seq, first), [], 0
            case DeliverPolicy.BY_START_TIME:
                return await self._first_since(config), [], 0
        return first, [], 0

    async def _first(self) -> int:
        """Return the exact first sequence of the stream.

        Raises Unavailable if PostgreSQL does not answer.
        """
        log, machine = self._log, self._log.machine
        if not machine.msgs:
            return machine.last_seq + 1 if machine.last_seq else machine.first_seq
        if machine.msgs != machine.last_seq - log.first_seq + 1:
            await log.first_message()
        return log.first_seq

    async def _first_since(self, config: ConsumerConfig) -> int:
        """Return the sequence at which a consumer with a start time begins.

        It is the first one stored at or after that time. With filters it is the first matching one
        after it, unless that is the stream's last. Raises Unavailable if PostgreSQL does not
        answer.
        """
        log = self._log
        seq, last = await log.first_at_time(config.opt_start_time or 0), log.machine.last_seq
        found = [await next_by_subject(log, name.encode(), 0) for name in config.filters]
        firsts = [message[0] for message in found if message is not None and message[0] >= seq]
        first = min(firsts, default=last)
        return first if seq < first < last else seq

    def _enter(self, runner: ConsumerRunner) -> None:
        """Add a consumer to the stream, and start it if the stream's consumers are started."""
        self[runner.name] = runner
        if self._started:
            runner.start()

    def _delete_inactive(self, runner: ConsumerRunner) -> None:
        if self.get(runner.name) is runner:
            runner.expiring = True
            spawn(self._expire(runner), name=f"expiry of consumer {runner.name}")

    async def _expire(self, runner: ConsumerRunner) -> None:
        level = logging.DEBUG if runner.hidden else logging.INFO
        log.log(level, "consumer %s.%s is inactive and is deleted", self._log.name, runner.name)
        try:
            if self.get(runner.name) is runner:
                await self.delete(runner.name)
        except CoreError as error:
            log.warning("consumer %s.%s stays: %s", self._log.name, runner.name, error)
            runner.deletion_failed()
