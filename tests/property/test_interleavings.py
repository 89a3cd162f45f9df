"""One stream, many clients at once, storage that answers late: memory and rows must agree after.

Every read and every commit takes some ticks of the event loop, before storage does it and after,
and nothing here depends on the time of day: what a seed does it does again.
"""

# Subject: purge, random histories

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from core.errors import ApiError
from core.jetstream.log.subjects import last_by_subject, next_by_subject
from core.model.api_errors import api_error
from core.units import NANOS_PER_SECOND
from tests.support.memory_store import MemoryStore, hit, is_due
from tests.support.streams import StreamBench, saved
from tests.unit.rules.stream.support import block, config

ANCHOR = b"anchor"
"""A subject that has a message from the first to the last turn."""
_READS = (
    "range", "points", "sizes_from", "subjects", "sizes", "expiry_rows", "last_before", "newest",
    "totals", "next_of", "names", "first_at", "delete_below", "delete_rows", "delete_purged",
)  # fmt: skip
_OPERATIONS = 40

KEEPING: dict[str, Any] = {"allow_msg_ttl": True}
KINDS: dict[str, dict[str, Any]] = {
    "log": {},
    "last": {"max_msgs_per_subject": 1},
    "history": {"max_msgs_per_subject": 3},
    "expiring log": KEEPING,
    "expiring history": {**KEEPING, "max_msgs_per_subject": 2},
    "marking log": {**KEEPING, "subject_delete_marker_ttl": NANOS_PER_SECOND},
}


class _LateStore(MemoryStore):
    """Storage that finishes purges, and knows which reads are under way."""

    under_way = 0
    waiting: list[Callable[[], None]]

    def when_settled(self, then: Callable[[], None]) -> None:
        if self.under_way:
            self.waiting.append(then)
        else:
            then()

    async def delete_purged(self, stream: int, partition: int, ids_since: int | None) -> None:
        for filters, up_to in self.purges:
            gone = [s for s, row in self.rows.items() if s <= up_to and hit(filters, row.subject)]
            self._delete(gone, ids_since)
        self.purges.clear()


