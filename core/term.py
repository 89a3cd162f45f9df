"""One session of this process with storage: everything that it holds in memory while it may lead.

    start: catalogue -> lane, states, janitor -> lease groups (`core.holdings`) -> API

A `Term` adds JetStream to one account of a `Server` and takes all of it out again when it ends.
What it leads changes meanwhile (`core.cluster.spreading`): nothing, or everything. A process whose
memory may no longer be what storage has drops the term and says so (`deposed`); the next term is
loaded from storage.
"""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from core.api.serving import Serving
from core.client.loopback import attach
from core.cluster.following import CatalogueFollower
from core.cluster.leadership import Leadership
from core.cluster.members import REPLICAS_MAX, Alone, Cluster, peer_id
from core.cluster.scopes import StreamScopes
from core.cluster.spreading import Spreading
from core.errors import OperatorError, Unavailable
from core.holdings import Holdings, Nobody, Peers
from core.jetstream.advisories import Advisories
from core.jetstream.janitor import Janitor
from core.jetstream.lane import Lane, Work
from core.jetstream.log.tail import TailBudget
from core.jetstream.registry import Registry
from core.jetstream.resources import Resources
from core.jetstream.services import TAIL_BYTES, Services
from core.jetstream.state_writer import StateWriter
from core.jetstream.stream.runner import StreamRunner
from core.jetstream.timers import Timers
from core.jetstream.transactions.transactions import Transactions
from core.jetstream.trust import Trust
from core.model.account import ServerLimits
from core.pubsub.server import SYSTEM_ACCOUNT
from core.recovery import CATALOGUE, check_consumers, find_fenced, lead_again
from core.remote.keeper import Remotes
from core.remote.settings import Remote
from core.runtime.tasks import spawn, stop
from core.server import Server
from core.storage.health import COMMITS, SPACE, waits
from core.storage.postgres.catalog import PostgresCatalog
from core.storage.postgres.catalogue_source import PostgresCatalogueSource
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.locks import LEASE_GROUPS
from core.storage.postgres.migrate import check_revision
from core.storage.postgres.nodes import delete_node
from core.storage.postgres.reads import PostgresReader
from core.storage.postgres.remotes import PostgresRemotes
from core.storage.postgres.stream_log import PostgresLog
from core.stream.batching import Quota, batch_limits
from core.transport.loopback import connect_trusted

log = logging.getLogger("jetgate.term")

_READERS = 3
_WRITERS = 3
# How long, in seconds, the end of a term waits for what was gathered.
_DRAIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TermOptions:
    """How JetStream is served. Sizes in bytes; 0: no limit.

    Attributes:
        account: the account that has it.
        tail_bytes: the newest messages of all streams that are kept in memory.
        strict: whether a request with an unknown member is refused.
        max_memory: what streams with memory storage may use.
        max_file: what streams with file storage may use.
        limits: members of `ServerLimits`, to which configurations and batches are held.
        remotes: other systems, besides those of the list in the database.
        cluster: the nodes of the database; None: it is this node's own.
        peers: told what this node leads; None: nobody is.
    """

    account: str = "$G"
    tail_bytes: int = TAIL_BYTES
    strict: bool = True
    max_memory: int = 0
    max_file: int = 0
    limits: dict[str, int] = field(default_factory=dict)
    remotes: tuple[Remote, ...] = ()
    cluster: Cluster | None = None
    peers: Peers | None = None


@dataclass(frozen=True, slots=True)
class Pools:
    """The sessions with PostgreSQL that a term reads and changes the catalogue with."""

    readers: Any
    writers: Any

    @classmethod
    async def open(cls, connector: Connector) -> "Pools":
        """Open both. Raises Unavailable."""
        readers = await connector.pool(Purpose.READ, _READERS)
        try:
            return cls(readers, await connector.pool(Purpose.WRITE, _WRITERS))
        except BaseException:
            readers.terminate()
            raise

    def terminate(self) -> None:
        """End every session at once."""
        self.readers.terminate()
        self.writers.terminate()


