"""What one node leads: it takes lease groups, keeps them with heartbeats, notices their loss.

    open --- locks taken, epochs bumped ---> leads --- another node bumped some ---> those given up
     ^                                         | session gone: not trusted, take them again
     +------- all given back, or lost <--------+

*Rules.* Streams are led by groups, each with a lock: one session holds those of all groups that a
node leads, and one heartbeat confirms them. Which groups a node is to have is said elsewhere
(`core.cluster.spreading`). The locks are a hint, the epochs are the truth. They are bumped in one
transaction before anything is read, so that no write of an earlier leader can be committed later.
Each bump stores a token of this node in the rows of its groups: while it is there, no other node
has led the group since. Its number, the claim, is higher than that of any bump before: of two nodes
that say that they lead a group, the one with the higher claim does. Time is the database's,
measured with each heartbeat (`core.storage.database_time`).

*Failure.* While PostgreSQL is unreachable nobody leads: `trusted` becomes False within seconds and
`renew` raises Unavailable. When it is back the locks are taken again; the tokens show which groups
this node still leads, and the others are given up.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from core.cluster.lease import LeaseTimes, TrustWindow
from core.errors import Unavailable
from core.runtime.clock import Clock
from core.runtime.tasks import spawn, stop
from core.storage.database_time import DatabaseClock
from core.storage.health import SESSION, SPACE, StorageHealth
from core.storage.leases import ForeignLocks, Holder, LeaseStore, NodeRow, PeerRow

log = logging.getLogger("jetgate.cluster")

_SECOND = 1_000_000_000


class Follower(Protocol):
    """What a node does about the others of its database.

    Attributes:
        on_joined: called when a node is reached that `met` may not have told of yet.
    """

    on_joined: Callable[[], None]

    def links(self) -> tuple[str, ...]:
        """Return the names of the nodes that are reached now."""
        ...

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Hear which nodes there are: with each heartbeat."""
        ...


