"""Leadership of one node: acquire it, keep it with heartbeats, notice its loss.

    standby --- locks taken, epochs bumped ---> leading --- another node bumped all ---> lost
       ^ wait; end the session of a stalled holder  | session gone: not trusted, take them again
                                                    | another node bumped some: those given up

*Rules.* Streams are led by groups, each with a lock: one session holds those of all groups that a
node leads, and one heartbeat confirms them. Which groups a node campaigns for is said by who makes
the leadership; today it gets all of them or none. The locks are a hint, the epochs are the truth.
They are bumped in one transaction before anything is read, so that no write of an earlier leader
can be committed later. Each bump stores a token of this leadership in the rows of its groups: while
it is there, no other node has led the group since. Time is the database's, measured with each
heartbeat (`core.storage.database_time`).

*Failure.* While PostgreSQL is unreachable nobody leads: `trusted` becomes False within seconds and
`acquire` raises Unavailable. When it is back the locks are taken again; the tokens show which
groups this node still leads, and the others are given up. Without any, or without that of the
catalogue, the leadership is `lost`, which is final: the node must start anew as a standby.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from core.cluster.lease import LeaseTimes, TrustWindow
from core.errors import Fenced, Unavailable
from core.runtime.clock import Clock
from core.runtime.tasks import spawn, stop
from core.storage.database_time import DatabaseClock
from core.storage.health import SESSION, SPACE, StorageHealth
from core.storage.leases import Holder, LeaseStore, NodeRow, PeerRow

log = logging.getLogger("jetgate.cluster")

_SECOND = 1_000_000_000
_POLLS_FOR_ADDRESS = 12
_CATALOGUE = 0
"""The group that the catalogue is led with. It is taken first: its holder finds the others free."""


class Follower(Protocol):
    """What a node does about the others of its database."""

    def stands_by(self) -> None:
        """Hear that another node leads, or none: after each attempt that failed."""
        ...

    def links(self) -> tuple[str, ...]:
        """Return the names of the nodes that are reached now."""
        ...

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Hear which nodes there are: with each heartbeat."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait for so long, or until there is reason to believe that nobody leads."""
        ...


