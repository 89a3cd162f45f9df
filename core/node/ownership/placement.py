"""The placement of lease groups: decides which groups a node acquires and transfers.

Each node sees the same input: the nodes with a recent heartbeat, the streams of each group, the
tags of both, and the holders of the locks. One pure function computes the owners
(`core.node.ownership.assignment`). A free group is acquired by the node that the function names;
after one second by any node. A node transfers groups to a peer with far fewer streams, or with tags
that this node lacks. There is no central decision, and the locks prevent two nodes with different
views from owning the same group.

The lease group of a new stream is chosen by `StreamDirectory.group_for_new_stream`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Set
from typing import Protocol

from core.cluster.tags import Tags
from core.errors import Unavailable
from core.node.lease_times import LeaseTimes
from core.node.ownership.assignment import assign
from core.node.ownership.state import PeerReleased, Step, StepDownRequested
from core.runtime.clock import Clock
from core.storage.health import SESSION, StorageHealth, waits
from core.storage.leases import Holder
from core.units import NANOS_PER_SECOND, LeaseGroup, Nanos

log = logging.getLogger(__name__)

_GRACE = NANOS_PER_SECOND
"""Nanoseconds for which a free group is left to the node that the placement names."""
_FOR_LONG = 1 << 62
_AT_ONCE = 64
"""Largest number of streams in one transfer, unless one lease group has more."""
_RECHECK_S = 0.05
_PINNED = 10 * NANOS_PER_SECOND
"""Nanoseconds for which a group stays with the owner that a client has asked for."""
_CALM = 2 * NANOS_PER_SECOND
"""Nanoseconds without a change after which groups are rebalanced."""


class Nodes(Protocol):
    """The nodes of the database, between which `GroupPlacement` distributes lease groups.

    Implemented by `core.cluster.view.ClusterView`.
    """

    own: str

    @property
    def is_evacuated(self) -> bool:
        """True while this node is evacuated: at a client's request it owns no lease group."""
        ...

    def responsive(self) -> Collection[str]:
        """Return the names of the nodes with a heartbeat in the last 4 s, this one included."""
        ...

    def able(self) -> Collection[str]:
        """Return the names of the linked peers that can own lease groups.

        Nodes in lame duck mode and evacuated nodes cannot.
        """
        ...

    def leader(self, group: LeaseGroup) -> str:
        """Return the name of the node that owns a lease group; empty if none is known."""
        ...

    def tags(self) -> Mapping[str, Set[str]]:
        """Return the placement tags of each node, by node name."""
        ...


class Locks(Protocol):
    """The PostgreSQL locks by which nodes own lease groups (sets of streams with one owner).

    Implemented by `core.node.lease_session.LeaseSession`.
    """

    async def survey(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, Holder]: ...
    def may_acquire(self) -> bool: ...
    def trusted(self) -> bool: ...


class Owned(Protocol):
    """The lease groups of this node, with methods to acquire and transfer them.

    Implemented by `core.node.ownership.transfer.Transfers`.
    """

    @property
    def owned(self) -> Collection[LeaseGroup]: ...
    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]: ...
    async def transfer(
        self, to: Mapping[str, Collection[LeaseGroup]], *, is_requested: bool = False
    ) -> None: ...


