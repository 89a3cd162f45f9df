"""The streams of one account that this node leads: create, update, delete, load and release.

These changes run one at a time. Each is committed to the stream directory in PostgreSQL first and
applied in memory after COMMIT, so that no stream exists in memory that storage does not have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from core.cluster.directory import KnownStream, StreamChange, stored_config
from core.cluster.tags import tags_of
from core.errors import ApiError, StorageError
from core.jetstream.availability import unavailable_as_api_error
from core.jetstream.services import Services
from core.jetstream.sourcing.origin import origins_of
from core.jetstream.stream.runner import StreamRunner
from core.model.account import AccountStats, ServerLimits
from core.model.api_errors import api_error
from core.model.codec import decode_lenient, encode_stored
from core.model.consumer import ConsumerConfig
from core.model.stream import Retention, Storage, StreamConfig
from core.pubsub.account import Account
from core.rules.stream.config.validation import NO_LIMITS, check_overlap, check_room, is_same
from core.rules.stream.plan import PlanBuilder
from core.runtime.nuid import random_id
from core.storage.acknowledged import AcknowledgedStream, Key
from core.storage.interface import ConsumerRow, NewStream, StreamRow
from core.units import NANOS_PER_SECOND, LeaseGroup

log = logging.getLogger(__name__)

_HOUR_NS = 3600 * NANOS_PER_SECOND
_LOGS, _CHURN = 0, 1


def partition_for(config: StreamConfig) -> int:
    """Choose the partition of the message table for a new stream.

    Returns 1 for streams that often lose messages (short `max_age`, a limit per subject, work queue
    or interest retention), else 0.
    """
    short_lived = 0 < config.max_age < _HOUR_NS or config.retention is not Retention.LIMITS
    return _CHURN if config.max_msgs_per_subject > 0 or short_lived else _LOGS


def _known(runner: StreamRunner, doubtful: int = 0) -> AcknowledgedStream:
    """Return the state of a stream that clients may have seen in answers of this node.

    `doubtful` is the last sequence of a COMMIT in progress (0: none).
    """
    mirrors, changes = runner.config.mirror is not None, runner.consumers.changes
    return AcknowledgedStream(
        runner.log.first_seq, runner.machine.last_seq, doubtful, mirrors, changes
    )


class Registry:
    """The streams of one account that this node leads.

    Attributes:
        account: The account.
        services: The objects that all streams of the node share.
        streams: The leaders of the streams, by stream name.
    """

    def __init__(self, account: Account, services: Services) -> None:
        self.account = account
        self.services = services
        self.streams: dict[str, StreamRunner] = {}
        self._left: list[StreamRunner] = []  # The streams at the time of `close`.
        self._changes = asyncio.Lock()
        if services.resources is not None:
            services.resources.used = self._used

    def configs(self) -> dict[str, StreamConfig]:
        """Return the configurations of all streams of the account by name, led by any node."""
        known = self.services.directory.of(self.account.name)
        return {name: stream.config for name, stream in known.items()}

    def stream(self, name: str) -> StreamRunner:
        """Return the leader object of a stream that this node leads.

        Raises ApiError JSStreamNotFound if no such stream exists, JSClusterNotAvail if another node
        leads it.
        """
        runner = self.streams.get(name)
        if runner is None:
            known = self.services.directory
            is_there = known.find(self.account.name, name) is not None
            raise api_error("JSClusterNotAvail" if is_there else "JSStreamNotFound")
        return runner

    def exists(self, name: str) -> bool:
        """Return whether the directory in memory has a stream of that name, led by any node."""
        known = self.services.directory
        return name in self.streams or known.find(self.account.name, name) is not None

    async def is_elsewhere(self, name: str) -> bool:
        """Return whether another node leads the stream, or may lead it.

        For an unknown name the directory is read from PostgreSQL once, since a peer may have
        created the stream. Returns True if PostgreSQL does not answer.
        """
        follower = self.services.directory_follower
        if name in self.streams or not follower.sharing.has_peers:
            return False
        if follower.directory.find(self.account.name, name) is None:
            try:
                await follower.refresh()
            except StorageError:
                return True
        is_there = follower.directory.find(self.account.name, name) is not None
        return is_there and name not in self.streams

    # -- load --------------------------------------------------------------------------------

    async def open(self, row: StreamRow, consumers: list[ConsumerRow]) -> StreamRunner:
        """Load one stream and its consumers from storage, and add it to `streams`.

        Raises OperatorError if a row of the stream is damaged, Unavailable if PostgreSQL does not
        answer.
        """
        config = stored_config(row.name, row.stream, row.config)
        runner = StreamRunner(row, config, self.account, self.services)
        await runner.restore(row.head)
        for consumer in consumers:
            found = decode_lenient(ConsumerConfig, consumer.config.encode())
            await runner.consumers.restore(consumer, found)
        self.streams[row.name] = runner
        return runner

    async def expire_overdue(self, runners: Iterable[StreamRunner]) -> None:
        """Remove the messages of the given streams that expired before this node led them.

        The removal is a commit, so the group committer must be running.
        """
        for runner in runners:
            if runner.machine.expiry is None:
                continue
            try:
                await runner.requests.trim()
            except ApiError as error:
                log.warning("expiry of stream %s waits: %s", runner.name, error)

    # -- streams -----------------------------------------------------------------------------

    async def create_stream(
        self,
        config: StreamConfig,
        limits: ServerLimits = NO_LIMITS,
        lease_group: LeaseGroup | None = None,
    ) -> tuple[StreamRunner, bool]:
        """Create a stream from a validated configuration.

        The checks against other streams are repeated if the directory changes before the COMMIT.

        Args:
            config: The configuration.
            limits: The account's limits.
            lease_group: The lease group; None: that of its staging stream, or of the stream that it
                stages for, if one exists; else the directory chooses.

        Returns:
            (the stream, True), or (the stream, False) if an identical one exists.

        Raises:
            ApiError: The stream is refused; JSClusterNotAvail if this node does not own the lease
                group or PostgreSQL does not answer.
        """
        async with self._changes:
            existing = self.streams.get(config.name)
            if existing is not None:
                if not is_same(config, existing.config):
                    raise api_error("JSStreamNameExist")
                return existing, False
            runner = await self._create(config, limits, lease_group)
        await self._shared()
        return runner, True

    async def _create(
        self, config: StreamConfig, limits: ServerLimits, group: LeaseGroup | None
    ) -> StreamRunner:
        kin = self._kin(config.name)
        group = kin.lease_group if group is None and kin is not None else group
        check = partial(self._check_new, config, limits, group)
        check()
        self._check_placement(config)
        self._check_origins(config)
        created, creation = self.services.clock.now(), random_id()
        partition, text = partition_for(config), encode_stored(config, "JSStreamCreate", "stream")
        new = NewStream(
            self.account.name,
            config.name,
            partition,
            created,
            creation,
            text,
            config.first_seq,
            group,
            tags_of(config.placement),
        )
        row = await unavailable_as_api_error(self.services.directory_store.add_stream(new, check))
        if row.lease_group not in self.services.groups():
            raise api_error("JSClusterNotAvail")  # The lease group was lost meanwhile.
        runner = StreamRunner(row, config, self.account, self.services)
        self.streams[config.name] = runner
        runner.start()
        self._notify_sourcing(config.name, is_new=True)
        self._announce_leader(runner)
        runner.advisories.stream_created(config.name)
        return runner

    def _kin(self, name: str) -> KnownStream | None:
        return self.services.directory.kin(self.account.name, name)

    def _check_new(
        self, config: StreamConfig, limits: ServerLimits, group: LeaseGroup | None
    ) -> None:
        """Raise ApiError if a new stream conflicts with existing streams, led by any node."""
        others = self.configs()
        if (existing := others.get(config.name)) is not None:
            is_there = is_same(config, existing)  # Another node leads it.
            raise api_error("JSClusterNotAvail" if is_there else "JSStreamNameExist")
        check_room(config, others.values(), limits)
        check_overlap(config, others.values())
        kin = self._kin(config.name)
        if kin is not None and kin.lease_group != group:
            raise api_error("JSClusterNotAvail")  # `kin` is new: a retry goes to its leader.

    def _check_placement(self, config: StreamConfig) -> None:
        """Raise ApiError if `placement` names another cluster, or tags that no node has."""
        if (cluster := self.services.cluster) is not None:
            cluster.check(config.placement)

    def _check_origins(self, config: StreamConfig) -> None:
        """Raise ApiError if the configuration of a mirror or source is invalid."""
        origins_of(config, self.account.name, self.services.domain)

    async def update_stream(self, config: StreamConfig) -> StreamRunner:
        """Change a stream to a validated configuration; return its leader object.

        Raises ApiError if the change is refused. If the stream still has its former configuration
        then, that configuration is stored again.
        """
        async with self._changes:
            runner = self.stream(config.name)
            self._check_changed(config)
            self._check_origins(config)
            old = runner.config
            if config.placement != old.placement:
                self._check_placement(config)
            try:
                await runner.reconfigure(config, lambda: self._save(runner, config))
            except ApiError:
                if runner.config is old:
                    await self._save(runner, old)
                raise
            self._notify_sourcing(config.name)
            runner.advisories.stream_updated(config.name)
        await self._shared()
        return runner

    def _check_changed(self, config: StreamConfig) -> None:
        """Raise ApiError if a changed configuration conflicts with streams of any node."""
        others = self.configs()
        others.pop(config.name, None)
        check_overlap(config, others.values())

    async def await_changes(self) -> None:
        """Wait until all creates, updates and deletes of streams in progress have ended."""
        async with self._changes:
            pass

    async def _shared(self) -> None:
        """Wait, for a limited time, until linked peers have read the present stream directory."""
        follower = self.services.directory_follower
        await follower.sharing.shared(follower.directory.version)

    def announce_leaders(self, runners: Iterable[StreamRunner]) -> None:
        """Publish leader-elected advisories of replicated streams and their consumers."""
        for runner in runners:
            self._announce_leader(runner)
            for consumer in runner.consumers.values():
                consumer.announce_leader()

    def _announce_leader(self, runner: StreamRunner) -> None:
        cluster, config = self.services.cluster, runner.config
        if cluster is not None and config.num_replicas > 1:
            peers = partial(cluster.peers, runner.group)
            runner.advisories.stream_led(config.name, cluster.own, peers)

    def _notify_sourcing(self, name: str, *, is_new: bool = False) -> None:
        """Notify mirrors and sources on this node that their origin stream `name` has changed."""
        for runner in self.streams.values():
            runner.sourcing.on_origin_changed(name, is_new=is_new)

    def on_directory_changes(self, changes: Sequence[StreamChange]) -> None:
        """Notify mirrors and sources of origin streams that peers created, changed or deleted."""
        account, led = self.account.name, self.services.groups()
        names = {
            change.stream.name: change.is_new
            for change in changes
            if change.stream.account == account and change.stream.lease_group not in led
        }
        for runner in self.streams.values() if names else ():
            for name in runner.sourcing.origins() & names.keys():
                runner.sourcing.on_origin_changed(name, is_new=names[name])

    def on_new_leaders(self, groups: Collection[LeaseGroup]) -> None:
        """Notify mirrors and sources whose origin stream has a new leader.

        `groups` are the lease groups whose leader changed. The mirrors and sources then request a
        new consumer from the new leader.
        """
        known = self.services.directory.of(self.account.name)
        for runner in self.streams.values():
            for name in runner.sourcing.origins():
                if name in known and known[name].lease_group in groups:
                    runner.sourcing.on_origin_changed(name, is_new=True)

    def reconnected(self, api: str) -> None:
        """Notify mirrors and sources that external origins are reachable again.

        `api` is the API prefix of these origins.
        """
        for runner in self.streams.values():
            runner.sourcing.reconnected(api)

    async def _save(self, runner: StreamRunner, config: StreamConfig) -> None:
        text, check = (
            encode_stored(config, "JSStreamCreate", "stream"),
            partial(self._check_changed, config),
        )
        change = self.services.directory_store.set_stream(
            runner.stream, text, lambda: runner.epoch, check
        )
        await unavailable_as_api_error(change)

    async def delete_stream(self, name: str) -> None:
        """Delete a stream and its consumers.

        Raises ApiError if the stream does not exist, another node leads it, or PostgreSQL does not
        answer.
        """
        async with self._changes:
            runner = self.stream(name)

            async def drop(_now: int) -> PlanBuilder:
                drop = self.services.directory_store.drop_stream(
                    runner.stream, lambda: runner.epoch
                )
                await unavailable_as_api_error(drop)
                if self.streams.get(name) is runner:  # Else the stream was lost meanwhile.
                    del self.streams[name]
                self.services.acknowledged.deleted(self._key(runner), _known(runner))
                runner.close()
                return runner.machine.unchanged()

            # As a queued change: a commit in progress needs the stream's head row, and later
            # publishes must not look for it.
            await runner.submit(drop)
            self._notify_sourcing(name)
            runner.advisories.stream_deleted(name)
            self.services.janitor.drop(runner.stream, runner.partition)
        await self._shared()

    def lose(self, runner: StreamRunner) -> None:
        """Close a stream that another node leads now; its open requests get no answer."""
        if self.streams.get(runner.name) is not runner:
            return
        log.warning("another node leads stream %s", runner.name)
        self.release(runner)

    def release(self, runner: StreamRunner) -> None:
        """Close a stream and remove it from memory, so that another node can lead it."""
        consumers = set(runner.consumers.values())
        self.streams.pop(runner.name, None)
        runner.close(shutdown=True)
        self.services.states.forget(consumers)

    def known(self, doubtful: Mapping[int, int]) -> dict[Key, AcknowledgedStream]:
        """Return the state of each stream that clients may have seen in answers.

        Also works after `close`. After a failover the states are compared with storage, to detect
        lost commits.

        Args:
            doubtful: Last sequences whose COMMIT is in progress, by stream number.
        """
        return {
            self._key(runner): _known(runner, doubtful.get(runner.stream, 0))
            for runner in (*self._left, *self.streams.values())
        }

    def _key(self, runner: StreamRunner) -> Key:
        return self.account.name, runner.name, runner.created

    # -- numbers -----------------------------------------------------------------------------

    def _used(self) -> Iterator[tuple[Storage, int]]:
        """Yield (kind of storage, used bytes) of each stream."""
        for runner in self.streams.values():
            yield runner.config.storage, runner.machine.bytes

    def usage(self) -> AccountStats:
        """Return the account's usage on this node: bytes, streams and consumers."""
        runners = self.streams.values()
        memory = sum(r.machine.bytes for r in runners if r.config.storage is Storage.MEMORY)
        total = sum(r.machine.bytes for r in runners)
        reserved = [(r.config.storage, max(r.config.max_bytes, 0)) for r in runners]
        return AccountStats(
            memory=memory,
            storage=total - memory,
            reserved_memory=sum(n for kind, n in reserved if kind is Storage.MEMORY),
            reserved_storage=sum(n for kind, n in reserved if kind is Storage.FILE),
            streams=len(self.streams),
            consumers=sum(len(r.consumers) for r in runners),
        )

    def close(self) -> None:
        """Close all streams without a change in storage, at a shutdown or loss of leadership."""
        for runner in self.streams.values():
            runner.close(shutdown=True)
        self._left += self.streams.values()
        self.streams.clear()