class Leadership:
    """The leadership of one node.

    Args:
        store: the session that holds the locks.
        clock: the machine's.
        row: what other nodes see of this node.
        times: the intervals of leases.
        health: told whether storage answers.
        follower: told of the other nodes; None: nobody is.

    Attributes:
        row: what other nodes see of this node; its addresses may be filled in later.
        health: what it was told.
        claims: the groups that it leads, as far as it knows, each with its claim.
        token: what says in their rows that it is this node since this start.
        clock: the time of the database, by which everything is stored; from `open` on.
        gave_up: called when another node has taken over some groups, with these.
        reopened: called when this node leads on in another session than before.
        confirmed: called each time it turns out that this node still leads.
        streams: returns how many streams it leads.
    """

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        row: NodeRow,
        *,
        times: LeaseTimes | None = None,
        health: StorageHealth | None = None,
        follower: Follower | None = None,
    ) -> None:
        self.row = row
        self.health = health or StorageHealth(clock)
        self.claims: dict[int, int] = {}
        self.token = secrets.randbits(62) + 1
        self.clock: Clock
        self.gave_up: Callable[[frozenset[int]], None] = lambda _groups: None
        self.reopened: Callable[[], None] = lambda: None
        self.confirmed: Callable[[], None] = lambda: None
        self.streams: Callable[[], int] = lambda: 0
        self._store = store
        self._clock = clock
        self._time: DatabaseClock | None = None
        self._times = times or LeaseTimes()
        self._follower = follower
        self._window = TrustWindow(self._times)
        self._session_lock = asyncio.Lock()  # one operation at a time on the session of the store
        self._heartbeats: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        if follower is not None:
            follower.on_joined = self._hurry.set
        self._others_until = 0  # who led when storage went away comes first
        self._foreign: frozenset[tuple[str, int]] = frozenset()  # those that the log has named

    @property
    def groups(self) -> frozenset[int]:
        """The groups that it leads, as far as it knows."""
        return frozenset(self.claims)

    @property
    def session(self) -> int:
        """The process id of the session that holds the locks; 0: there is none now."""
        return self._store.pid if self._store.is_open else 0

    def trusted(self) -> bool:
        """Say whether the leadership was confirmed recently enough to write and to answer."""
        return self._store.is_open and self._window.trusted(self._clock.monotonic())

    def may_take(self) -> bool:
        """Whether nobody who led before an outage comes first."""
        return self._clock.monotonic() >= self._others_until

    async def open(self) -> None:
        """Have a session, and keep it from now on. Raises Unavailable."""
        async with self._session_lock:
            await self._checked(self._confirm())
        self.health.works(SESSION)
        self.clock = self._time = DatabaseClock(self._clock, self.health.time)
        self._heartbeats = spawn(self._keep(), name="leadership")

    async def take(self, groups: Collection[int]) -> frozenset[int]:
        """Lead those of some groups whose locks are free, with every epoch bumped; return them.

        Raises Unavailable.
        """
        async with self._session_lock:
            taken: frozenset[int] = frozenset()

            async def lock() -> None:
                nonlocal taken
                self._require_session()
                taken = await self._store.take(groups)

            async def bump() -> None:
                nonlocal taken
                bumped = await self._store.bump(taken, self.token, None, self.row.node)
                taken = bumped.groups
                self.claims.update(dict.fromkeys(taken, bumped.claim))

            await self._checked(self._in_time(lock()))
            if taken:
                await self._checked(bump())  # without timeout: it waits for transactions
        return taken

    async def give(self, groups: Collection[int]) -> None:
        """Lead some groups no more, so that another node can. Raises Unavailable."""
        for group in groups:
            self.claims.pop(group, None)
        async with self._session_lock:
            if self._store.is_open:
                await self._checked(self._in_time(self._store.give(groups)))

    def lose(self, groups: Collection[int]) -> None:
        """Lead some groups no more: another node has led them since."""
        self._lead_on(self.groups - frozenset(groups), "another node leads them")

    async def survey(self, groups: Collection[int]) -> Mapping[int, Holder]:
        """Return which nodes hold the locks of groups; the sessions of those that stall are ended.

        Who holds such locks and is no node is named in the log, once. Raises Unavailable.
        """
        found: Mapping[int, Holder] = {}

        async def look() -> None:
            nonlocal found
            self._require_session()
            found = await self._store.holders(groups)
            for holder in set(found.values()):
                if holder.silence > self._times.stale and holder.pid != self._store.pid:
                    silence = holder.silence / _SECOND
                    log.warning("taking over: %s was silent for %.1f s", holder.shown, silence)
                    await self._store.end_session(holder.pid)
            self._warn(await self._store.foreign())

        async with self._session_lock:
            await self._checked(self._in_time(look()))
        return found

    def _warn(self, found: Sequence[ForeignLocks]) -> None:
        """Name once who has locks of jetgate's class and is no node."""
        for each in found:
            if (each.role, each.pid) not in self._foreign:
                what = "advisory locks of jetgate, and is no node: leading goes on without them"
                log.warning("%s %s", each.shown, what)
        self._foreign = frozenset((each.role, each.pid) for each in found)

    async def renew(self) -> None:
        """Lead on after storage was unreachable: in a session that holds the locks.

        Epochs are bumped, so that no COMMIT of a lost connection can succeed. Groups that another
        node has led since are given up. Raises Unavailable.
        """
        async with self._session_lock:
            await self._checked(self._renew())

    async def release(self) -> None:
        """Release the locks, so that another node need not wait. Safe to call twice."""
        await stop(self._heartbeats)
        self._heartbeats = None
        self._window.withdraw()
        self.claims.clear()
        try:
            async with asyncio.timeout(0.5):
                await self._leave()
        except (Unavailable, TimeoutError) as error:
            log.info("the locks end with their session: %s", error)
        self._store.close()
        # Who asks storage for something next finds out anew.
        self.health.works(SESSION)

    async def _leave(self) -> None:
        """Take this node out of storage, if it ever was there; its locks with it."""
        if not self._store.pid:
            return
        if not self._store.is_open:  # what it was asked last was cut off
            await self._store.open()
        await self._store.leave(self.row)

    # -- leading -----------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Confirm the leadership once per heartbeat interval, and whenever a node has joined."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._times.beat / _SECOND):
                    await self._hurry.wait()
            self._hurry.clear()
            try:
                async with self._session_lock:
                    await self._checked(self._confirm())
            except Unavailable as error:
                self.health.failed(SESSION, str(error))
            else:
                self.health.works(SESSION)

    async def _confirm(self) -> None:
        started, times = self._clock.monotonic(), self._times
        why = f"PostgreSQL has not answered for {times.late / _SECOND:g} s"
        was_open = self._store.is_open
        in_time = self.health.slow(SESSION, times.late / _SECOND, why)
        try:
            async with asyncio.timeout(times.answer / _SECOND):
                await self._ensure_locks()
                await self._beat()
                if self.health.fails(SPACE) and await self._store.has_space():
                    self.health.works(SPACE)
        finally:
            in_time()
        self._window.confirm(started)
        self.confirmed()
        if not was_open:
            self.reopened()

    async def _beat(self) -> None:
        time = self.health.time
        self.row.outages = self.health.history
        self.row.clock_ahead = time.ahead if time.is_known else None
        self.row.lease_groups, self.row.streams = len(self.claims), self.streams()
        if self._follower is not None:
            self.row.links = self._follower.links()
        sent = self._clock.monotonic()
        time.answered(sent, await self._store.beat(self.row))
        if self._follower is not None:
            self._follower.met(await self._store.peers())
        if self._time is not None:
            self._time.follow()

    async def _renew(self) -> None:
        started = self._clock.monotonic()
        await self._in_time(self._ensure_locks())
        bumped = await self._store.bump(self.groups, self.token, self.token, self.row.node)
        self._lead_on(bumped.groups, "another node has led since")
        self.claims.update(dict.fromkeys(bumped.groups, bumped.claim))
        self._window.confirm(started)
        self.confirmed()

    async def _ensure_locks(self) -> None:
        """Make sure that this node has its locks; give up groups that other nodes have led since.

        Raises Unavailable.
        """
        if self._store.is_open:
            return
        # Until it is known who has led meanwhile, the new session proves nothing.
        self._window.withdraw()
        former = self._store.pid
        await self._store.open()
        if former:
            # Who led knows what PostgreSQL may have lost meanwhile.
            self._others_until = self._clock.monotonic() + self._times.precedence
        taken = await self._store.take(self.groups)
        why = "another node has led since"
        if missing := self.groups - taken:
            holders = await self._store.holders(missing)
            if any(holder.pid == former for holder in holders.values()):
                # PostgreSQL has not noticed yet that this node's last session ended.
                await self._store.end_session(former)
                raise Unavailable("waiting for the end of our last session")
            if len(holders) < len(missing):
                raise Unavailable("a lock is between two holders")
            others = sorted({holder.node or "another node" for holder in holders.values()})
            why = f"locks are held by {', '.join(others)}"
        tokens = await self._store.tokens(taken)
        kept = frozenset(group for group in taken if tokens.get(group) == self.token)
        if kept != taken:
            await self._store.give(taken - kept)
        self._lead_on(kept, why)

    def _require_session(self) -> None:
        if not self._store.is_open:
            raise Unavailable("there is no session with PostgreSQL")

    def _lead_on(self, groups: frozenset[int], why: str) -> None:
        """Lead only these of the groups from now on."""
        if gone := self.groups - groups:
            log.warning("%d of %d lease groups are lost: %s", len(gone), len(self.claims), why)
            for group in gone:
                del self.claims[group]
            self.gave_up(gone)

    async def _in_time(self, work: Awaitable[None]) -> None:
        async with asyncio.timeout(self._times.answer / _SECOND):
            await work

    async def _checked(self, check: Awaitable[None]) -> None:
        """Run a check; close the session when it fails, since its state is unknown."""
        try:
            await check
        except TimeoutError:
            self._close_session()
            raise Unavailable("PostgreSQL does not answer") from None
        except BaseException:
            self._close_session()
            raise

    def _close_session(self) -> None:
        self._window.withdraw()
        self._store.close()
