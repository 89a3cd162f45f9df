"""The session with PostgreSQL that holds the locks of a node's lease groups, and its heartbeats.

    open --- locks acquired, epochs raised ---> leases --- another node raised some ---> those lost
     ^                                            | session lost: not trusted, lock them again
     +---------- all released, or lost <----------+

*Rules.* A lease group is a set of streams with one owner, and each group has an advisory lock. One
session holds the locks of all groups of a node, and one heartbeat confirms them. The locks only
save work; the epoch in each stream's head row decides. Epochs are raised in one transaction before
any other row is read, so no write of an earlier owner can be committed later. Each raise stores the
token of this session in the rows of its groups. While a row has that token, no other node has owned
the group since. The number of the raise is the fencing token (`core.node.ownership.state`). Times
are those of the database, measured with each heartbeat (`core.storage.database_time`).

*Failure.* While PostgreSQL is unreachable no node owns a group: `trusted` returns False within
seconds, and `renew` raises Unavailable. Afterwards the session acquires the locks again. Leases
whose rows still have its token are valid; the others are lost.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from core.errors import Unavailable
from core.node.lease_times import LeaseTimes
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.state import (
    DIRECTORY,
    LeasesAcquired,
    LeasesLost,
    LeasesRenewed,
    StorageAway,
    StorageBack,
)
from core.node.trust_window import TrustWindow
from core.runtime.clock import Clock
from core.runtime.subscribers import Subscribers
from core.runtime.tasks import spawn, stop
from core.storage.database_time import DatabaseClock
from core.storage.health import SESSION, SPACE, StorageHealth
from core.storage.leases import ForeignLocks, Holder, LeaseStore, NodeRow, PeerRow
from core.units import NANOS_PER_SECOND, LeaseGroup

log = logging.getLogger(__name__)


class PeerFollower(Protocol):
    """The part of a node that tracks the other nodes of its database (`core.node.peers.Peers`)."""

    def on_joined(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call `call` whenever a link to another node is established.

        Returns a function that ends the subscription.
        """
        ...

    def links(self) -> tuple[str, ...]:
        """Return the names of the nodes with an established link."""
        ...

    def met(self, rows: Sequence[PeerRow]) -> None:
        """Process the rows of all nodes of the database; called after each heartbeat."""
        ...


class LeaseSession:
    """The session that holds the lease locks of one node. Life cycle: `open`, then `release`.

    Args:
        store: The session with PostgreSQL.
        clock: The clock of the machine.
        row: The row that describes this node to other nodes.
        ownership: Receives the events of leases, and has the fencing tokens of this node.
        times: The intervals of leases; None: the defaults of `LeaseTimes`.
        health: Receives failures and recoveries of storage.
        follower: Receives the rows of the other nodes; None: they are not read.
        database_clock: Clock of stored times; None: a clock that follows the database.

    Attributes:
        row: The row that describes this node to other nodes.
        health: The state of storage.
        token: Random number of this session, stored in the rows of leases that it acquires.
        confirmed: Called each time PostgreSQL has confirmed that the session holds its locks.
        beating: Called with the row before each heartbeat, so that subscribers can fill it.
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
        """The lease groups whose lease this node has acquired and has not found lost."""
        return frozenset(self._ownership.ownership.leases)

    @property
    def clock(self) -> Clock:
        """The clock of stored times, which follows the database's clock; available after `open`."""
        found = self._database_clock or self._time
        assert found is not None, "the session was never opened"
        return found

    @property
    def session(self) -> int:
        """Process id of the PostgreSQL session that holds the locks; 0 while there is none."""
        return self._store.pid if self._store.is_open else 0

    def trusted(self) -> bool:
        """Return whether the last confirmed heartbeat is recent enough to rely on the leases.

        The limit is 4 s by default (`core.node.trust_window`).
        """
        return self._store.is_open and self._window.trusted(self._clock.monotonic())

    def may_acquire(self) -> bool:
        """Return whether this node may acquire the locks of free groups.

        False for 3 s by default after an outage: the former owners have precedence.
        """
        return self._clock.monotonic() >= self._precedence_until

    async def open(self) -> None:
        """Open the session, and confirm it with a heartbeat every second until `release`.

        Raises Unavailable if PostgreSQL does not answer.
        """
        async with self._session_lock:
            await self._checked(self._confirm())
        self.health.works(SESSION)
        self._time = DatabaseClock(self._clock, self.health.time)
        self._heartbeats = spawn(self._keep(), name="leadership")

    async def acquire(self, groups: Collection[LeaseGroup]) -> frozenset[LeaseGroup]:
        """Lock the lease groups in `groups` that are free, and raise the epochs of their streams.

        Returns the acquired groups. Raises Unavailable if PostgreSQL does not answer.
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
        """Release the locks of groups whose streams this node no longer serves.

        Raises Unavailable if PostgreSQL does not answer.
        """
        async with self._session_lock:
            if self._store.is_open:
                await self._checked(self._in_time(self._store.release(groups)))

    async def survey(self, groups: Collection[LeaseGroup]) -> Mapping[LeaseGroup, Holder]:
        """Return the holder of the lock of each locked group in `groups`.

        Ends the sessions of holders without a heartbeat for 4 s (default). Logs each session that
        holds such locks without being a node, once. Raises Unavailable if PostgreSQL does not
        answer.
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
        """Log each session that holds jetgate's locks without being a node; once per session."""
        for each in found:
            if (each.role, each.pid) not in self._foreign:
                what = "advisory locks of jetgate, and is no node: leading goes on without them"
                log.warning("%s %s", each.shown, what)
        self._foreign = frozenset((each.role, each.pid) for each in found)

    async def renew(self) -> None:
        """Recover the leases after an outage, in a session that holds the locks.

        Epochs are raised, so that no COMMIT of a lost connection can succeed. Leases of groups that
        another node has owned since are lost. Raises Unavailable if PostgreSQL does not answer.
        """
        async with self._session_lock:
            await self._checked(self._renew())

    async def release(self) -> None:
        """Release the locks, so that another node can acquire them at once, and close the session.

        May be called twice.
        """
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
        # The next request to storage determines its state again.
        self.health.works(SESSION)

    async def _leave(self) -> None:
        """Delete the row of this node and release its locks; nothing if no session was opened."""
        if not self._store.pid:
            return
        if not self._store.is_open:  # the last operation was interrupted
            await self._store.open()
        await self._store.leave(self.row)

    # -- leading -----------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Send a heartbeat once per interval, and at once when a node has joined."""
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
        """Ensure that this session holds the locks of the node's groups.

        Does nothing if the session is open. A new session acquires the locks again, and drops the
        leases of groups that another node has owned since. Raises Unavailable if it cannot.
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
        """Drop the leases of all groups but these."""
        self._ownership.post(LeasesLost(self.groups - groups, why))

    async def _in_time(self, work: Awaitable[None]) -> None:
        async with asyncio.timeout(self._times.answer / NANOS_PER_SECOND):
            await work

    async def _checked(self, check: Awaitable[None]) -> None:
        """Await an operation on the session; if it fails, close the session: its state is unknown.

        Raises Unavailable on a timeout; re-raises other errors.
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