async def load(
    server: Server,
    connector: Connector,
    leadership: Leadership,
    options: TermOptions,
    catalogue: CatalogueFollower | None = None,
) -> "Term":
    """Load what a leadership finds free, and serve it.

    `catalogue` is what the process knows of the streams of all nodes; None: there are no others.
    When this fails, or is cancelled, nothing is left; the leadership is released by the caller.

    Raises:
        OperatorError: the schema is that of a newer release, or a row is damaged.
        Unavailable: PostgreSQL is away.
    """
    pools = await Pools.open(connector)
    known = catalogue or CatalogueFollower(PostgresCatalogueSource(connector))
    term = Term(server, connector, leadership, pools, options, known)
    term.has_own_catalogue = catalogue is None
    try:
        await term.start()
    except BaseException:
        await term.retire()
        term.peers.claim({})
        await term.stop()
        raise
    return term


class Term:
    """The streams of one account, from being loaded to the end of a leadership.

    Attributes:
        leadership: how this process leads.
        deposed: set when memory may no longer be what storage has.
        failure: why no other term of this process can be better; None: one can.
        holdings: what it leads.
        peers: told what it leads.
        spreading: what it is to lead.
        registry: the streams.
        serving: what answers requests.
        api: the counters of API requests.
        has_own_catalogue: whether what it knows of the catalogue ends with it.
    """

    def __init__(
        self,
        server: Server,
        connector: Connector,
        leadership: Leadership,
        pools: Pools,
        options: TermOptions,
        catalogue: CatalogueFollower,
    ) -> None:
        self.leadership = leadership
        self.deposed = asyncio.Event()
        self.failure: OperatorError | None = None
        self._hub, self._clock, self._turn = server.hub, leadership.clock, server.turn
        self._account = server.hub.accounts[options.account]
        self._options = options
        self._cluster = options.cluster
        self.peers: Peers = options.peers or Nobody()
        self._pools = pools
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_loaded = False
        self.has_own_catalogue = False
        self._moves: set[asyncio.Task[Any]] = set()
        self._compared = 0  # the session of the leadership when storage was as memory has it
        self._in_doubt: Work = []  # plans of which nobody knows yet whether they were committed
        self.writer = PostgresLog(partial(connector.open, Purpose.LANE))
        self.catalogue = catalogue
        self.catalog = PostgresCatalog(
            pools.writers, self._depose, catalogue.catalogue, self._leases
        )
        sweeper = PostgresReader(pools.writers, self._is_compared)
        self.janitor = Janitor(self._clock, sweeper, self.catalog)
        self.states = StateWriter(self.catalog, self._turn, self._clock, self._depose)
        self.lane = Lane(
            self.writer,
            self._turn,
            self._clock,
            leadership.trusted,
            self.recover,
            self._sift,
            self._depose,
            leadership.health,
        )
        self.lane.release = self._release
        leadership.reopened = self.lane.verify
        leadership.gave_up = self._lost
        trust = Trust(leadership.trusted)
        leadership.confirmed = trust.confirm
        self.registry = Registry(self._account, self._services(sweeper, trust))
        leadership.streams = lambda: len(self.registry.streams)
        self.transactions = Transactions(self.registry.streams, self.registry.exists)
        self.holdings = Holdings(
            leadership,
            self.registry,
            self.transactions,
            self.catalog,
            catalogue,
            self.peers,
            partial(check_revision, pools.readers),
        )
        self.holdings.on_loaded = self._expire_overdue
        self.holdings.on_gained = self._gained
        self.holdings.on_changed = lambda: self.remotes.look()
        self.spreading = Spreading(
            self._cluster or Alone(),
            range(LEASE_GROUPS),
            leadership,
            self.holdings,
            catalogue.catalogue.groups,
            server.clock,
            leadership.health,
            wanted=catalogue.catalogue.tags,
        )
        self.serving = Serving(
            self.registry,
            self.transactions,
            self.peers,
            server.hub.accounts.get(SYSTEM_ACCOUNT),
            limits=self._limits,
            strict=options.strict,
        )
        self.api = self.serving.counters
        self.remotes = Remotes(
            self._account,
            self._clock,
            options.remotes,
            PostgresRemotes(pools.writers),
            self.serving.reconnected,
            attach(partial(connect_trusted, server.hub)),
            lambda: CATALOGUE in self.holdings.groups,
        )

    def _services(self, sweeper: PostgresReader, trust: Trust) -> Services:
        hub, pools, options = self._hub, self._pools, self._options
        memory, file = options.max_memory, options.max_file
        return Services(
            clock=self._clock,
            turn=self._turn,
            reader=PostgresReader(pools.readers),
            sweeper=sweeper,
            catalog=self.catalog,
            catalogue=self.catalogue,
            lane=self.lane,
            states=self.states,
            janitor=self.janitor,
            timers=Timers(self._clock),
            server_name=hub.server_name,
            press=hub.press,
            tails=TailBudget(options.tail_bytes),
            max_payload=lambda: hub.limits.max_payload,
            domain=hub.domain,
            cluster=self._cluster,
            groups=lambda: self.holdings.groups,
            # Without limits there is nothing that would have to be asked.
            acknowledged=self.leadership.health.acknowledged,
            trust=trust,
            resources=Resources(self._turn, memory, file) if memory or file else None,
            batches=Quota(lambda: batch_limits(self._limits())),
        )

    def _leases(self) -> dict[int, int]:
        """Return the tokens of the lease groups that this node leads."""
        return dict.fromkeys(self.holdings.groups, self.leadership.token)

    def _limits(self) -> ServerLimits:
        options = self._options
        memory, file = options.max_memory or -1, options.max_file or -1
        limits = ServerLimits(
            max_memory=memory,
            max_storage=file,
            replicas=1 if self._cluster is None else REPLICAS_MAX,
        )
        return replace(limits, **options.limits)

    def reconfigure(self, options: TermOptions) -> None:
        """Take other limits of configurations, and other remotes, from now on."""
        before, self._options = self._options, options
        if options.remotes != before.remotes:
            self.remotes.configure(options.remotes)

    # -- starting ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Take what is free, and answer requests. Raises OperatorError, Unavailable."""
        self._compared = self.leadership.session
        await check_revision(self._pools.readers)
        try:
            await self.catalogue.look()
        except Unavailable:
            if (damage := self.catalogue.damage) is not None:
                raise damage from None
            raise
        await self.writer.heads([CATALOGUE])  # its session is there before the first commit
        self._is_loaded = True
        self._tasks += [
            spawn(self.lane.run(), name="lane"),
            spawn(self.states.run(), name="states"),
            spawn(self.janitor.run(), name="janitor"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        if self._cluster is not None:
            self._cluster.step_down = self._step_down
            self._cluster.leader_since = self.holdings.since
            self._cluster.delete = partial(delete_node, self._pools.writers)
        self.catalogue.catalogue.on_change.append(self.registry.heard)
        self._account.scopes = StreamScopes(self.catalogue.catalogue, self._account.name).of
        self.transactions.start()
        self.serving.start()
        self.peers.serves(True)
        self.peers.on_offer = self.spreading.offered
        self.peers.on_overtaken = self.leadership.lose
        self.peers.on_unled = self._peers_changed
        self.peers.on_led = self.registry.led_anew
        await self.spreading.settle()
        spreads = spawn(self.spreading.run(), name="spreading")
        spreads.add_done_callback(self._ended)
        self._tasks.append(spreads)

    async def _expire_overdue(self, runners: list[StreamRunner]) -> None:
        """Let leave, before anybody can ask for it, what expired while no node was there."""
        overdue = [runner for runner in runners if runner.machine.expiry is not None]
        if not overdue:
            return
        work = spawn(self.registry.expire_overdue(overdue), name="overdue messages")
        deposed = spawn(self.deposed.wait(), name="deposed while loading")
        await asyncio.wait({work, deposed}, return_when=asyncio.FIRST_COMPLETED)
        await stop(work, deposed)

    def _gained(self, _runners: list[StreamRunner]) -> None:
        """Tell of what is led now."""
        log.info("leading %d streams in %d lease groups", *self._numbers())
        cluster, system = self._cluster, self._hub.accounts.get(SYSTEM_ACCOUNT)
        if cluster is not None and system is not None and CATALOGUE in self.holdings.groups:
            advisories = Advisories(system, self._clock, domain=self._hub.domain)
            advisories.domain_led(peer_id(cluster.own), cluster.name, cluster.members)

    def _numbers(self) -> tuple[int, int]:
        return len(self.registry.streams), len(self.holdings.groups)

    # -- leadership --------------------------------------------------------------------------

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """A part that fails takes the term with it: what it holds in memory is not trusted."""
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, OperatorError):
                self.failure = error
            self._depose(f"{task.get_name()} failed")

    def _release(self) -> None:
        if self._hub.overloaded:
            self._hub.release()

    def _depose(self, why: str) -> None:
        if not self.deposed.is_set():
            log.warning("this node no longer leads: %s", why)
            self.lane.stopped = True
            self.deposed.set()

    def _peers_changed(self) -> None:
        self.holdings.look()
        self.spreading.hint()

    def _lost(self, groups: frozenset[int]) -> None:
        """Give up the streams in groups that another node leads."""
        self.holdings.lost(groups)
        self.spreading.hint()

    async def _sift(self, work: Work) -> Work:
        """Give up the streams of a fenced commit that another node leads; return the others."""
        fenced = await find_fenced(self.writer, work)
        for runner in list(self.registry.streams.values()):
            if runner.stream in fenced:
                self.registry.give_up(runner)
        return [(runner, plan) for runner, plan in work if runner.stream not in fenced]

    async def recover(self, work: Work) -> tuple[Work, Work]:
        """Lead again after storage was away; return which plans turn out committed, which not."""
        self._in_doubt = work
        committed, rest = await lead_again(
            self.leadership, self.writer, self.registry, work, self.catalogue.catalogue.version
        )
        await check_consumers(self.writer, self.registry)
        self.holdings.tell()
        self._in_doubt = []
        self._compared = self.leadership.session
        return committed, rest

    def _step_down(self, groups: Collection[int], successor: str) -> None:
        log.info("stepping down for %s", successor or "another node")
        task = spawn(self._moved(groups, successor), name="stepping down")
        self._moves.add(task)
        task.add_done_callback(self._moves.discard)

    async def _moved(self, groups: Collection[int], successor: str) -> None:
        try:
            await self.spreading.step_down(groups, successor)
        except Unavailable as error:
            waits.warning("stepping down waits: %s", error)

    async def leave(self) -> None:
        """Hand everything over to other nodes, if there are any. Raises Unavailable."""
        await self.spreading.leave()

    def _is_compared(self) -> bool:
        """Whether storage cannot have gone back since it was looked at: the session is the same."""
        return self.leadership.session == self._compared != 0

    def _remember(self) -> None:
        """Keep what clients have seen for the next leadership of this process."""
        doubtful = {runner.stream: plan.last_seq for runner, plan in self._in_doubt}
        self.leadership.health.acknowledged.remember(
            self.holdings.epoch, self.catalogue.catalogue.version, self.registry.known(doubtful)
        )

    # -- stopping ----------------------------------------------------------------------------

    async def retire(self) -> None:
        """Finish what is under way and take JetStream out of the account; connections stay.

        Safe to call twice.
        """
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._finish_work()
        except TimeoutError:
            log.warning(
                "stopped before everything gathered was written; nothing of it was acknowledged"
            )
        self.peers.on_offer = lambda _name, _groups, _is_asked: None
        self.peers.on_overtaken = lambda _groups: None
        self.peers.on_unled = lambda: None
        self.peers.on_led = lambda _groups: None
        if (heard := self.registry.heard) in (calls := self.catalogue.catalogue.on_change):
            calls.remove(heard)
        # Whoever still waits for PostgreSQL waits no longer: it may never answer.
        self._pools.terminate()
        # At once, so that each request is answered by one of them.
        self.serving.unlisten()
        self.peers.serves(False)
        await self.transactions.stop()
        await self.serving.stop()
        await self.serving.asking.stop()
        self.states.close()
        self.registry.close()
        self._turn.run()

    async def _finish_work(self) -> None:
        await self.remotes.stop()
        await self.transactions.stop()
        await self.serving.letters.stop()
        if not self.deposed.is_set() and self._tasks:
            await self.lane.drain()
            await self.states.drain()

    async def stop(self) -> None:
        """End what `retire` left, and let go of the leadership."""
        await stop(*self._tasks, *self._moves)
        if self._is_loaded:  # else what the last term has left stays
            self._remember()
        await self.writer.close()
        if self.has_own_catalogue:
            await self.catalogue.close()
        for what in (COMMITS, SPACE):  # the next leadership finds out anew
            self.leadership.health.works(what)
        self._release()
        await self.leadership.release()
