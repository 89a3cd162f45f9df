"""Consumer states on their way to storage: one row per consumer, coalesced.

A changed state is written at most 50 ms late; a double ack is written by the next flush, which
starts at once when none is in flight, and is answered after COMMIT. Flushing never takes more
than a fifth of the time.
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

if TYPE_CHECKING:
    from core.runtime.turn import Turn

INTERVAL = 0.05


class Stateful(Protocol):
    """What the writer knows of a consumer."""

    def state_write(self) -> StateWrite | None:
        """Return the state to write now (None: the consumer is gone)."""
        ...


class StateWriter:
    """Writes the states of all consumers that this node leads."""

    def __init__(
        self, store: StateStore, turn: Turn, clock: Clock, deposed: Callable[[str], None]
    ) -> None:
        self._store = store
        self._turn = turn
        self._clock = clock
        self._deposed = deposed
        self._dirty: dict[Stateful, None] = {}
        self._waiting: list[tuple[Stateful, Callable[[], None]]] = []
        self._flushing: list[tuple[Stateful, Callable[[], None]]] = []  # who waits for this flush
        self._urgent = asyncio.Event()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self.flushes = 0

    def mark(self, consumer: Stateful) -> None:
        """Write this consumer's state soon."""
        if not self._dirty:
            self._wake.set()
            self._idle.clear()
        self._dirty[consumer] = None

    def sync(self, consumer: Stateful, done: Callable[[], None]) -> None:
        """Write this consumer's state with the next flush, and call `done` after COMMIT."""
        self.mark(consumer)
        self._waiting.append((consumer, done))
        self._urgent.set()

    async def written(self, consumers: Iterable[Stateful]) -> None:
        """Return when the states that consumers have now are in storage."""
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
        """Write and answer nothing more of consumers that another node leads now."""
        self._dirty = {each: None for each in self._dirty if each not in consumers}
        for waiting in (self._waiting, self._flushing):
            waiting[:] = [pair for pair in waiting if pair[0] not in consumers]

    async def run(self) -> None:
        """Flush until cancelled."""
        pause = INTERVAL
        while True:
            await self._wake.wait()
            await self._gather(pause)
            started = self._clock.monotonic()
            await self.flush()
            pause = max(INTERVAL, 5 * (self._clock.monotonic() - started) / 1e9)

    async def _gather(self, pause: float) -> None:
        """Wait for more changes, unless somebody waits for this flush."""
        try:
            async with asyncio.timeout(pause):
                await self._urgent.wait()
        except TimeoutError:
            pass

    async def flush(self) -> None:
        """Write everything that is dirty now."""
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
            self._turn.run()
        if lost:
            # An epoch was bumped since: by this node after a lost connection, in which case the
            # fresh epoch is taken by the next flush, or by another node, which the lane finds out.
            # Or the row of a consumer is gone whose deletion was not confirmed; the others go on.
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
        """Answer nobody any more: consumers that end with the node are not gone from storage."""
        self._closed = True

    async def drain(self) -> None:
        """Write what is left; return when nothing is dirty and no write is in flight."""
        while not self._idle.is_set():
            self._urgent.set()
            self._wake.set()
            await self._idle.wait()
