"""The session with PostgreSQL that holds the locks of lease groups, and its heartbeats.

    open --- locks acquired, epochs raised ---> leases --- another node raised some ---> those lost
     ^                                            | session gone: not trusted, acquire them again
     +---------- all released, or lost <----------+

*Rules.* Each lease group has an advisory lock. One session holds the locks of all groups of a node,
and one heartbeat confirms them. The locks are a hint, the epochs are the truth: they are raised in
one transaction before anything is read, so no write of an earlier owner can be committed later.
Each raise stores the token of this session in the rows of its groups. While that token is
there, no other node has owned the group since. The number of the raise is the fencing
token (`core.node.ownership.state`). Times come from the database, measured with each heartbeat
(`core.storage.database_time`).

*Failure.* While PostgreSQL is unreachable no node owns anything: `trusted` becomes False within
seconds and `renew` raises Unavailable. Afterwards the session acquires the locks again; the tokens
show which leases it still has, and the others are lost.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from core.errors import Unavailable
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.state import (
    DIRECTORY,
    LeasesAcquired,
    LeasesLost,
    LeasesRenewed,
    StorageAway,
    StorageBack,
)
from core.node.trust_window import LeaseTimes, TrustWindow
from core.runtime.clock import Clock
from core.runtime.subscribers import Subscribers
from core.runtime.tasks import spawn, stop
from core.storage.database_time import DatabaseClock
from core.storage.health import SESSION, SPACE, StorageHealth
from core.storage.leases import ForeignLocks, Holder, LeaseStore, NodeRow, PeerRow
from core.units import NANOS_PER_SECOND, LeaseGroup

log = logging.getLogger(__name__)


class PeerFollower(Protocol):
    """The part of a node that follows the other nodes of its database."""

    def on_joined(self, call: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for new links to nodes unknown to `met`; return its removal."""
        ...

    def links(self) -> tuple[str, ...]:
        """Return the names of the nodes that are linked now."""
        ...

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Receive the rows of all nodes, with each heartbeat."""
        ...


class LeaseSession:
    """The session of one node. Life cycle: `open`, then `release`.

    Args:
        store: The session with PostgreSQL.
        clock: The clock of the machine.
        row: The row of this node, for other nodes to read.
        ownership: Receives the events of leases, and has the fencing tokens of this node.
        times: The intervals of leases.
        health: Receives failures and recoveries of storage.
        follower: Follows the rows of the other nodes; None: they are not read.
        database_clock: Replaces the clock that follows the database; None: no replacement.

    Attributes:
        row: The row of this node, for other nodes to read.
        health: The state of storage.
        token: The token of this session, stored in the rows of leases that it acquires.
        confirmed: Called each time the session is confirmed.
        beating: Called with the row before each heartbeat.
    """

    def __init__(
        self,
        store: LeaseStore,
        clock: Clock,
        row: NodeRow,
        ownership: Dispatch[Any],
        *,
        times: LeaseTimes | None = None,
        health: StorageHealth | None = None,
        follower: PeerFollower | None = None,
        database_clock: Clock | None = None,
    ) -> None:
        self.row = row
        self.health = health or StorageHealth(clock)
        self.token = secrets.randbits(62) + 1
        self.confirmed: Subscribers[[]] = Subscribers()
        self.beating: Subscribers[[NodeRow]] = Subscribers()
        self._ownership = ownership
        self._database_clock = database_clock
        self._store = store
        self._clock = clock
        self._time: DatabaseClock | None = None
        self._times = times or LeaseTimes()
        self._follower = follower
        self._window = TrustWindow(self._times)
        self._session_lock = asyncio.Lock()  # one operation at a time on the session of the store
        self._heartbeats: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._unfollow = None if follower is None else follower.on_joined(self._hurry.set)
        # Until then the node that led when storage went away has precedence.
        self._precedence_until = 0
        self._foreign: frozenset[tuple[str, int]] = frozenset()  # (role, pid) named in the log

    @property
    def groups(self) -> frozenset[LeaseGroup]:
        """The groups whose leases this node has, as far as it knows."""
        return frozenset(self._ownership.ownership.leases)

    @property
    def clock(self) -> Clock:
        """The clock of stored times, which follows the database. Available from `open` on."""
        found = self._database_clock or self._time
        assert found is not None, "the session was never opened"
        return found

    @property
    def session(self) -> int:
        """Process id of the session that holds the locks; 0 if there is none now."""
        return self._store.pid if self._store.is_open else 0

    def trusted(self) -> bool:
        """Return whether the leases were confirmed recently enough to write and to answer."""
        return self._store.is_open and self._window.trusted(self._clock.monotonic())

    def may_acquire(self) -> bool:
        """Return whether the owners from before an outage have no precedence any more."""
        return self._clock.monotonic() >= self._precedence_until

    async def open(self) -> None:
        """Open a session, and confirm it from now on. Raises Unavailable."""
        async with self._session_lock:
            await self._checked(self._confirm())
        self.health.works(SESSION)
        self._time = DatabaseClock(self._clock, self.health.time)
        self._heartbeats = spawn(self._keep(), name="leadership")

    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]:
        """Acquire those of some groups whose locks are free, and raise their epochs; return them.

        Raises Unavailable.
        """
        async with self._session_lock:
            taken: frozenset[LeaseGroup] = frozenset()

            async def lock() -> None:
                nonlocal taken
                self._require_session()
                taken = await self._store.acquire(groups)

            async def bump() -> None:
                nonlocal taken
                bumped = await self._store.bump(taken, self.token, None, self.row.node)
                taken = bumped.groups
                self._ownership.post(LeasesAcquired(dict.fromkeys(taken, bumped.fencing_token)))

            await self._checked(self._in_time(lock()))
            if taken:
                await self._checked(bump())  # without a timeout: it waits for transactions
        return taken

    async def release_groups(self, groups: Collection[LeaseGroup]) -> None:
        """Release the locks of groups that this node has drained. Raises Unavailable."""
        async with self._session_lock:
            if self._store.is_open:
                await self._checked(self._in_time(self._store.release(groups)))

    async def survey(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, Holder]:
        """Return the holders of the locks of groups, and end the sessions of holders that stall.

        Other sessions with such locks are named in the log, once. Raises Unavailable.
        """
        found: Mapping[LeaseGroup, Holder] = {}

        async def read_holders() -> None:
            nonlocal found
            self._require_session()
            found = await self._store.holders(groups)
            for holder in set(found.values()):
                if holder.silence > self._times.stale and holder.pid != self._store.pid:
                    silence = holder.silence / NANOS_PER_SECOND
                    log.warning("taking over: %s was silent for %.1f s", holder.shown, silence)
                    await self._store.end_session(holder.pid)
            self._warn(await self._store.foreign())

        async with self._session_lock:
            await self._checked(self._in_time(read_holders()))
        return found

    def _warn(self, found: Sequence[ForeignLocks]) -> None:
        """Log each session, other than nodes, that holds jetgate's locks; once per session."""
        for each in found:
            if (each.role, each.pid) not in self._foreign:
                what = "advisory locks of jetgate, and is no node: leading goes on without them"
                log.warning("%s %s", each.shown, what)
        self._foreign = frozenset((each.role, each.pid) for each in found)

    async def renew(self) -> None:
        """Recover the leases after an outage, in a session that holds the locks.

        Epochs are raised, so that no COMMIT of a lost connection can succeed. Groups that another
        node has owned since are lost. Raises Unavailable.
        """
        async with self._session_lock:
            await self._checked(self._renew())

    async def release(self) -> None:
        """Release the locks, so that another node need not wait. Safe to call twice."""
        await stop(self._heartbeats)
        self._heartbeats = None
        if self._unfollow is not None:
            self._unfollow()
            self._unfollow = None
        self._window.withdraw()
        self._ownership.post(LeasesLost(self.groups))
        try:
            async with asyncio.timeout(0.5):
                await self._leave()
        except (Unavailable, TimeoutError) as error:
            log.info("the locks end with their session: %s", error)
        self._store.close()
        # A later request to storage finds its state out again.
        self.health.works(SESSION)

    async def _leave(self) -> None:
        """Delete the row of this node and release its locks, unless there never was a session."""
        if not self._store.pid:
            return
        if not self._store.is_open:  # the last operation was interrupted
            await self._store.open()
        await self._store.leave(self.row)

    # -- leading -----------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Confirm the session once per heartbeat interval, and whenever a node has joined."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._times.beat / NANOS_PER_SECOND):
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
        why = f"PostgreSQL has not answered for {times.late / NANOS_PER_SECOND:g} s"
        was_open = self._store.is_open
        in_time = self.health.slow(SESSION, times.late / NANOS_PER_SECOND, why)
        try:
            async with asyncio.timeout(times.answer / NANOS_PER_SECOND):
                await self._ensure_locks()
                await self._beat()
                if self.health.fails(SPACE) and await self._store.has_space():
                    self.health.works(SPACE)
        finally:
            in_time()
        self._window.confirm(started)
        self.confirmed()
        if not was_open:
            self._ownership.post(StorageBack(self.groups | {DIRECTORY}))

    async def _beat(self) -> None:
        time = self.health.time
        self.row.outages = self.health.history
        self.row.clock_ahead = time.ahead if time.is_known else None
        self.row.lease_groups = len(self.groups)
        self.beating(self.row)
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
        self._keep_only(bumped.groups, "another node has led since")
        kept = bumped.groups & self.groups  # some may have been lost to a peer in the meantime
        self._ownership.post(LeasesRenewed(dict.fromkeys(kept, bumped.fencing_token)))
        self._window.confirm(started)
        self.confirmed()

    async def _ensure_locks(self) -> None:
        """Ensure that this node has its locks; give up groups that other nodes have owned since.

        Raises Unavailable.
        """
        if self._store.is_open:
            return
        # A new session proves nothing until the owners since the outage are known.
        self._window.withdraw()
        former = self._store.pid
        await self._store.open()
        if former:
            # The former owner knows which commits PostgreSQL may have lost.
            self._precedence_until = self._clock.monotonic() + self._times.precedence
        taken = await self._store.acquire(self.groups)
        why = "another node has led since"
        if missing := self.groups - taken:
            holders = await self._store.holders(missing)
            if any(holder.pid == former for holder in holders.values()):
                # PostgreSQL has not yet noticed the end of this node's last session.
                await self._store.end_session(former)
                raise Unavailable("waiting for the end of our last session")
            if len(holders) < len(missing):
                raise Unavailable("a lock is between two holders")
            others = sorted({holder.node or "another node" for holder in holders.values()})
            why = f"locks are held by {', '.join(others)}"
        tokens = await self._store.tokens(taken)
        kept = frozenset(group for group in taken if tokens.get(group) == self.token)
        if kept != taken:
            await self._store.release(taken - kept)
        self._keep_only(kept, why)

    def _require_session(self) -> None:
        if not self._store.is_open:
            raise Unavailable("there is no session with PostgreSQL")

    def _keep_only(self, groups: frozenset[LeaseGroup], why: str) -> None:
        """Give up the leases of all groups but these."""
        self._ownership.post(LeasesLost(self.groups - groups, why))

    async def _in_time(self, work: Awaitable[None]) -> None:
        async with asyncio.timeout(self._times.answer / NANOS_PER_SECOND):
            await work

    async def _checked(self, check: Awaitable[None]) -> None:
        """Run a check; close the session if it fails, since its state is unknown then.

        Raises Unavailable on a timeout; passes on other errors.
        """
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
        self._ownership.post(StorageAway(self.groups | {DIRECTORY}))
