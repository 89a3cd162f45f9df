"""One leadership of this process: everything that it holds in memory while it leads.

    load: streams, consumers -> lane, states, janitor -> API

A `Term` adds JetStream to one account of a `Server` and takes all of it out again when it ends. A
process that loses its leadership to another node drops the term and says so (`deposed`); the next
leadership is a new term, loaded from storage.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from core.api.call import ApiServer
from core.api.dispatcher import Dispatcher
from core.api.domain import serve_domain
from core.api.routes import CLUSTER_ROUTES, META_ROUTES, OWN_ROUTES, ROUTES
from core.client.loopback import attach
from core.cluster.following import CatalogueFollower
from core.cluster.leadership import Leadership
from core.cluster.members import REPLICAS_MAX, Cluster, peer_id
from core.jetstream.advisories import Advisories
from core.jetstream.dead_letters import DeadLetters
from core.jetstream.janitor import Janitor
from core.jetstream.lane import Lane, Work
from core.jetstream.log.tail import TailBudget
from core.jetstream.registry import Registry
from core.jetstream.resources import Resources
from core.jetstream.services import TAIL_BYTES, Services
from core.jetstream.state_writer import StateWriter
from core.jetstream.timers import Timers
from core.jetstream.transactions.transactions import Transactions
from core.jetstream.trust import Trust
from core.model.account import ServerLimits
from core.pubsub.account import ServiceSubscription
from core.pubsub.server import SYSTEM_ACCOUNT
from core.recovery import CATALOGUE, check_consumers, find_fenced, find_losses, lead_again
from core.remote.keeper import Remotes
from core.remote.settings import Remote
from core.runtime.tasks import outcome, spawn, stop
from core.server import Server
from core.storage.health import COMMITS, SPACE
from core.storage.interface import CatalogueNews, CatalogueRow, ConsumerRow, StreamRow
from core.storage.postgres.catalog import PostgresCatalog
from core.storage.postgres.catalogue_source import PostgresCatalogueSource
from core.storage.postgres.connect import Connector, Purpose
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
    """

    account: str = "$G"
    tail_bytes: int = TAIL_BYTES
    strict: bool = True
    max_memory: int = 0
    max_file: int = 0
    limits: dict[str, int] = field(default_factory=dict)
    remotes: tuple[Remote, ...] = ()
    cluster: Cluster | None = None


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
    """Load everything that a leadership leads, and serve it.

    `catalogue` is what the process knows of the streams of all nodes; None: there are no others.
    When this fails, or is cancelled, nothing is left; the leadership is released by the caller.

    Raises:
        Fenced: another node took over meanwhile.
        OperatorError: the schema is that of a newer release.
        Unavailable: PostgreSQL is away.
    """
    known = catalogue or CatalogueFollower(PostgresCatalogueSource(connector))
    term = Term(server, connector, leadership, await Pools.open(connector), options, known)
    try:
        await term.start()
    except BaseException:
        await term.retire()
        await term.stop()
        raise
    return term


