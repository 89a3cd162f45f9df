"""The ownership commands that wait for storage, executed one at a time.

    acquire:   locks, epochs -> rows -> streams in memory -> announced to peers
    transfer:  announced to peers -> received data stored -> streams out of memory -> locks

This order loses no publish. Peers hold publishes while they know no owner of a lease group, so no
publish is sent between two owners. A new owner reads everything that its predecessors have stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from core.cluster.directory_follower import DirectoryFollower
from core.errors import ApiError, Unavailable
from core.jetstream.registry import Registry
from core.jetstream.stream.runner import StreamRunner
from core.jetstream.transactions.transactions import Transactions
from core.node.outage_recovery import find_losses
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.pending_steps import PendingSteps
from core.node.ownership.state import (
    Command,
    Drained,
    LeasesLost,
    Loaded,
    LoadFailed,
    PeerClaimed,
    Released,
    State,
    Step,
    TransferRequested,
    Wanted,
)
from core.runtime.tasks import outcome, spawn, stop
from core.storage.interface import ConsumerRow, DirectoryStore, StreamRow
from core.units import Epoch, LeaseGroup

if TYPE_CHECKING:
    from core.storage.acknowledged import Acknowledged

log = logging.getLogger(__name__)

_READERS = 3
_DRAIN_S = 1.0
"""Longest wait for a stream in transfer to store its pending publishes, in seconds."""


class Leases(Protocol):
    """The PostgreSQL locks by which nodes own lease groups (sets of streams with one owner).

    Implemented by `core.node.lease_session.LeaseSession`.
    """

    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]: ...
    async def release_groups(self, groups: Collection[LeaseGroup]) -> None: ...


class Peers(Protocol):
    """The other nodes: announces new subscriptions to them, and waits for the data they sent.

    Implemented by `core.node.owner_links.OwnerLinks`.
    """

    def begin(self) -> None: ...
    async def drained(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LoadHooks:
    """The callbacks of a runtime for lease groups that are loaded.

    Attributes:
        check: Raises OperatorError if this release cannot serve the stored schema.
        loaded: Called with the streams of the groups before they are served.
        served: Called with the streams of the groups once they are served.
    """

    check: Callable[[], Awaitable[None]]
    loaded: Callable[[list[StreamRunner]], Awaitable[None]]
    served: Callable[[list[StreamRunner]], None]


class Transfers:
    """Loads the streams of acquired lease groups into memory, and removes those of released groups.

    Args:
        dispatch: The ownership of this node.
        peers: The other nodes.
        leases: Acquires and releases locks.
        acknowledged: The sequences that earlier runtimes of this process have acknowledged.
        registry: The streams in memory.
        transactions: The transactions, resumed and released with their streams.
        directory_store: Reads the rows of streams and consumers.
        known: The stream directory of all nodes.
        hooks: The callbacks of the runtime.

    Attributes:
        epoch: Highest epoch of the stream directory's head row that was read at a load.
    """

    def __init__(
        self,
        dispatch: Dispatch[Any],
        peers: Peers,
        leases: Leases,
        acknowledged: Acknowledged,
        registry: Registry,
        transactions: Transactions,
        directory_store: DirectoryStore,
        known: DirectoryFollower,
        hooks: LoadHooks,
    ) -> None:
        self.epoch = Epoch(0)
        self._dispatch, self._ownership = dispatch, dispatch.ownership
        self._peers = peers
        self._leases = leases
        self._acknowledged = acknowledged
        self._registry = registry
        self._transactions = transactions
        self._directory_store = directory_store
        self._known = known
        self._hooks = hooks
        self._steps = PendingSteps(dispatch)
        self._unsubscribe = dispatch.subscribe(
            {Command.DEPOSE: self._depose, Command.PASS: self._notify_sourcing}
        )

    @property
    def owned(self) -> frozenset[LeaseGroup]:
        """The lease groups that this node serves."""
        return self._ownership.owned

    def close(self) -> None:
        """Stop acquiring and transferring lease groups, and drop the commands not executed yet."""
        self._unsubscribe()
        self._steps.close()

    # -- what the placement asks for ---------------------------------------------------------

    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]:
        """Acquire the lease groups in `groups` that are free, and serve their streams.

        Returns the groups that are served now and were not leased before.

        Raises:
            Unavailable: Storage does not answer; acquired groups are not served.
            OperatorError: The row of a stream is damaged.
        """
        wanted = frozenset(groups) - self._ownership.leases.keys()
        self._dispatch.post(Wanted(wanted))
        await self._execute()
        return wanted & self._ownership.owned

    async def transfer(
        self, to: Mapping[str, Collection[LeaseGroup]], *, is_requested: bool = False
    ) -> None:
        """Release lease groups of this node, so that other nodes can acquire them.

        `to` has the groups by the name of their next owner, "" for any node. Publishes of clients
        are held in the meantime; publishes sent before are stored first. `is_requested` is True if
        a client has asked for the transfer.

        Raises:
            Unavailable: Storage does not answer; the groups are released, and their locks end with
                the session.
        """
        owned = {name: frozenset(some) & self._ownership.owned for name, some in to.items()}
        some = {name: groups for name, groups in owned.items() if groups}
        self._dispatch.post(TransferRequested(some, is_requested))
        await self._execute()

    async def _execute(self) -> None:
        """Execute the pending steps. If one fails, finish releases, drop the rest, and re-raise."""
        try:
            while self._steps:
                await self._execute_step(self._steps.next())
        except BaseException:
            self._steps.fail()
            while self._steps:
                with contextlib.suppress(Unavailable):  # else the locks end with the session
                    await self._execute_step(self._steps.next())
            raise

    async def _execute_step(self, step: Step) -> None:
        if step.command is Command.ACQUIRE and step.groups:
            await self._leases.acquire(step.groups)
        elif step.command is Command.LOAD and step.groups:
            await self._load_and_serve(step.groups)
        elif step.command is Command.DRAIN and isinstance(step.event, TransferRequested):
            await self._drain(step.groups, step.event)
        elif step.command is Command.RELEASE:
            await self._release(step)

    # -- load --------------------------------------------------------------------------------

    async def _load_and_serve(self, groups: frozenset[LeaseGroup]) -> None:
        leases = dict(self._ownership.leases)
        try:
            runners = await self._load(groups)
            loading = groups & self._ownership.within(State.LOADING)
            renewed = self._ownership.leases
            # A renewal has raised epochs that may have been read before.
            self._fail({group for group in loading if renewed[group] != leases.get(group)})
            await self._hooks.loaded([runner for runner in runners if not runner.log.closed])
        except BaseException:
            self._dispatch.post(LoadFailed(groups))
            raise
        self._serve(groups, runners)

    def _fail(self, groups: Collection[LeaseGroup]) -> None:
        """Release groups whose streams in memory have lower epochs than in storage.

        This node has the leases, but storage would refuse the commits. The placement then acquires
        the groups again.
        """
        if groups:
            log.info("%d lease groups are loaded again: their epochs have been raised", len(groups))
            self._dispatch.post(LoadFailed(frozenset(groups)))

    def _serve(self, groups: frozenset[LeaseGroup], runners: list[StreamRunner]) -> None:
        """Serve loaded groups. Peers receive the streams' subscriptions before the new owner.

        A stream that a fenced commit has closed is never served: it would answer for its successor.
        """
        closed = {runner.lease_group for runner in runners if runner.log.closed}
        self._fail(groups & self._ownership.within(State.LOADING) & closed)
        still = groups & self._ownership.within(State.LOADING)
        for runner in runners:
            if runner.lease_group not in still:
                self._registry.lose(runner)  # the group was lost in the meantime
        led = [runner for runner in runners if runner.lease_group in still]
        self._peers.begin()
        for runner in led:
            runner.start()
        self._transactions.resume(led)
        self._dispatch.post(Loaded(still, self._registry.services.clock.now()))
        self._registry.announce_leaders(led)
        self._hooks.served(led)

    async def _load(self, groups: frozenset[LeaseGroup]) -> list[StreamRunner]:
        """Load the streams of groups into memory and return them."""
        await self._hooks.check()
        await self._known.refresh()
        head = await self._directory_store.head()
        self.epoch = max(self.epoch, head.epoch)
        names = {(each.account, each.name) for each in self._known.directory.all()}
        streams, consumers, purges = await find_losses(
            self._acknowledged, self._directory_store, head, groups, names
        )
        by_stream: dict[int, list[ConsumerRow]] = {}
        for consumer in consumers:
            by_stream.setdefault(consumer.stream, []).append(consumer)
        partitions = {row.stream: row.partition for row in streams}
        sweeper = self._registry.services.sweeper
        for stream in {purge.stream for purge in purges}:
            await sweeper.delete_purged(stream, partitions[stream], 0)  # kept ids are found later
        self._transactions.restore(await self._directory_store.ledgers(groups))
        rows = [row for row in streams if row.account == self._registry.account.name]
        runners = await self._open(iter(rows), by_stream)
        for stream, partition in await self._directory_store.dropped_streams(groups):
            self._registry.services.janitor.drop(stream, partition)
        return runners

    async def _open(
        self, rows: Iterator[StreamRow], consumers: Mapping[int, list[ConsumerRow]]
    ) -> list[StreamRunner]:
        """Open streams concurrently, as many at a time as there are sessions that read."""
        found = []

        async def open_some() -> None:
            for row in rows:
                found.append(await self._registry.open(row, consumers.get(row.stream, [])))

        work = [spawn(outcome(open_some()), name="loading streams") for _ in range(_READERS)]
        try:
            for error in filter(None, await asyncio.gather(*work)):
                raise error
        finally:
            await stop(*work)
        return found

    # -- drain and release -------------------------------------------------------------------

    async def _drain(self, groups: frozenset[LeaseGroup], transfer: TransferRequested) -> None:
        """Store everything received for groups, and remove their streams from memory."""
        for runner in self._streams_of(groups):
            runner.withdraw()
        await self._peers.drained()
        with contextlib.suppress(TimeoutError):  # streams created during the drain are refused
            async with asyncio.timeout(_DRAIN_S):
                await self._registry.await_changes()
        runners = self._streams_of(groups)
        await self._transactions.release(runners)
        await asyncio.gather(*map(self._release_stream, runners))
        self._dispatch.post(Drained(transfer))

    async def _release(self, step: Step) -> None:
        """Release the locks of groups, and offer the groups to their next owners."""
        if step.groups:
            await self._leases.release_groups(step.groups)
        if isinstance(step.event, Drained):
            self._dispatch.post(Released(step.event.transfer))

    def _streams_of(self, groups: Collection[LeaseGroup]) -> list[StreamRunner]:
        return [r for r in self._registry.streams.values() if r.lease_group in groups]

    async def _release_stream(self, runner: StreamRunner) -> None:
        """Remove a stream from memory once its pending publishes are stored, at most after 1 s."""
        try:
            async with asyncio.timeout(_DRAIN_S):
                await runner.drained()
                await self._registry.services.states.written(runner.consumers.values())
        except (ApiError, TimeoutError) as error:
            log.warning(
                "stream %s is transferred with unanswered publishes: %s", runner.name, error
            )
        self._registry.release(runner)

    # -- what happens ------------------------------------------------------------------------

    def _depose(self, step: Step) -> None:
        """Remove the streams of lost groups from memory at once."""
        event, groups = step.event, step.groups
        if isinstance(event, PeerClaimed) or (isinstance(event, LeasesLost) and event.why):
            why = "another node leads them" if isinstance(event, PeerClaimed) else event.why
            had = len(groups | self._ownership.leases.keys())
            log.warning("%d of %d lease groups are lost: %s", len(groups), had, why)
        is_failed = isinstance(event, LoadFailed)
        leave = self._registry.release if is_failed else self._registry.lose
        for runner in self._streams_of(groups):
            leave(runner)

    def _notify_sourcing(self, step: Step) -> None:
        """Make mirrors and sources of these groups' streams send requests to the new owners."""
        self._registry.on_new_leaders(step.groups)
