"""Writing consumer states to PostgreSQL: one row per consumer, one transaction for many consumers.

A changed state is written within about 50 ms. A double ack (an ack with a reply subject) starts the
next flush at once if none is in progress; the ack is answered after its COMMIT. After a flush the
pause is five times the duration of the flush, at least 50 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from core.errors import Fenced, Unavailable
from core.runtime.clock import Clock
from core.storage.health import waits
from core.storage.interface import StateStore, StateWrite
from core.units import NANOS_PER_SECOND

if TYPE_CHECKING:
    from core.runtime.loop_tick import LoopTick

INTERVAL = 0.05


class Stateful(Protocol):
    """The interface of a consumer for the state writer."""

    def state_write(self) -> StateWrite | None:
        """Return the consumer's state to write now.

        None: the consumer is closed, or its state is not stored.
        """
        ...


class StateWriter:
    """Writes the states of all consumers that this node leads.

    Args:
        store: Writes states to PostgreSQL.
        loop_tick: Flushes the output of sessions after double acks were answered.
        clock: Measures the duration of flushes.
        deposed: Called with the reason if another node leads.

    Attributes:
        flushes: Count of successful flushes.
    """

    def __init__(
        self, store: StateStore, loop_tick: LoopTick, clock: Clock, deposed: Callable[[str], None]
    ) -> None:
        self._store = store
        self._loop_tick = loop_tick
        self._clock = clock
        self._deposed = deposed
        self._dirty: dict[Stateful, None] = {}
        self._waiting: list[tuple[Stateful, Callable[[], None]]] = []
        # Callbacks that wait for the flush in progress.
        self._flushing: list[tuple[Stateful, Callable[[], None]]] = []
        self._urgent = asyncio.Event()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self.flushes = 0

    def mark(self, consumer: Stateful) -> None:
        """Schedule the writing of a consumer's state, within about 50 ms."""
        if not self._dirty:
            self._wake.set()
            self._idle.clear()
        self._dirty[consumer] = None

    def sync(self, consumer: Stateful, done: Callable[[], None]) -> None:
        """Write this consumer's state in the next flush, and call `done` after its COMMIT."""
        self.mark(consumer)
        self._waiting.append((consumer, done))
        self._urgent.set()

    async def written(self, consumers: Iterable[Stateful]) -> None:
        """Wait until the present states of the given consumers are committed."""
        left = set(consumers)
        done = asyncio.Event()

        def wrote(consumer: Stateful) -> None:
            left.discard(consumer)
            if not left:
                done.set()

        for consumer in list(left):
            self.sync(consumer, partial(wrote, consumer))
        if left:
            await done.wait()

    def forget(self, consumers: Container[Stateful]) -> None:
        """Discard pending writes and callbacks of consumers that another node leads."""
        self._dirty = {each: None for each in self._dirty if each not in consumers}
        for waiting in (self._waiting, self._flushing):
            waiting[:] = [pair for pair in waiting if pair[0] not in consumers]

    async def run(self) -> None:
        """Write the marked states about every 50 ms, and at once after `sync`, until cancelled."""
        pause = INTERVAL
        while True:
            await self._wake.wait()
            await self._gather(pause)
            started = self._clock.monotonic()
            await self.flush()
            pause = max(INTERVAL, 5 * (self._clock.monotonic() - started) / NANOS_PER_SECOND)

    async def _gather(self, pause: float) -> None:
        """Wait `pause` seconds for more changes, or until a callback waits for the flush."""
        try:
            async with asyncio.timeout(pause):
                await self._urgent.wait()
        except TimeoutError:
            pass

    async def flush(self) -> None:
        """Write all states marked so far, and call the callbacks of the written consumers.

        Raises no storage errors. While PostgreSQL does not answer, the states stay marked. If the
        epoch check fails (Fenced), `deposed` is called.
        """
        dirty, self._dirty = self._dirty, {}
        waiting, self._waiting = self._waiting, []
        self._flushing = waiting
        self._wake.clear()
        self._urgent.clear()
        writes = [w for w in (consumer.state_write() for consumer in dirty) if w is not None]
        try:
            written = await self._store.write_states(writes) if writes else set()
        except Fenced as error:
            self._idle.set()
            self._deposed(str(error))
            return
        except Unavailable as error:
            waits.warning("consumer states wait for storage: %s", error)
            self._give_back(dirty, waiting)
            await asyncio.sleep(INTERVAL * 4)
            return
        self.flushes += 1
        if self._closed:
            return
        lost = self._lost(dirty, written) if len(written) < len(writes) else {}
        for consumer, done in waiting:
            if consumer not in lost:
                done()
        if waiting:
            self._loop_tick.run()
        if lost:
            # The epoch was increased since: by this node after a lost connection (the next flush
            # uses the new epoch), or by another node (the group committer detects it).
            # Or the row of a consumer is missing whose deletion was not confirmed.
            self._give_back(lost, [pair for pair in waiting if pair[0] in lost])
            await asyncio.sleep(INTERVAL)
        elif not self._dirty:
            self._idle.set()

    def _lost(
        self, dirty: dict[Stateful, None], written: set[tuple[int, int]]
    ) -> dict[Stateful, None]:
        """Return the consumers that still exist and whose state was not written."""
        writes = ((consumer, consumer.state_write()) for consumer in dirty)
        return {
            consumer: None
            for consumer, w in writes
            if w is not None and (w.stream, w.consumer) not in written
        }

    def _give_back(
        self, dirty: dict[Stateful, None], waiting: list[tuple[Stateful, Callable[[], None]]]
    ) -> None:
        self._dirty = dirty | self._dirty
        self._waiting = waiting + self._waiting
        self._wake.set()
        if waiting:
            self._urgent.set()

    def close(self) -> None:
        """Stop calling callbacks, so that no double ack is answered any more.

        Consumers that stop with the node write no state. Without `close` their pending double acks
        would be answered although the state is not stored.
        """
        self._closed = True

    async def drain(self) -> None:
        """Write all marked states; return when no state is marked and no write is in progress."""
        while not self._idle.is_set():
            self._urgent.set()
            self._wake.set()
            await self._idle.wait()