class Term:
    """The streams of one account, from being loaded to the end of a leadership.

    Attributes:
        leadership: how this process leads.
        deposed: set when it no longer does, or when memory may no longer be what storage has.
        stepping_down: set when another node is asked to lead.
        successor: the name of that node; empty: any.
        registry: the streams.
        api: the counters of API requests.
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
        self.stepping_down = asyncio.Event()
        self.successor = ""
        self._hub, self._clock, self._turn = server.hub, leadership.clock, server.turn
        self._account = server.hub.accounts[options.account]
        self._options = options
        self._cluster = options.cluster
        self._pools = pools
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_loaded = False
        self._epoch = 0  # that of the catalogue's head
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
        leadership.gave_up = self._give_up_groups
        trust = Trust(leadership.trusted)
        leadership.confirmed = trust.confirm
        self.registry = Registry(self._account, self._services(sweeper, trust))
        self.transactions = Transactions(self.registry.streams)
        self.letters = self.registry.services.letters = DeadLetters(self.registry.streams)
        served = ApiServer(
            self.registry,
            self._clock,
            self.transactions,
            domain=self._hub.domain,
            strict=options.strict,
            own=self._limits,
            trust=trust,
        )
        self.api = served.counters
        self._dispatchers = self._dispatchers_of(served)
        self._domain: ServiceSubscription | None = None
        self.remotes = Remotes(
            self._account,
            self._clock,
            options.remotes,
            PostgresRemotes(pools.writers),
            self.registry.reconnected,
            attach(partial(connect_trusted, server.hub)),
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
            # Without limits there is nothing that would have to be asked.
            acknowledged=self.leadership.health.acknowledged,
            trust=trust,
            resources=Resources(self._turn, memory, file) if memory or file else None,
            batches=Quota(lambda: batch_limits(self._limits())),
        )

    def _dispatchers_of(self, served: ApiServer) -> list[Dispatcher]:
        """Return who serves requests: those of the account, and those of the system account."""
        if self._cluster is None:
            return [Dispatcher(self._account, served)]
        routes = (*CLUSTER_ROUTES, *ROUTES, *OWN_ROUTES)
        dispatchers = [Dispatcher(self._account, served, routes)]
        if (system := self._hub.accounts.get(SYSTEM_ACCOUNT)) is not None:
            dispatchers.append(Dispatcher(system, served, META_ROUTES))
        return dispatchers

    def _leases(self) -> dict[int, int]:
        """Return the tokens of the lease groups that this node leads."""
        return dict.fromkeys(self.leadership.groups, self.leadership.token)

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
        """Load everything and answer requests. Raises Fenced, Unavailable."""
        started = self._clock.monotonic()
        await self._load()
        self._is_loaded = True
        self._tasks += [
            spawn(self.lane.run(), name="lane"),
            spawn(self.states.run(), name="states"),
            spawn(self.janitor.run(), name="janitor"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        await self._expire_overdue()
        if self._cluster is not None:
            self._cluster.leader_since = self._clock.now()
            self._cluster.step_down = self._step_down
            self._cluster.delete = partial(delete_node, self._pools.writers)
        self._domain = serve_domain(self._account, self._hub.domain)
        for dispatcher in self._dispatchers:
            dispatcher.start()
        self.registry.listen()
        self.transactions.start()
        self._tell_led()
        log.info(
            "leading %d streams, loaded in %.2f s",
            len(self.registry.streams),
            (self._clock.monotonic() - started) / 1e9,
        )

    def _tell_led(self) -> None:
        """Tell who listens that this node leads now."""
        self.registry.tell_led()
        cluster, system = self._cluster, self._hub.accounts.get(SYSTEM_ACCOUNT)
        if cluster is not None and system is not None:
            advisories = Advisories(system, self._clock, domain=self._hub.domain)
            advisories.domain_led(peer_id(cluster.own), cluster.name, cluster.members)

    async def _load(self) -> None:
        self._compared = self.leadership.session
        await check_revision(self._pools.readers)
        head = (await self.writer.heads([CATALOGUE]))[CATALOGUE]
        self._epoch = head.epoch
        acknowledged = self.leadership.health.acknowledged
        streams, consumers, purges = await find_losses(acknowledged, self.catalog, head)
        self.catalogue.catalogue.take(_all_of(head.last_seq, streams))
        by_stream: dict[int, list[ConsumerRow]] = {}
        for consumer in consumers:
            by_stream.setdefault(consumer.stream, []).append(consumer)
        shelves = {row.stream: row.shelf for row in streams}
        sweeper = self.registry.services.sweeper
        for stream in {purge.stream for purge in purges}:
            await sweeper.delete_purged(stream, shelves[stream], 0)  # which ids count shows later
        await self._open(
            iter([row for row in streams if row.account == self._account.name]), by_stream
        )
        self._give_up_groups()  # those that were lost meanwhile
        self.transactions.restore(await self.catalog.ledgers())
        for stream, shelf in await self.catalog.dropped_streams():
            self.janitor.drop(stream, shelf)

    async def _open(
        self, rows: Iterator[StreamRow], consumers: Mapping[int, list[ConsumerRow]]
    ) -> None:
        """Bring streams back, as many at a time as there are sessions to read with."""

        async def open_some() -> None:
            for row in rows:
                await self.registry.open(row, consumers.get(row.stream, []))

        work = [spawn(outcome(open_some()), name="loading streams") for _ in range(_READERS)]
        try:
            for error in filter(None, await asyncio.gather(*work)):
                raise error
        finally:
            await stop(*work)

    async def _expire_overdue(self) -> None:
        """Let leave, before anybody can ask for it, what expired while no node was there."""
        if not self.registry.expires_single_messages():
            return
        work = spawn(self.registry.expire_overdue(), name="overdue messages")
        deposed = spawn(self.deposed.wait(), name="deposed while loading")
        await asyncio.wait({work, deposed}, return_when=asyncio.FIRST_COMPLETED)
        await stop(work, deposed)

    # -- leadership --------------------------------------------------------------------------

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """A part that fails takes the term with it: what it holds in memory is not trusted."""
        if not task.cancelled() and task.exception() is not None:
            self._depose(f"{task.get_name()} failed")

    def _release(self) -> None:
        if self._hub.overloaded:
            self._hub.release()

    def _depose(self, why: str) -> None:
        if not self.deposed.is_set():
            log.warning("this node no longer leads: %s", why)
            self.lane.stopped = True
            self.deposed.set()

    def _give_up_groups(self, _gone: frozenset[int] = frozenset()) -> None:
        """Give up the streams in groups that this node does not lead any more."""
        for runner in list(self.registry.streams.values()):
            if runner.lease_group not in self.leadership.groups:
                self.registry.give_up(runner)

    async def _sift(self, work: Work) -> Work:
        """Give up the streams of a fenced commit that another node leads; return the others."""
        fenced = await find_fenced(self.writer, self._epoch, work)
        for runner in list(self.registry.streams.values()):
            if runner.stream in fenced:
                self.registry.give_up(runner)
        return [(runner, plan) for runner, plan in work if runner.stream not in fenced]

    async def recover(self, work: Work) -> tuple[Work, Work]:
        """Lead again after storage was away; return which plans turn out committed, which not."""
        self._in_doubt = work
        committed, rest, epoch = await lead_again(
            self.leadership, self.writer, self.registry, work, self.catalogue.catalogue.version
        )
        await check_consumers(self.writer, self.registry)
        self._epoch = epoch
        self._in_doubt = []
        self._compared = self.leadership.session
        return committed, rest

    def _step_down(self, successor: str) -> None:
        if not self.stepping_down.is_set():
            log.info("stepping down for %s", successor or "another node")
            self.successor = successor
            self.leadership.stays = True
            self.stepping_down.set()

    def _is_compared(self) -> bool:
        """Whether storage cannot have gone back since it was looked at: the session is the same."""
        return self.leadership.session == self._compared != 0

    def _remember(self) -> None:
        """Keep what clients have seen for the next leadership of this process."""
        doubtful = {runner.stream: plan.last_seq for runner, plan in self._in_doubt}
        self.leadership.health.acknowledged.remember(
            self._epoch, self.catalogue.catalogue.version, self.registry.known(doubtful)
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
        # Whoever still waits for PostgreSQL waits no longer: it may never answer.
        self._pools.terminate()
        if self._domain is not None:
            self._account.unsubscribe(self._domain)
        await self.transactions.stop()
        await self.letters.stop()
        for dispatcher in self._dispatchers:
            await dispatcher.stop()
        self.states.close()
        self.registry.close()
        self._turn.run()

    async def _finish_work(self) -> None:
        await self.remotes.stop()
        await self.transactions.stop()
        await self.letters.stop()
        if not self.deposed.is_set() and self._tasks:
            await self.lane.drain()
            await self.states.drain()

    async def stop(self) -> None:
        """End what `retire` left, and let go of the leadership."""
        await stop(*self._tasks)
        if self._is_loaded:  # else what the last term has left stays
            self._remember()
        await self.writer.close()
        for what in (COMMITS, SPACE):  # the next leadership finds out anew
            self.leadership.health.works(what)
        self._release()
        await self.leadership.release()


def _all_of(version: int, streams: Iterable[StreamRow]) -> CatalogueNews:
    """Return streams that were loaded as what the catalogue had at a version, or later."""
    rows = [
        CatalogueRow(row.stream, row.account, row.name, row.lease_group, row.creation, row.config)
        for row in streams
    ]
    return CatalogueNews(version, rows, is_whole=True)