class Crowd:
    """Clients, the group committer and the janitor of one stream."""

    def __init__(self, settings: dict[str, Any], seed: int) -> None:
        self.rng = random.Random(seed)
        self.settings = settings
        self.bench = StreamBench(config(**settings), tail_bytes=self.rng.choice([1, 2000, 1 << 20]))
        self.store = self.bench.store
        self.store.__class__ = _LateStore
        self.store.waiting = []  # type: ignore[attr-defined]  # as _LateStore has it
        for name in _READS:
            setattr(self.store, name, self._late(getattr(self.store, name)))
        self.taken = asyncio.Event()
        self.bench.runner.services.committer.await_commit = self._settled  # type: ignore[method-assign]  # a group committer that is busy
        self.busy = 0
        self.differences: list[tuple[list[int], list[int]]] = []

    async def _settled(self) -> None:
        await self.taken.wait()

    async def pass_loop_ticks(self) -> None:
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)

    def _late(self, work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        store: Any = self.store

        async def late(*request: Any) -> Any:
            store.under_way += 1
            await self.pass_loop_ticks()
            found = await work(*request)
            await self.pass_loop_ticks()
            store.under_way -= 1
            if not store.under_way:
                then, store.waiting = store.waiting, []
                for forget in then:
                    asyncio.get_running_loop().call_soon(forget)
            return found

        return late

    # -- the node ----------------------------------------------------------------------------

    async def committer(self) -> None:
        runner = self.bench.runner
        self.taken.set()
        while self.busy or runner.has_work():
            await asyncio.sleep(0)
            plan = await runner.next_plan(16, self.bench.clock.now())
            if plan is None:
                continue
            self.taken.clear()
            await self.pass_loop_ticks()
            if plan.changes_head and self.rng.random() < 0.05:
                runner.fail(plan, api_error("JSStreamStoreFailed", err="made up"))
            else:
                if plan.changes_head:
                    self.store.commit(plan)
                await self.pass_loop_ticks()
                runner.emit(plan)
                self.compare()
            self.taken.set()

    def compare(self) -> None:
        """Rows and records say what readers of the stream see."""
        runner, now = self.bench.runner, self.bench.clock.now()
        there = [
            seq
            for seq, row in sorted(self.store.rows.items())
            if seq <= runner.machine.last_seq
            and runner.log.is_live(seq)
            and not is_due(runner.config, row.ts, row.headers, now)
        ]
        shown = self.store.shown(runner.config, now)
        if shown != there:
            self.differences.append((shown, there))

    async def sweep(self) -> None:
        while self.busy > 1:
            for _ in range(self.rng.randrange(30)):
                await asyncio.sleep(0)
            await self.bench.janitor.finish(self.bench.runner.log)

    # -- clients -----------------------------------------------------------------------------

    async def publish(self) -> None:
        for _ in range(self.rng.choice((1, 1, 5, 20))):
            headers = {}
            if self.rng.random() < 0.1:
                headers["Nats_Rollup"] = "sub"
            if self.settings.get("allow_msg_ttl") and self.rng.random() < 0.3:
                headers["Nats_TTL"] = "1"
            self.bench.gather(self._subject(), b"x" * self.rng.randrange(9), block(**headers))
        self.bench.gather(ANCHOR, b"", block(Nats_Rollup="sub"))

    def _subject(self) -> bytes:
        return b"s.%d" % self.rng.randrange(5)

    async def purge(self) -> None:
        pattern = self.rng.choice(["s.*", self._subject().decode()])
        keep = self.rng.choice([None, None, 1, 4])
        await self.bench.runner.requests.purge(pattern, None, keep)

    async def delete(self) -> None:
        machine = self.bench.machine
        seq = self.rng.randint(machine.first_seq, machine.last_seq)
        if machine.index.last(ANCHOR) > seq:
            await self.bench.runner.requests.delete_message(seq)

    async def expire(self) -> None:
        self.bench.clock.time += NANOS_PER_SECOND // 4
        await self.bench.runner.requests.trim()

    async def reconfigure(self) -> None:
        limit = self.rng.choice([-1, 1, 3])
        self.settings = {**self.settings, "max_msgs_per_subject": limit}
        await self.bench.runner.reconfigure(config(**self.settings), saved)

    async def read_all(self) -> None:
        runner = self.bench.runner
        assert await last_by_subject(runner.log, ANCHOR) is not None
        assert await next_by_subject(runner.log, ANCHOR, 0) is not None
        assert await runner.log.get_at_time(1) is not None
        await runner.info(deleted=True)

    async def client(self, *work: Callable[[], Awaitable[None]]) -> None:
        self.busy += 1
        try:
            for _ in range(_OPERATIONS):
                await self.pass_loop_ticks()
                with contextlib.suppress(ApiError):
                    await self.rng.choice(work)()
        finally:
            self.busy -= 1

    async def live(self) -> None:
        """Do everything at once."""
        self.busy += 1
        self.bench.gather(ANCHOR)
        await self.bench.step()
        committer = asyncio.ensure_future(self.committer())
        changes = self.client(self.purge, self.delete, self.delete, self.expire, self.reconfigure)
        readers = [self.client(self.read_all) for _ in range(2)]
        clients = asyncio.gather(self.client(self.publish), self.client(self.publish), changes,
                                 *readers)  # fmt: skip
        await asyncio.gather(clients, self.sweep())
        self.busy -= 1
        await committer

    # -- afterwards --------------------------------------------------------------------------

    def counts(self) -> Any:
        machine, log = self.bench.machine, self.bench.runner.log
        self.bench.run(log.first_message())
        return machine.msgs, machine.bytes, log.first_seq, sorted(machine.index.items())

    def recount(self) -> Any:
        """The same from rows."""
        machine, rows = self.bench.machine, sorted(self.store.rows.items())
        names: dict[bytes, tuple[int, int]] = {}
        for seq, row in rows:
            names[row.subject] = (names.get(row.subject, (0, 0))[0] + 1, seq)
        size = sum(machine.record_size.of(r.subject, r.headers, len(r.payload)) for _, r in rows)
        return len(rows), size, rows[0][0], sorted((s, *found) for s, found in names.items())


@pytest.mark.parametrize("kind", KINDS)
def test_memory_and_rows_agree_whatever_came_between(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.jetstream.stream.commands._AT_ONCE", 4)
    monkeypatch.setattr("core.jetstream.janitor._SCATTERED_ROWS", 3)
    for seed in range(20, 25):
        crowd = Crowd(dict(KINDS[kind]), seed)
        bench = crowd.bench
        bench.run(crowd.live())
        bench.run(bench.janitor.finish(bench.runner.log))
        bench.run(asyncio.sleep(0))
        assert not crowd.differences, seed
        assert crowd.counts() == crowd.recount(), seed
        assert not bench.runner.log.removed.rows
        assert all(seq >= bench.runner.log.tail.start for seq in bench.runner.log.removed.hidden)
        counts = crowd.counts()
        bench.config = bench.runner.config
        bench.reload()
        assert crowd.counts() == counts, seed
        bench.close()
