"""The JetStream runtime: everything that a node has in memory between two loads from storage.

    start: directory -> group committer, state writer, janitor -> API -> lease groups

A runtime adds JetStream to one account of a `Server` and removes it again when it ends. It acquires
and transfers lease groups (sets of streams with one owner) while it runs, see
`core.node.ownership`. When memory may differ from storage, the runtime ends (`deposed`), and the
next one is loaded from storage.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from core.api.serving import Serving
from core.client.loopback import attach
from core.cluster.directory_follower import DirectoryFollower
from core.cluster.scopes import StreamScopes
from core.cluster.view import REPLICAS_MAX, Alone, ClusterView, peer_id
from core.errors import OperatorError, Unavailable
from core.jetstream.advisories import Advisories
from core.jetstream.group_committer import GroupCommitter, Work
from core.jetstream.janitor import Janitor
from core.jetstream.log.tail import TailBudget
from core.jetstream.registry import Registry
from core.jetstream.resources import Resources
from core.jetstream.services import TAIL_BYTES, Services
from core.jetstream.state_writer import StateWriter
from core.jetstream.stream.runner import StreamRunner
from core.jetstream.timers import Timers
from core.jetstream.transactions.transactions import Transactions
from core.jetstream.trust_gate import TrustGate
from core.model.account import ServerLimits
from core.node.lease_session import LeaseSession
from core.node.outage_recovery import check_consumers, find_fenced, lead_again
from core.node.ownership.dispatch import Handlers
from core.node.ownership.placement import GroupPlacement
from core.node.ownership.state import DIRECTORY, Command, LeasesLost, TransferRequested
from core.node.ownership.transfer import LoadHooks, Transfers
from core.node.publish_gate import PublishGate
from core.node.server import Server
from core.pubsub.server import SYSTEM_ACCOUNT
from core.remote.remotes import Remotes
from core.remote.settings import Remote
from core.rules.stream.batches.open_batches import Quota, batch_limits
from core.runtime.tasks import outcome, spawn, stop
from core.storage.health import COMMITS, SPACE
from core.storage.leases import NodeRow
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.directory_source import PostgresDirectorySource
from core.storage.postgres.directory_store import PostgresDirectoryStore
from core.storage.postgres.locks import ALL_LEASE_GROUPS
from core.storage.postgres.migrate import check_revision
from core.storage.postgres.reads import PostgresReader
from core.storage.postgres.remotes import PostgresRemotes
from core.storage.postgres.stream_log import PostgresLog
from core.transport.loopback import connect_trusted
from core.units import LeaseGroup

log = logging.getLogger(__name__)

_READERS = 3
_WRITERS = 3
# Longest wait of an ending runtime for the commit of pending publishes, in seconds.
_DRAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """The options of JetStream. Sizes are in bytes; 0: no limit.

    Attributes:
        account: Name of the account that has JetStream.
        tail_bytes: Memory for the cache of the newest messages of all streams.
        strict: True to refuse requests with an unknown JSON member.
        max_memory: Limit of all streams with memory storage together.
        max_file: Limit of all streams with file storage together.
        limits: Values that replace those of `ServerLimits`, by member name.
        remotes: Remote NATS systems, besides those of the list in the database.
        cluster: The nodes of the database; None: no other node uses it.
        gate: The publish gate of the node; None: publishes always pass.
    """

    account: str = "$G"
    tail_bytes: int = TAIL_BYTES
    strict: bool = True
    max_memory: int = 0
    max_file: int = 0
    limits: dict[str, int] = field(default_factory=dict)
    remotes: tuple[Remote, ...] = ()
    cluster: ClusterView | None = None
    gate: PublishGate | None = None


@dataclass(frozen=True, slots=True)
class Pools:
    """Two pools of PostgreSQL sessions.

    `readers` reads streams, `writers` changes the stream directory.
    """

    readers: Any
    writers: Any

    @classmethod
    async def open(cls, connector: Connector) -> "Pools":
        """Open both pools. Raises Unavailable if PostgreSQL does not answer."""
        readers = await connector.pool(Purpose.READ, _READERS)
        try:
            return cls(readers, await connector.pool(Purpose.WRITE, _WRITERS))
        except BaseException:
            readers.terminate()
            raise

    def terminate(self) -> None:
        """Close every session at once, without waiting for its query."""
        self.readers.terminate()
        self.writers.terminate()


async def load(
    server: Server,
    connector: Connector,
    leases: LeaseSession,
    options: RuntimeOptions,
    directory_follower: DirectoryFollower | None = None,
) -> "JetStreamRuntime":
    """Load the lease groups that are free, and serve their streams.

    `directory_follower` follows the streams of all nodes; None: the runtime creates its own. If the
    load fails or is cancelled, the runtime is ended; the caller releases the lease session.

    Raises:
        OperatorError: The schema is of a newer release, or a row is damaged.
        Unavailable: PostgreSQL does not answer.
    """
    pools = await Pools.open(connector)
    runtime = JetStreamRuntime(server, connector, leases, pools, options, directory_follower)
    try:
        await runtime.start()
    except BaseException:
        await runtime.retire()
        await runtime.stop()
        raise
    return runtime


class JetStreamRuntime:
    """The streams of one account in memory, from their load to the end of the lease session.

    Life cycle: `start`; at the end `leave` if there are peers, then `withdraw`, `retire`, `stop`.

    Args:
        server: The accounts, connections and peers of the node.
        connector: Opens sessions with PostgreSQL.
        leases: Holds the locks of lease groups.
        pools: The sessions that read streams, and those that change the stream directory.
        options: The options of JetStream.
        directory_follower: Follows the streams of all nodes; None: the runtime creates its own.

    Attributes:
        leases: Holds the locks of lease groups.
        deposed: Event, set when memory may differ from storage: the runtime must end.
        failure: Error that the next runtime of this process would meet too; None: the next one may
            succeed.
        ownership: The lease groups of this node, for reading.
        transfers: Acquires and transfers lease groups.
        registry: The streams.
        serving: Answers API requests.
        api: The counters of API requests.
    """

    def __init__(
        self,
        server: Server,
        connector: Connector,
        leases: LeaseSession,
        pools: Pools,
        options: RuntimeOptions,
        directory_follower: DirectoryFollower | None,
    ) -> None:
        self.leases = leases
        self.deposed = asyncio.Event()
        self.failure: OperatorError | None = None
        self._hub, self._clock, self._loop_tick = server.hub, leases.clock, server.loop_tick
        self._account = server.hub.accounts[options.account]
        self._options = options
        self._dispatch, self._owner_links, self._gate = (
            server.ownership,
            server.owner_links,
            options.gate,
        )
        self.ownership = self._dispatch.ownership
        self._pools = pools
        self._mesh = server.links
        self._tasks: list[asyncio.Task[Any]] = []
        self._placing: asyncio.Task[None] | None = None
        self._subscriptions: list[Callable[[], None]] = []
        self._is_loaded = False
        self._compared = 0  # lease session in which storage was last compared with memory
        self._in_doubt: Work = []  # plans whose outcome is not known yet
        self._own_follower: DirectoryFollower | None = None
        if directory_follower is None:
            directory_follower = DirectoryFollower(PostgresDirectorySource(connector))
            self._own_follower = directory_follower
        self.directory_follower = directory_follower
        self.directory = directory_follower.directory
        self._make_log(connector)
        self._make_streams()
        self._make_api(server)

    def _make_log(self, connector: Connector) -> None:
        """Create the objects that write to PostgreSQL."""
        leases = self.leases
        self.writer = PostgresLog(partial(connector.open, Purpose.COMMIT))
        self.directory_store = PostgresDirectoryStore(
            self._pools.writers, self._depose, self.directory, self._tokens
        )
        self._sweeper = PostgresReader(self._pools.writers, self._is_compared)
        self.janitor = Janitor(self._clock, self._sweeper, self.directory_store)
        self.states = StateWriter(self.directory_store, self._loop_tick, self._clock, self._depose)
        self.committer = GroupCommitter(
            self.writer,
            self._loop_tick,
            self._clock,
            leases.trusted,
            self.recover,
            self._drop_fenced,
            self._depose,
            leases.health,
            self._release,
        )

    def _make_streams(self) -> None:
        """Create the registry of streams, and the objects that acquire and place lease groups."""
        leases, directory = self.leases, self.directory
        self._trust = TrustGate(leases.trusted)
        self.registry = Registry(self._account, self._services())
        self.transactions = Transactions(self.registry.streams, self.registry.exists)
        self.transfers = Transfers(
            self._dispatch,
            self._owner_links,
            leases,
            leases.health.acknowledged,
            self.registry,
            self.transactions,
            self.directory_store,
            self.directory_follower,
            LoadHooks(
                partial(check_revision, self._pools.readers), self._expire_overdue, self._served
            ),
        )
        self.placement = GroupPlacement(
            self._options.cluster or Alone(),
            ALL_LEASE_GROUPS,
            leases,
            self.transfers,
            directory.groups,
            self._hub.clock,
            leases.health,
            wanted=directory.tags,
        )

    def _make_api(self, server: Server) -> None:
        """Create the services that answer API requests, and the links to remote systems."""
        self.serving = Serving(
            self.registry,
            self.transactions,
            self._owner_links,
            self._hub.accounts.get(SYSTEM_ACCOUNT),
            limits=self._limits,
            strict=self._options.strict,
        )
        self.api = self.serving.counters
        self.remotes = Remotes(
            self._account,
            self._clock,
            self._options.remotes,
            PostgresRemotes(self._pools.writers),
            self.serving.reconnected,
            attach(partial(connect_trusted, server.hub)),
            lambda: DIRECTORY in self.ownership.owned,
        )

    def _services(self) -> Services:
        hub, pools, options = self._hub, self._pools, self._options
        memory, file = options.max_memory, options.max_file
        return Services(
            clock=self._clock,
            loop_tick=self._loop_tick,
            reader=PostgresReader(pools.readers),
            sweeper=self._sweeper,
            directory_store=self.directory_store,
            directory_follower=self.directory_follower,
            committer=self.committer,
            states=self.states,
            janitor=self.janitor,
            timers=Timers(self._clock),
            server_name=hub.server_name,
            begin_backpressure=hub.begin_backpressure,
            tails=TailBudget(options.tail_bytes),
            max_payload=lambda: hub.limits.max_payload,
            domain=hub.domain,
            cluster=options.cluster,
            groups=lambda: self.ownership.owned,
            # None without limits: there is nothing to check.
            acknowledged=self.leases.health.acknowledged,
            trust=self._trust,
            resources=Resources(self._loop_tick, memory, file) if memory or file else None,
            batches=Quota(lambda: batch_limits(self._limits())),
        )

    def _tokens(self) -> dict[LeaseGroup, int]:
        """Return the session's token for each lease group that this node serves."""
        return dict.fromkeys(self.ownership.owned, self.leases.token)

    def _limits(self) -> ServerLimits:
        options = self._options
        memory, file = options.max_memory or -1, options.max_file or -1
        limits = ServerLimits(
            max_memory=memory,
            max_storage=file,
            replicas=1 if options.cluster is None else REPLICAS_MAX,
        )
        return replace(limits, **options.limits)

    def reconfigure(self, options: RuntimeOptions) -> None:
        """Apply changed limits for stream configurations, and changed remotes.

        Other changed options have no effect until the next runtime.
        """
        before, self._options = self._options, options
        if options.remotes != before.remotes:
            self.remotes.configure(options.remotes)

    # -- starting ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Acquire the free lease groups, load their streams, and begin to answer requests.

        Raises OperatorError if the schema or a row cannot be used, Unavailable if PostgreSQL does
        not answer.
        """
        self._compared = self.leases.session
        await check_revision(self._pools.readers)
        try:
            await self.directory_follower.refresh()
        except Unavailable:
            if (damage := self.directory_follower.damage) is not None:
                raise damage from None
            raise
        await self.writer.heads([DIRECTORY])  # opens its session before the first commit
        self._is_loaded = True
        for work, name in (
            (self.committer.run, "commit"),
            (self.states.run, "states"),
            (self.janitor.run, "janitor"),
        ):
            self._begin(work(), name)
        self._subscribe()
        self._account.scopes = StreamScopes(self.directory, self._account.name).of
        self.transactions.start()
        self.serving.start()
        if self._gate is not None:
            self._gate.serve(has_runtime=True)
        await self.placement.place()
        self._placing = self._begin(self.placement.run(), "placement")

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task that is cancelled by `stop`; if it fails, the runtime ends."""
        task = spawn(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)
        return task

    def _subscribe(self) -> None:
        handlers: Handlers = {
            Command.PLACE: self.placement.apply,
            Command.VERIFY: lambda _step: self.committer.verify(),
            Command.ANNOUNCE: lambda _step: self.remotes.reload(),
        }
        self._subscriptions += [
            self._dispatch.subscribe(handlers),
            self.leases.confirmed.subscribe(self._trust.confirm),
            self.leases.beating.subscribe(self._count),
            self.directory.changed.subscribe(self.registry.on_directory_changes),
        ]
        if self._mesh is not None:
            self._subscriptions.append(self._mesh.reached.subscribe(self.placement.hint))

    def _count(self, row: NodeRow) -> None:
        row.streams = len(self.registry.streams)

    async def _expire_overdue(self, runners: list[StreamRunner]) -> None:
        """Expire the overdue messages of loaded streams before clients can request them."""
        overdue = [runner for runner in runners if runner.machine.expiry is not None]
        if not overdue:
            return
        work = spawn(self.registry.expire_overdue(overdue), name="overdue messages")
        deposed = spawn(self.deposed.wait(), name="deposed while loading")
        await asyncio.wait({work, deposed}, return_when=asyncio.FIRST_COMPLETED)
        await stop(work, deposed)

    def _served(self, _runners: list[StreamRunner]) -> None:
        """Log the numbers of streams and groups; if this node leads the cluster, publish that."""
        streams, groups = len(self.registry.streams), len(self.ownership.owned)
        log.info("leading %d streams in %d lease groups", streams, groups)
        cluster, system = self._options.cluster, self._hub.accounts.get(SYSTEM_ACCOUNT)
        if cluster is not None and system is not None and DIRECTORY in self.ownership.owned:
            advisories = Advisories(system, self._clock, domain=self._hub.domain)
            advisories.domain_led(peer_id(cluster.own), cluster.name, cluster.members)

    # -- ownership ---------------------------------------------------------------------------

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """End the runtime if one of its tasks has failed: memory may differ from storage."""
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, OperatorError):
                self.failure = error
            self._depose(f"{task.get_name()} failed")

    def _release(self) -> None:
        if self._hub.overloaded:
            self._hub.end_backpressure()

    def _depose(self, why: str) -> None:
        if not self.deposed.is_set():
            log.warning("this node no longer leads: %s", why)
            self.committer.stopped = True
            self.deposed.set()

    async def _drop_fenced(self, work: Work) -> Work:
        """Remove a fenced commit's streams that another node owns; return the rest of `work`."""
        fenced = await find_fenced(self.writer, work)
        for runner in list(self.registry.streams.values()):
            if runner.stream in fenced:
                self.registry.lose(runner)
        return [(runner, plan) for runner, plan in work if runner.stream not in fenced]

    async def recover(self, work: Work) -> tuple[Work, Work]:
        """Recover after a storage outage; return the committed and the uncommitted work.

        `work` has the commits in flight, as pairs of stream and change. Raises Fenced if storage
        differs from memory, Unavailable if PostgreSQL does not answer.
        """
        self._in_doubt = work
        committed, rest = await lead_again(
            self.leases.renew, self.writer, self.registry, work, self.directory.version
        )
        await check_consumers(self.writer, self.registry)
        self._in_doubt = []
        self._compared = self.leases.session
        return committed, rest

    async def leave(self) -> None:
        """Transfer all lease groups to other nodes, if there are any.

        Raises Unavailable if PostgreSQL does not answer.
        """
        if (placing := self._placing) is None:
            return
        left = spawn(outcome(self.placement.leave()), name="leaving")
        await asyncio.wait({left, placing}, return_when=asyncio.FIRST_COMPLETED)
        await stop(left)
        if not left.cancelled() and (error := left.result()) is not None:
            raise error

    def _is_compared(self) -> bool:
        """Return whether storage was compared with memory in the present lease session.

        As long as that session lasts, the database cannot have lost commits.
        """
        return self.leases.session == self._compared != 0

    def _remember(self) -> None:
        """Record the sequences that clients have seen, for the next runtime of this process."""
        doubtful = {runner.stream: plan.last_seq for runner, plan in self._in_doubt}
        self.leases.health.acknowledged.remember(
            self.transfers.epoch, self.directory.version, self.registry.known(doubtful)
        )

    # -- stopping ----------------------------------------------------------------------------

    async def withdraw(self) -> None:
        """Release all lease groups: hold publishes, and read everything that peers sent before."""
        await stop(self._placing)
        self._dispatch.post(TransferRequested({"": self.ownership.owned}))
        await self._owner_links.drained()

    async def retire(self) -> None:
        """Store the pending publishes, at most 1 s, and remove JetStream from the account.

        Client connections stay. May be called twice.
        """
        await stop(self._placing)
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._finish_work()
        except TimeoutError:
            log.warning(
                "stopped before all gathered messages were written; none of them was acknowledged"
            )
        self.transfers.close()
        while self._subscriptions:
            self._subscriptions.pop()()
        # Ends waits for PostgreSQL, which may never answer.
        self._pools.terminate()
        # In the same loop tick, so that each request is answered by one of them.
        self.serving.unlisten()
        if self._gate is not None:
            self._gate.serve(has_runtime=False)
        await self.transactions.stop()
        await self.serving.stop()
        await self.serving.peer_requests.stop()
        self.states.close()
        self.registry.close()
        self._loop_tick.run()

    async def _finish_work(self) -> None:
        await self.remotes.stop()
        await self.transactions.stop()
        await self.serving.dead_letters.stop()
        if not self.deposed.is_set() and self._tasks:
            await self.committer.drain()
            await self.states.drain()

    async def stop(self) -> None:
        """Cancel the tasks, close the sessions with PostgreSQL, and release the leases.

        Called after `retire`.
        """
        self._dispatch.post(LeasesLost(frozenset(self.ownership.leases)))
        await stop(*self._tasks)
        if self._is_loaded:  # else keep the record of the last runtime
            self._remember()
        await self.writer.close()
        if self._own_follower is not None:
            await self._own_follower.close()
        for what in (COMMITS, SPACE):  # the next lease session determines both again
            self.leases.health.works(what)
        self._release()
        await self.leases.release()