class Leadership:
    """The leadership of one node.

    Args:
        store: the session that holds the locks.
        clock: the machine's.
        row: what other nodes see of this node.
        groups: the lease groups to lead, that of the catalogue among them.
        times: the intervals of leases.
        health: told whether storage answers.
        follower: told of the other nodes; None: nobody is.

    Attributes:
        row: what other nodes see of this node; its addresses may be filled in later.
        health: what it was told.
        epoch: the catalogue's epoch under which the node leads; 0 before it does.
        groups: which lease groups it leads, as far as it knows.
        token: what says in their rows that it is this leadership.
        clock: the time of the database, by which everything is stored; from when the node leads.
        lost: set when another node has taken over.
        gave_up: called when another node has taken over some groups, with these.
        stays: whether the node goes on when it has released the leadership, and its row with it.
        reopened: called when this node leads on in another session than before.
        confirmed: called each time it turns out that this node still leads.
    """

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        row: NodeRow,
        groups: Iterable[int],
        *,
        times: LeaseTimes | None = None,
        health: StorageHealth | None = None,
        follower: Follower | None = None,
    ) -> None:
        self.row = row
        self.health = health or StorageHealth(clock)
        self.epoch = 0
        self.groups: frozenset[int] = frozenset()
        self.token = secrets.randbits(62) + 1
        self.clock: Clock
        self.lost = asyncio.Event()
        self.gave_up: Callable[[frozenset[int]], None] = lambda _groups: None
        self.stays = False
        self.reopened: Callable[[], None] = lambda: None
        self.confirmed: Callable[[], None] = lambda: None
        self._store = store
        self._clock = clock
        self._time: DatabaseClock | None = None
        self._times = times or LeaseTimes()
        self._follower = follower
        self._window = TrustWindow(self._times)
        self._wanted = frozenset(groups)
        self._session_lock = asyncio.Lock()  # one operation at a time on the session of the store
        self._heartbeats: asyncio.Task[None] | None = None
        self._last_beat = -self._times.beat

    @property
    def is_leading(self) -> bool:
        """Whether this node has led and knows of no other that has led since."""
        return self.epoch > 0 and not self.lost.is_set()

    @property
    def session(self) -> int:
        """The process id of the session that holds the locks; 0: there is none now."""
        return self._store.pid if self._store.is_open else 0

    def trusted(self) -> bool:
        """Say whether the leadership was confirmed recently enough to write and to answer."""
        return self._store.is_open and self._window.trusted(self._clock.monotonic())

    async def acquire(self) -> None:
        """Become the leader, with every epoch of the groups bumped.

        The first call waits until the locks are free. A later one, after storage was unreachable,
        takes them again and bumps, so that no COMMIT of a lost connection can succeed. Groups that
        another node has led since are given up.

        Raises:
            Fenced: another node has led all of them since, or the catalogue; final.
            Unavailable: PostgreSQL is not reachable (only if this node has led before).
        """
        if self.epoch == 0:
            await self._campaign()
            self._heartbeats = spawn(self._keep(), name="leadership")
            return
        async with self._session_lock:
            await self._checked(self._renew())

    async def release(self) -> None:
        """Release the locks, so that another node need not wait. Safe to call twice."""
        await stop(self._heartbeats)
        self._heartbeats = None
        self._window.withdraw()
        if self._store.is_open:
            try:
                async with asyncio.timeout(0.5):
                    await (self._store.unlock() if self.stays else self._store.leave(self.row))
            except (Unavailable, TimeoutError) as error:
                log.info("the locks end with their session: %s", error)
        self._store.close()
        # Who asks storage for something next finds out anew.
        self.health.works(SESSION)

    # -- standby -----------------------------------------------------------------------------

    async def _campaign(self) -> None:
        logged, polls, others_until = 0, 0, 0
        while True:
            try:
                async with self._session_lock:
                    if logged and not self._store.is_open:
                        # Who led knows what PostgreSQL may have lost meanwhile.
                        others_until = self._clock.monotonic() + self._times.precedence
                    is_turn = self._clock.monotonic() >= others_until
                    holder = await self._attempt(may_lead=is_turn)
            except Unavailable as error:
                self.health.failed(SESSION, str(error))
            else:
                self.health.works(SESSION)
                if self.epoch:
                    return
                polls += 1
                # A new leader knows its address when it serves, and tells within a heartbeat.
                is_known = holder is not None and (holder.nats or polls > _POLLS_FOR_ADDRESS)
                if is_known and holder is not None and holder.pid != logged:
                    log.info("standing by: %s leads (session %d)", holder.shown, holder.pid)
                    logged, polls = holder.pid, 0
            await self._pause()

    async def _pause(self) -> None:
        """Wait until it is time for another attempt, or until somebody has reason for one."""
        seconds = self._times.poll / _SECOND * random.uniform(0.8, 1.2)
        if self._follower is None:
            await asyncio.sleep(seconds)
        else:
            self._follower.stands_by()
            await self._follower.pause(seconds)

    async def _attempt(self, *, may_lead: bool = True) -> Holder | None:
        """Try once to become the leader; return who leads the catalogue if that is another node.

        Who may not lead says only that it is there.
        """
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._times.answer / _SECOND):
                if not self._store.is_open:
                    await self._store.open()
                if started - self._last_beat >= self._times.beat:
                    await self._beat()
                    self._last_beat = started
                if not may_lead:
                    return (await self._store.holders((_CATALOGUE,))).get(_CATALOGUE)
                if held := await self._take_all():
                    return await self._end_stalled_holders(held)
                await self._beat()
            # Without timeout: it waits for transactions of the last leader.
            bumped = await self._store.bump(self._wanted, self.token, None, self.row.node)
            self.groups, self.epoch = bumped.groups, bumped.epoch
            self.clock = self._time = DatabaseClock(self._clock, self.health.time)
        except TimeoutError:
            self._store.close()
            raise Unavailable("PostgreSQL does not answer") from None
        except BaseException:
            self._store.close()
            raise
        self._window.confirm(started)
        return None

    async def _take_all(self) -> frozenset[int]:
        """Take the locks of all groups that are wanted, or none; return which others hold."""
        first = await self._store.take((_CATALOGUE,))
        if not first:
            return frozenset((_CATALOGUE,))
        rest = self._wanted - first
        taken = await self._store.take(rest)
        if taken != rest:
            await self._store.give(taken | first)
        return rest - taken

    async def _end_stalled_holders(self, groups: frozenset[int]) -> Holder | None:
        """Return who leads the catalogue; terminate the sessions that have groups and stall."""
        holders = await self._store.holders(groups)
        for holder in set(holders.values()):
            if holder.silence > self._times.stale:
                log.warning(
                    "taking over: %s was silent for %.1f s", holder.shown, holder.silence / _SECOND
                )
                await self._store.end_session(holder.pid)
        return holders.get(_CATALOGUE)

    # -- leading -----------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Confirm the leadership once per heartbeat interval until it is lost."""
        while not self.lost.is_set():
            await asyncio.sleep(self._times.beat / _SECOND)
            try:
                async with self._session_lock:
                    await self._checked(self._confirm())
            except Unavailable as error:
                self.health.failed(SESSION, str(error))
            except Fenced:
                return
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
        async with asyncio.timeout(self._times.answer / _SECOND):
            await self._ensure_locks()
        bumped = await self._store.bump(self.groups, self.token, self.token, self.row.node)
        self._lead_on(bumped.groups, "another node has led since")
        self.epoch = bumped.epoch
        self._window.confirm(started)
        self.confirmed()

    async def _ensure_locks(self) -> None:
        """Make sure that this node has its locks; give up groups that other nodes have led since.

        Raises Fenced or Unavailable.
        """
        if self._store.is_open:
            return
        # Until it is known who has led meanwhile, the new session proves nothing.
        self._window.withdraw()
        former = self._store.pid
        await self._store.open()
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

    def _lead_on(self, groups: frozenset[int], why: str) -> None:
        """Lead only these groups from now on. Raises Fenced where that is no leadership."""
        gone = self.groups - groups
        if _CATALOGUE in gone or not groups:
            raise Fenced(why)
        self.groups = groups
        if gone:
            log.warning("%d of %d lease groups are lost: %s", len(gone), len(gone | groups), why)
            self.gave_up(gone)

    async def _checked(self, check: Awaitable[None]) -> None:
        """Run a check; close the session when it fails, since its state is unknown."""
        try:
            await check
        except TimeoutError:
            self._close_session()
            raise Unavailable("PostgreSQL does not answer") from None
        except Fenced as error:
            self._close_session()
            self._set_lost(str(error))
            raise
        except BaseException:
            self._close_session()
            raise

    def _close_session(self) -> None:
        self._window.withdraw()
        self._store.close()

    def _set_lost(self, why: str) -> None:
        if not self.lost.is_set():
            log.warning("leadership is lost: %s", why)
            self.lost.set()