class GroupPlacement:
    """Acquires and transfers the lease groups of one node. Life cycle: `place` once, then `run`.

    Args:
        nodes: The nodes of the database.
        all_groups: Every lease group.
        locks: The locks of lease groups.
        owned: Acquires and transfers groups.
        streams: Returns the number of streams of each group.
        clock: The clock of the machine.
        health: Receives failures of storage.
        times: The intervals of leases; None: the defaults of `LeaseTimes`.
        wanted: Returns the placement tags that each group requires.

    Attributes:
        is_leaving: True if the node is about to end, and acquires no more groups.
    """

    def __init__(
        self,
        nodes: Nodes,
        all_groups: Collection[LeaseGroup],
        locks: Locks,
        owned: Owned,
        streams: Callable[[], Mapping[LeaseGroup, int]],
        clock: Clock,
        health: StorageHealth,
        times: LeaseTimes | None = None,
        wanted: Callable[[], Mapping[LeaseGroup, Set[str]]] = dict,
    ) -> None:
        self._nodes = nodes
        self._all = frozenset(all_groups)
        self._locks = locks
        self._owned = owned
        self._streams = streams
        self._clock = clock
        self._health = health
        self._times = times or LeaseTimes()
        self._wanted = wanted
        self.is_leaving = False
        self._hurry = asyncio.Event()
        self._free_since: dict[LeaseGroup, Nanos] = {}
        self._offered: set[LeaseGroup] = set()
        self._requested: set[LeaseGroup] = set()
        self._left: dict[LeaseGroup, int] = {}
        self._pinned: dict[LeaseGroup, int] = {}
        self._members: frozenset[str] = frozenset()
        self._seen: dict[LeaseGroup, int] = {}
        self._changed = self._grown = clock.monotonic()
        self._logged_holders = ""
        self._requests: deque[tuple[Callable[[], Awaitable[None]], asyncio.Future[None]]] = deque()

    def apply(self, step: Step) -> None:
        """Process an ownership event after which groups may have to be acquired or transferred.

        Does not wait: the work is done by `run`.
        """
        event = step.event
        if isinstance(event, PeerReleased):
            self._offered_by_peer(event)
        elif isinstance(event, StepDownRequested):
            log.info("stepping down for %s", event.successor or "another node")
            requested = self._request(lambda: self.step_down(event.groups, event.successor))
            requested.add_done_callback(_log_failure)
        else:
            self.hint()

    def _request(self, work: Callable[[], Awaitable[None]]) -> asyncio.Future[None]:
        """Queue work for `run`, to be done next; return a future of its end."""
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests.append((work, outcome))
        self.hint()
        return outcome

    def hint(self) -> None:
        """Make `run` start its next round at once.

        Called when an owner is lost or has released lease groups.
        """
        self._hurry.set()

    def _offered_by_peer(self, event: PeerReleased) -> None:
        """Acquire groups that a peer has released for this node; leave others to their new owners.

        Groups whose transfer a client has asked for are exempt from rebalancing for 10 s.
        """
        if event.to == self._nodes.own:
            self._offered |= event.groups
            for group in event.groups:  # it may have been left to another node a moment ago
                self._left.pop(group, None)
            if event.is_requested:
                self._requested |= event.groups
            else:
                self._requested -= event.groups
            self.hint()
        else:
            until = self._clock.monotonic() + _GRACE
            self._left |= dict.fromkeys(event.groups, until)

    async def run(self) -> None:
        """Run one round of `place` every 0.25 s (default), and requested transfers at once.

        Returns only when cancelled. A round that fails because of storage is reported to `health`.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._times.poll / NANOS_PER_SECOND):
                    await self._hurry.wait()
            self._hurry.clear()
            try:
                while self._requests:
                    await _resolve(*self._requests.popleft())
                await self.place()
            except Unavailable as error:
                self._health.failed(SESSION, str(error))

    # -- one look ----------------------------------------------------------------------------

    async def place(self) -> None:
        """Acquire the free lease groups that this node is to own; if none is free, rebalance.

        An evacuated node transfers all its groups instead. Raises Unavailable if PostgreSQL does
        not answer.
        """
        if self.is_leaving:
            return
        living = frozenset(self._nodes.responsive())
        if living != self._members:
            self._members, self._changed = living, self._clock.monotonic()
            self._pinned.clear()
        if (streams := dict(self._streams())) != self._seen:
            self._seen, self._grown = streams, self._clock.monotonic()
        if self._nodes.is_evacuated:
            await self.step_down(self._owned.owned)
            return
        open_groups = self._unowned()
        if open_groups:
            await self._acquire_free(open_groups)
        else:
            self._free_since.clear()
            await self._rebalance()

    def _unowned(self) -> frozenset[LeaseGroup]:
        """Return the groups without an owner that has a recent heartbeat."""
        living = self._nodes.responsive()
        return frozenset(
            group
            for group in self._all - frozenset(self._owned.owned)
            if self._nodes.leader(group) not in living
        )

    async def _acquire_free(self, groups: frozenset[LeaseGroup]) -> None:
        holders = await self._locks.survey(groups)
        now = self._clock.monotonic()
        free = groups - holders.keys()
        self._free_since = {group: self._free_since.get(group, now) for group in free}
        self._log_holders(holders)
        if not free or not self._locks.may_acquire():
            return
        led = {group: self._nodes.leader(group) for group in self._all - groups}
        led |= dict.fromkeys(self._owned.owned, self._nodes.own)
        led |= {group: holder.node for group, holder in holders.items()}
        able = {self._nodes.own, *self._nodes.able()}
        assigned = assign(able, self._all, self._streams(), led, tags=self._tags(), rebalance=False)
        self._left = {group: until for group, until in self._left.items() if now < until}
        mine = {
            group
            for group in free - self._left.keys()
            if group in self._offered
            or assigned[group] == self._nodes.own
            or now - self._free_since[group] >= _GRACE
        }
        if not mine:
            return
        offered, requested = frozenset(self._offered), frozenset(self._requested)
        taken = await self._owned.acquire(mine)
        self._pinned |= dict.fromkeys(taken & requested, self._clock.monotonic() + _PINNED)
        self._offered -= offered  # more may have been offered in the meantime
        self._requested -= requested
        self._changed = self._clock.monotonic()

    def _log_holders(self, holders: Mapping[LeaseGroup, Holder]) -> None:
        """Log once which nodes hold the locks that this node waits for."""
        shown = ", ".join(sorted({each.shown for each in holders.values() if each.node}))
        if shown != self._logged_holders and not self._owned.owned:
            self._logged_holders = shown
            if shown:
                log.info("standing by: %s leads", shown)

    # -- moves -------------------------------------------------------------------------------

    async def _rebalance(self) -> None:
        """Transfer the groups that the placement assigns to peers, after 2 s without a change.

        New streams delay this too, except for groups whose required tags only the new owner has.
        """
        now = self._clock.monotonic()
        is_calm = now - self._changed >= _CALM and self._locks.trusted()
        if not is_calm or not self._owned.owned:
            return
        assigned, tags = self._assigned(leaving=()), self._tags()
        to: dict[str, list[LeaseGroup]] = {}
        able = self._nodes.able()
        is_grown = now - self._grown >= _CALM
        for group in self._owned.owned:
            if self._pinned.get(group, 0) >= now or (node := assigned[group]) not in able:
                continue
            if is_grown or (tags.suits(node, group) and not tags.suits(self._nodes.own, group)):
                to.setdefault(node, []).append(group)
        if to:
            self._changed = now
            await self._move(to)

    def _assigned(self, leaving: Collection[str]) -> dict[LeaseGroup, str]:
        able = {self._nodes.own, *self._nodes.able()} - set(leaving)
        led = {group: self._nodes.leader(group) for group in self._all}
        led |= dict.fromkeys(self._owned.owned, self._nodes.own)
        return assign(able, self._all, self._streams(), led, tags=self._tags())

    def _tags(self) -> Tags:
        return Tags(self._nodes.tags(), self._wanted())

    async def step_down(self, groups: Collection[LeaseGroup], successor: str = "") -> None:
        """Transfer lease groups to the node named `successor`.

        If it is empty or unable to own groups, the placement chooses the nodes. Without other nodes
        the groups stay. If a client has asked for the transfer, rebalancing does not undo it for 10
        s. Raises Unavailable if PostgreSQL does not answer.
        """
        is_requested = not (self.is_leaving or self._nodes.is_evacuated)
        own = frozenset(groups) & frozenset(self._owned.owned)
        able = self._nodes.able() if own else ()
        if successor in able:
            await self._move({successor: own}, is_requested=is_requested)
        elif able:
            assigned = self._assigned(leaving=(self._nodes.own,))
            to: dict[str, list[LeaseGroup]] = {}
            for group in own:
                to.setdefault(assigned[group], []).append(group)
            await self._move(to, is_requested=is_requested)

    async def leave(self) -> None:
        """Acquire no more groups, and transfer all groups to other nodes.

        Repeated if the next owner of a group leaves too; without other nodes the groups stay.
        Raises Unavailable if PostgreSQL does not answer.
        """
        self.is_leaving = True
        await self._request(self._transfer_all)

    async def _transfer_all(self) -> None:
        while self._owned.owned and self._nodes.able():
            await self.step_down(self._owned.owned)

    async def _move(
        self, to: Mapping[str, Collection[LeaseGroup]], *, is_requested: bool = False
    ) -> None:
        """Transfer groups in parts of at most 64 streams, and wait for the new owner of each part.

        Publishes to a part are held until then. A single group with more streams is one part.
        Groups for a node that has left meanwhile stay.
        """
        for node, groups in to.items():
            if node not in self._nodes.able():
                continue
            log.info("transferring %d lease groups to %s", len(groups), node)
            for some in self._parts(groups):
                if node not in self._nodes.able():
                    break
                self._left |= dict.fromkeys(some, _FOR_LONG)
                try:
                    await self._owned.transfer({node: some}, is_requested=is_requested)
                finally:
                    until = self._clock.monotonic() + _GRACE
                    self._left |= dict.fromkeys(some, until)
                await self._await_new_owner(node, some)

    def _parts(self, groups: Collection[LeaseGroup]) -> Iterator[list[LeaseGroup]]:
        streams, part, count = self._streams(), list[LeaseGroup](), 0
        for group in sorted(groups):
            if part and count + streams.get(group, 0) > _AT_ONCE:
                yield part
                part, count = [], 0
            part.append(group)
            count += streams.get(group, 0)
        if part:
            yield part

    async def _await_new_owner(self, node: str, groups: Collection[LeaseGroup]) -> None:
        """Return when `node` owns the groups, when it leaves, or after 1 s.

        Acquires groups that peers offer in the meantime. Otherwise two nodes that transfer groups
        to each other would wait for each other.
        """
        until = self._clock.monotonic() + _GRACE
        while self._clock.monotonic() < until and node in self._nodes.able():
            if all(self._nodes.leader(group) == node for group in groups):
                return
            if self._offered and not (self.is_leaving or self._nodes.is_evacuated):
                await self._acquire_free(self._unowned() & self._offered)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RECHECK_S):
                    await self._hurry.wait()
            self._hurry.clear()


async def _resolve(work: Callable[[], Awaitable[None]], outcome: asyncio.Future[None]) -> None:
    """Await some work, and set its outcome on the future."""
    try:
        await work()
    except Unavailable as error:
        if not outcome.done():
            outcome.set_exception(error)
    except BaseException:
        outcome.cancel()
        raise
    else:
        if not outcome.done():
            outcome.set_result(None)


def _log_failure(requested: asyncio.Future[None]) -> None:
    if not requested.cancelled() and (error := requested.exception()) is not None:
        waits.warning("stepping down waits: %s", error)
