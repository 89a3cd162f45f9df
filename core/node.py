"""The composition root: one node, from its parts, and the order of starting and stopping.

    leadership -> load -> lane, states, janitor -> API, streams, consumers -> NATS port

Stopping goes the other way. A node that loses its leadership to another one drops everything it
holds in memory and says so (`deposed`); whoever runs it starts it again as a standby.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from core.api.call import Counters, Server
from core.api.dispatcher import Dispatcher
from core.api.domain import serve_domain
from core.auth.users import Users
from core.client.loopback import attach
from core.errors import Fenced
from core.jetstream.janitor import Janitor
from core.jetstream.lane import Lane, Runner
from core.jetstream.registry import Registry
from core.jetstream.resources import Resources
from core.jetstream.shell import TAIL_BYTES, Shell
from core.jetstream.state_writer import StateWriter
from core.jetstream.tail import TailBudget
from core.jetstream.timers import Timers
from core.model.account import ServerLimits
from core.protocol.upgrade import WebSocketOptions
from core.pubsub.limits import Limits
from core.pubsub.mappings import Mapping
from core.pubsub.server import Hub
from core.remote.keeper import Remotes
from core.remote.settings import Remote
from core.runtime.clock import Clock, SystemClock
from core.runtime.tasks import spawn, stop
from core.runtime.turn import Turn
from core.storage.interface import ConsumerRow, Head
from core.storage.postgres.catalog import PostgresCatalog
from core.storage.postgres.connect import Connector, Purpose
from core.storage.postgres.reads import PostgresReader
from core.storage.postgres.remotes import PostgresRemotes
from core.storage.postgres.stream_log import PostgresLog
from core.stream.batching import Quota, batch_limits
from core.stream.plan import StreamPlan
from core.transport.listener import Listener
from core.transport.loopback import connect_trusted

log = logging.getLogger("jetgate.node")

_READERS = 3
_WRITERS = 3
_ACCOUNT = "$G"
# How long, in seconds, the end of a node waits for what was gathered.
_DRAIN_S = 1.0


class Leading(Protocol):
    """What a node needs of its leadership (`core.storage.postgres.leases.Leadership`)."""

    async def acquire(self) -> None:
        """Return when this node leads, every epoch bumped; Fenced if another one took over."""
        ...

    def trusted(self) -> bool: ...
    async def release(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """How a node presents itself. Port 0 means any free port; bytes and seconds as named.

    `ws_port` None: NATS is not served over WebSocket; `ws_host` empty: on `host`;
    `websocket_users` None: who may come over WebSocket is who may come at all. `jetstream_limits`
    are members of `ServerLimits`. `strict`: requests of the API may hold no unknown member.
    """

    host: str = "127.0.0.1"
    port: int = 4222
    server_name: str = ""
    limits: Limits = field(default_factory=Limits)
    users: Users | None = None
    ws_port: int | None = None
    ws_host: str = ""
    websocket: WebSocketOptions = field(default_factory=WebSocketOptions)
    websocket_users: Users | None = None
    tail_bytes: int = TAIL_BYTES
    domain: str = ""
    strict: bool = True
    max_memory: int = 0
    max_file: int = 0
    jetstream_limits: dict[str, int] = field(default_factory=dict)
    mappings: tuple[Mapping, ...] = ()
    remotes: tuple[Remote, ...] = ()


class Node:
    """One jetgate node over one database."""

    def __init__(
        self,
        options: NodeOptions,
        connector: Connector,
        leadership: Leading,
        clock: Clock | None = None,
    ) -> None:
        self.options = options
        self.clock = clock or SystemClock()
        self.turn = Turn()
        self.hub = Hub(
            self.turn,
            self.clock,
            limits=options.limits,
            server_name=options.server_name,
            users=options.users,
        )
        self.hub.domain = options.domain
        self.hub.use_mappings(self.hub.accounts[_ACCOUNT], options.mappings)
        self.leadership = leadership
        self.deposed = asyncio.Event()
        self._connector = connector
        self._tasks: list[asyncio.Task[Any]] = []
        self._pools: list[Any] = []
        self.registry: Registry
        self.api: Counters
        self.lane: Lane
        self.states: StateWriter
        self.janitor: Janitor
        self.remotes: Remotes
        self.writer: PostgresLog
        self.catalog: PostgresCatalog
        self.ws_port = options.ws_port
        self._listener: Listener | None = None
        self._dispatcher: Dispatcher | None = None

    # -- starting ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Lead, load everything, then accept clients.

        Raises OperatorError when the address cannot be bound, Unavailable when PostgreSQL is
        away.
        """
        await self.leadership.acquire()
        await self._connect()
        started = self.clock.monotonic()
        await self._load()
        self._tasks += [
            spawn(self.lane.run(), name="lane"),
            spawn(self.states.run(), name="states"),
            spawn(self.janitor.run(), name="janitor"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._ended)
        await self._expire_overdue()
        server = Server(
            self.registry,
            self.clock,
            domain=self.options.domain,
            strict=self.options.strict,
            own=self._own_limits,
        )
        serve_domain(self.hub.accounts[_ACCOUNT], self.options.domain)
        self.api = server.counters
        self._dispatcher = Dispatcher(self.hub.accounts[_ACCOUNT], server)
        self._dispatcher.start()
        self.registry.listen()
        log.info(
            "leading %d streams, loaded in %.2f s",
            len(self.registry.streams),
            (self.clock.monotonic() - started) / 1e9,
        )
        self._listener = Listener(self.hub)
        await self._listener.start(self.options.host, self.options.port)
        if self.ws_port is not None:
            _, self.ws_port = await self._listener.start_websocket(
                self.options.ws_host or self.options.host,
                self.ws_port,
                self.options.websocket,
                self.options.websocket_users,
            )
        self.remotes.start()

    @property
    def nats_address(self) -> str:
        """Where clients connect, `nats://host:port`."""
        return f"nats://{self.hub.host}:{self.hub.port}"

    async def _connect(self) -> None:
        self.writer = PostgresLog(lambda: self._connector.open(Purpose.LANE))
        readers = await self._connector.pool(Purpose.READ, _READERS)
        self._pools.append(readers)
        writers = await self._connector.pool(Purpose.WRITE, _WRITERS)
        self._pools.append(writers)
        self.catalog = PostgresCatalog(writers, self._depose)
        self.janitor = Janitor()
        self.states = StateWriter(self.catalog, self.turn, self.clock, self._depose)
        self.lane = Lane(
            self.writer,
            self.turn,
            self.clock,
            self.leadership.trusted,
            self._recover,
            self._depose,
        )
        shell = Shell(
            clock=self.clock,
            turn=self.turn,
            reader=PostgresReader(readers),
            sweeper=PostgresReader(writers),
            catalog=self.catalog,
            lane=self.lane,
            states=self.states,
            janitor=self.janitor,
            timers=Timers(self.clock),
            server_name=self.hub.server_name,
            press=self.hub.press,
            tails=TailBudget(self.options.tail_bytes),
            max_payload=lambda: self.hub.limits.max_payload,
            domain=self.options.domain,
            resources=self._resources(),
            batches=Quota(lambda: batch_limits(self._own_limits())),
        )
        self.lane.release = self._release
        self.janitor.attach(shell)
        self.registry = Registry(self.hub.accounts[_ACCOUNT], shell)
        self.remotes = Remotes(
            self.hub.accounts[_ACCOUNT],
            self.clock,
            self.options.remotes,
            PostgresRemotes(writers),
            self.registry.reconnected,
            attach(partial(connect_trusted, self.hub)),
        )

    def _resources(self) -> Resources | None:
        """Limits of the node, or nothing that would have to be asked."""
        memory, file = self.options.max_memory, self.options.max_file
        return Resources(self.turn, memory, file) if memory or file else None

    def _own_limits(self) -> ServerLimits:
        options = self.options
        memory, file = options.max_memory or -1, options.max_file or -1
        return replace(
            ServerLimits(max_memory=memory, max_storage=file), **options.jetstream_limits
        )

    async def _load(self) -> None:
        await self._take_catalog_epoch()
        streams, consumers, purges = await self.catalog.load()
        by_stream: dict[int, list[ConsumerRow]] = {}
        for consumer in consumers:
            by_stream.setdefault(consumer.stream, []).append(consumer)
        shelves = {row.stream: row.shelf for row in streams}
        sweeper = self.registry.shell.sweeper
        for stream in {purge.stream for purge in purges}:
            await sweeper.delete_purged(stream, shelves[stream])
        for row in streams:
            await self.registry.open(row, by_stream.get(row.stream, []))
        for stream, shelf in await self.catalog.dropped_streams():
            self.janitor.drop(stream, shelf)

    async def _expire_overdue(self) -> None:
        """Let leave, before anybody can ask for it, what expired while no node was there."""
        if not self.registry.has_lifetimes():
            return
        work = spawn(self.registry.expire_overdue(), name="overdue messages")
        deposed = spawn(self.deposed.wait(), name="deposed while loading")
        await asyncio.wait({work, deposed}, return_when=asyncio.FIRST_COMPLETED)
        await stop(work, deposed)

    async def _take_catalog_epoch(self) -> None:
        head = (await self.writer.heads([0]))[0]
        self.catalog.epoch = self.registry.epoch = head.epoch

    # -- leadership --------------------------------------------------------------------------

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """A part that fails takes the node with it: what it holds in memory is not trusted."""
        if not task.cancelled() and task.exception() is not None:
            self._depose(f"{task.get_name()} failed")

    def _release(self) -> None:
        if self.hub.overloaded:
            self.hub.release()

    def _depose(self, why: str) -> None:
        if not self.deposed.is_set():
            log.warning("this node no longer leads: %s", why)
            self.lane.stopped = True
            self.deposed.set()

    async def _recover(
        self, work: list[tuple[Runner, StreamPlan]]
    ) -> list[tuple[Runner, StreamPlan]]:
        """Lead again after storage was away; return the plans that turn out committed.

        The epochs are bumped before the heads are read, so that no COMMIT of the lost connection
        can still arrive. Raises Fenced when a head is not where this node left it, Unavailable.
        """
        await self.leadership.acquire()
        runners = {runner.stream: runner for runner in self.registry.streams.values()}
        heads = await self.writer.heads([0, *runners])
        plans = {runner.stream: plan for runner, plan in work}
        committed: list[tuple[Runner, StreamPlan]] = []
        for stream, runner in runners.items():
            head = heads.get(stream)
            plan = plans.get(stream)
            if head is None:
                raise Fenced(f"stream {runner.name} is gone")
            if plan is not None and _is_after(head, plan):
                committed.append((runner, plan))
            elif head.last_seq != runner.machine.last_seq:
                raise Fenced(f"stream {runner.name} was written by another node")
            runner.epoch = head.epoch
        self.catalog.epoch = self.registry.epoch = heads[0].epoch
        return committed

    # -- stopping ----------------------------------------------------------------------------

    def close_door(self) -> None:
        """Accept nobody any more; who is here stays."""
        if self._listener is not None:
            self._listener.close_door()

    async def retire(self) -> None:
        """Accept nobody new, finish what is under way and end JetStream; connections stay.

        Safe to call twice; `stop` does it, too.
        """
        self.close_door()
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._finish_work()
        except TimeoutError:
            log.warning(
                "stopped before everything gathered was written; nothing of it was acknowledged"
            )
        # Whoever still waits for PostgreSQL waits no longer: it may never answer.
        for pool in self._pools:
            pool.terminate()
        if self._dispatcher is not None:
            await self._dispatcher.stop()
        if hasattr(self, "registry"):
            self.states.close()
            self.registry.close()
        self.turn.run()

    async def _finish_work(self) -> None:
        if hasattr(self, "remotes"):
            await self.remotes.stop()
        if not self.deposed.is_set() and self._tasks:
            await self.lane.drain()
            await self.states.drain()

    async def stop(self) -> None:
        """Retire, say goodbye, let go of the leadership."""
        await self.retire()
        if self._listener is not None:
            await self._listener.stop()
        await stop(*self._tasks)
        if hasattr(self, "writer"):
            await self.writer.close()
        await self.leadership.release()


def _is_after(head: Head, plan: StreamPlan) -> bool:
    """Whether a head row is what a plan makes of it.

    A plan that only moves the positions of sources, or says when schedules come due next, leaves
    the head as it is: written again, it changes nothing.
    """
    if (plan.positions or plan.firings) and plan.last_seq == plan.before:
        return False
    return (head.last_seq, head.last_ts, head.msgs, head.bytes) == (
        plan.last_seq,
        plan.last_ts,
        plan.msgs,
        plan.nbytes,
    ) and head.first_seq == max(plan.first_seq, plan.purged_below)
