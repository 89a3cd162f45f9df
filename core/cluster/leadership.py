"""Leadership of one node: campaign, keep, notice the loss.

    standby --- lock taken, epochs bumped ---> leading --- another node bumped ---> lost
       ^ wait; end the session of a stalled holder  | session gone: not trusted, take it again

*Rules.* The lock is a hint, the epochs are the truth. They are bumped in one transaction before
anything is read, so that no write of an earlier leader can land later. Each bump leaves a token
of ours beside the catalogue's epoch: while it stands there, nobody has led since.

*Failure.* While PostgreSQL is away nobody leads: `trusted` ends within seconds, `acquire` raises
Unavailable. When it is back the lock is taken again; the token tells whether we are still the
leader. `lost` is final: the node must start anew as a standby.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable

from core.cluster.lease import LeaseTimes, TrustWindow
from core.errors import Fenced, Unavailable
from core.runtime.clock import Clock
from core.runtime.tasks import spawn, stop
from core.storage.leases import Holder, LeaseStore, NodeRow

log = logging.getLogger("jetgate.cluster")

_SECOND = 1_000_000_000


class Leadership:
    """The leadership of one node.

    Attributes:
        row: what others see of this node; its addresses may be filled in later.
        epoch: the catalogue's epoch under which we lead; 0 before we do.
        lost: set when another node has taken over.
    """

    def __init__(
        self, store: LeaseStore, clock: Clock, row: NodeRow, *, times: LeaseTimes | None = None
    ) -> None:
        self.row = row
        self.epoch = 0
        self.lost = asyncio.Event()
        self._store = store
        self._clock = clock
        self._times = times or LeaseTimes()
        self._window = TrustWindow(self._times)
        self._token = secrets.randbits(62) + 1
        self._turn = asyncio.Lock()  # one question at a time on the lock's session
        self._keeper: asyncio.Task[None] | None = None
        self._away = False
        self._beaten = -self._times.beat

    @property
    def is_leading(self) -> bool:
        """Whether we have led and nobody has since, as far as we know."""
        return self.epoch > 0 and not self.lost.is_set()

    def trusted(self) -> bool:
        """Whether our leadership was confirmed recently enough to write and to answer."""
        return self._store.is_open and self._window.trusted(self._clock.monotonic())

    async def acquire(self) -> None:
        """Lead: return with every epoch bumped.

        The first time this waits until the lock is free. Later, after storage was away, it makes
        sure of the lock and bumps again, so that no COMMIT of a lost connection can still land.

        Raises:
            Fenced: another node has led since; final.
            Unavailable: PostgreSQL is away (only when we have led before).
        """
        if self.epoch == 0:
            await self._campaign()
            self._keeper = spawn(self._keep(), name="leadership")
            return
        async with self._turn:
            await self._checked(self._renew())

    async def release(self) -> None:
        """Let go of the lock, so that another node need not wait. Safe to call twice."""
        await stop(self._keeper)
        self._keeper = None
        self._window.withdraw()
        if self._store.is_open:
            try:
                async with asyncio.timeout(0.5):
                    await self._store.leave(self.row)
            except (Unavailable, TimeoutError) as error:
                log.info("the lock ends with its session: %s", error)
        self._store.close()

    # -- standby -----------------------------------------------------------------------------

    async def _campaign(self) -> None:
        told = 0
        while True:
            try:
                async with self._turn:
                    holder = await self._attempt()
            except Unavailable as error:
                self._tell_away(error)
            else:
                self._tell_back()
                if self.epoch:
                    return
                if holder is not None and holder.pid != told:
                    log.info("standing by: %s leads (session %d)", holder.node, holder.pid)
                    told = holder.pid
            pause = self._times.poll / _SECOND
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))

    async def _attempt(self) -> Holder | None:
        """Try once to lead; return who does, if it is not us."""
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._times.answer / _SECOND):
                if not self._store.is_open:
                    await self._store.open()
                if started - self._beaten >= self._times.beat:
                    await self._store.beat(self.row)
                    self._beaten = started
                if not await self._store.take():
                    return await self._judge()
                await self._store.beat(self.row)
            # This one waits for what the last leader has in flight.
            self.epoch = await self._store.bump(self._token, None)
        except TimeoutError:
            self._store.close()
            raise Unavailable("PostgreSQL does not answer") from None
        except BaseException:
            self._store.close()
            raise
        self._window.confirm(started)
        log.info("leading since epoch %d", self.epoch)
        return None

    async def _judge(self) -> Holder | None:
        """Look at the holder of the lock and end its session if it is stalled."""
        holder = await self._store.holder()
        if holder is not None and holder.silence > self._times.stale:
            log.warning(
                "taking over: %s was silent for %.1f s", holder.node, holder.silence / _SECOND
            )
            await self._store.end_session(holder.pid)
        return holder

    # -- leading -----------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Confirm the leadership once a second until it is lost."""
        while not self.lost.is_set():
            await asyncio.sleep(self._times.beat / _SECOND)
            try:
                async with self._turn:
                    await self._checked(self._confirm())
            except Unavailable as error:
                self._tell_away(error)
            except Fenced:
                return
            else:
                self._tell_back()

    async def _confirm(self) -> None:
        started = self._clock.monotonic()
        async with asyncio.timeout(self._times.answer / _SECOND):
            await self._hold()
            await self._store.beat(self.row)
        self._window.confirm(started)

    async def _renew(self) -> None:
        started = self._clock.monotonic()
        async with asyncio.timeout(self._times.answer / _SECOND):
            await self._hold()
        self.epoch = await self._store.bump(self._token, self._token)
        self._window.confirm(started)

    async def _hold(self) -> None:
        """Make sure that the lock is ours, and has been nobody else's."""
        if self._store.is_open:
            return
        former = self._store.pid
        await self._store.open()
        if not await self._store.take():
            holder = await self._store.holder()
            if holder is None:
                raise Unavailable("the lock is between two holders")
            if holder.pid != former:
                raise Fenced(f"{holder.node or 'another node'} holds the lock")
            # PostgreSQL has not noticed yet that our last session is gone.
            await self._store.end_session(former)
            raise Unavailable("waiting for the end of our last session")
        if await self._store.token() != self._token:
            raise Fenced("another node has led since")

    async def _checked(self, check: Awaitable[None]) -> None:
        """Run a check; whatever breaks it leaves no session in an unknown state."""
        try:
            await check
        except TimeoutError:
            self._drop()
            raise Unavailable("PostgreSQL does not answer") from None
        except Fenced as error:
            self._drop()
            self._lose(str(error))
            raise
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        self._window.withdraw()
        self._store.close()

    def _lose(self, why: str) -> None:
        if not self.lost.is_set():
            log.warning("leadership is lost: %s", why)
            self.lost.set()

    def _tell_away(self, error: Exception) -> None:
        if not self._away:
            log.warning("no word from PostgreSQL: %s", error)
            self._away = True

    def _tell_back(self) -> None:
        if self._away:
            log.info("PostgreSQL answers again")
            self._away = False
