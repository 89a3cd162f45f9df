"""One stream over a `MemoryStore`, for tests that control each step of a commit.

Runner, state machine, log and janitor of the stream are those of the product. `StreamBench` takes
the place of the group committer: it takes a plan (the changes of one transaction) from the runner,
commits or refuses it, and gives it back to the runner, which then answers the clients.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from core.cluster.directory_follower import DirectoryFollower
from core.errors import ApiError
from core.jetstream.changes import Change
from core.jetstream.janitor import Janitor
from core.jetstream.log.tail import TailBudget
from core.jetstream.services import Services
from core.jetstream.stream.runner import StreamRunner
from core.jetstream.timers import Timers
from core.model.stream import StreamConfig
from core.pubsub.server import Hub
from core.rules.stream.plan import StreamPlan
from core.runtime.clock import Clock
from core.runtime.loop_tick import LoopTick
from core.storage.interface import Head, StreamRow
from core.units import Epoch
from tests.support.headers import block
from tests.support.memory_store import MemoryStore
from tests.support.sessions import ManualClock

T = TypeVar("T")

STREAM, PARTITION = 7, 0


def stored_subjects(plan: StreamPlan) -> list[bytes]:
    """Return the subjects of the messages that a plan (an uncommitted change) adds."""
    return plan.segment.subjects if plan.segment is not None else []


async def saved() -> None:
    """Do nothing: a substitute for saving a configuration to the database, which succeeds."""


class StandInCommitter:
    """A substitute for `GroupCommitter` that commits nothing itself and calls back at once."""

    def enqueue(self, runner: StreamRunner) -> None:
        runner.queued = True

    def answer_after_commit(self, say: Callable[[], None]) -> None:
        say()

    def refuse(self, code: int, count: int) -> None:
        """Do nothing; `GroupCommitter` counts refused publishes."""

    async def await_commit(self) -> None:
        """Return at once, because no commit is in flight."""


def services(
    store: MemoryStore,
    clock: Clock,
    loop_tick: LoopTick,
    *,
    states: Any = None,
    tail_bytes: int = 64 << 20,
) -> Services:
    """Return the services that a node gives to its streams, with a `MemoryStore` as storage.

    `tail_bytes` limits the newest messages that logs keep in memory.
    """
    return Services(
        clock=clock,
        loop_tick=loop_tick,
        reader=cast(Any, store),
        sweeper=cast(Any, store),
        directory_store=cast(Any, store),
        directory_follower=DirectoryFollower(cast(Any, store)),
        committer=cast(Any, StandInCommitter()),
        states=states,
        janitor=Janitor(clock, cast(Any, store), cast(Any, store)),
        timers=Timers(clock),
        server_name="test",
        begin_backpressure=lambda: None,
        tails=TailBudget(tail_bytes),
    )


class StreamBench:
    """One stream whose steps (plan, commit, answer) a test runs one by one.

    Attributes:
        answers: Payload of each answer, by reply subject; only subjects `reply.>`.
    """

    def __init__(self, config: StreamConfig, tail_bytes: int = 64 << 20) -> None:
        self.clock = ManualClock()
        self.loop = asyncio.new_event_loop()
        last = max(config.first_seq, 1) - 1
        self.store = MemoryStore(Head(Epoch(1), config.first_seq, last, 0, 0, 0))
        self.config = config
        self.tail_bytes = tail_bytes
        self.answers: dict[bytes, bytes] = {}
        self._open()

    def _open(self) -> None:
        loop_tick = LoopTick()
        hub = Hub(loop_tick, self.clock, server_name="test")
        given = services(self.store, self.clock, loop_tick, tail_bytes=self.tail_bytes)
        self.janitor = given.janitor
        account = hub.accounts["$G"]
        row = StreamRow(STREAM, "$G", self.config.name, PARTITION, 0, "", self.store.head)
        self.runner = StreamRunner(row, self.config, account, given)
        # Tests run expiry themselves.
        self.runner.expiry.watch = lambda: None  # type: ignore[method-assign]
        account.subscribe(b"reply.>", self._answered)

    def _answered(
        self, session: object, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        assert subject not in self.answers, "answered twice"
        self.answers[subject] = payload

    @property
    def machine(self) -> Any:
        return self.runner.machine

    def reload(self) -> None:
        """Simulate a crash: discard the state in memory and load the stream from the store."""
        self._open()
        self.run(self.runner.restore(self.store.head))

    def close(self) -> None:
        """Close the event loop of the bench."""
        self.loop.close()

    # -- steps -------------------------------------------------------------------------------

    def run(self, work: Awaitable[T]) -> T:
        """Run an awaitable in the event loop of the bench; return its result."""

        async def wait() -> T:
            return await work

        return self.loop.run_until_complete(wait())

    def gather(
        self, subject: bytes, payload: bytes = b"", headers: bytes = b"", reply: bytes = b""
    ) -> None:
        """Pass one published message to the runner; `flush` stores it."""
        self.runner.ingest(None, subject, reply, headers, payload)

    def publish(self, *subjects: str, **headers: str) -> None:
        """Store a message of one byte on each subject; `Nats_TTL="1s"` sets a header."""
        for subject in subjects:
            self.gather(subject.encode(), b"x", block(**headers))
        self.flush()

    def seqs(self) -> list[int]:
        """Return the sequences of the messages that `live` returns."""
        return [row[0] for row in self.live()]

    async def step(self, refused: ApiError | None = None) -> StreamPlan | None:
        """Take one plan from the runner, commit it and send its answers; return the plan.

        With `refused`, fail a plan that changes the stream with this error instead. Returns None if
        the runner has no work.
        """
        runner = self.runner
        plan = await runner.next_plan(4096, self.clock.now())
        if plan is None:
            return None
        if refused is not None and plan.changes_head:
            runner.fail(plan, refused)
            return plan
        if plan.changes_head:
            self.store.commit(plan)
        runner.emit(plan)
        return plan

    def flush(self, refused: ApiError | None = None) -> None:
        """Run `step` until the runner has no work."""
        while self.runner.has_work():
            self.run(self.step(refused))

    def serve(self, request: Awaitable[T]) -> T:
        """Run a request such as a purge to its end, with the steps that it causes."""

        async def drive() -> T:
            task = asyncio.ensure_future(request)
            while not task.done():
                await asyncio.sleep(0)
                while self.runner.has_work():
                    await self.step()
            return await task

        return self.run(drive())

    def change(self, change: Change) -> StreamPlan:
        """Submit a change of the stream, commit it, and return its plan."""

        async def submit() -> StreamPlan:
            return await self.runner.submit(change)

        return self.serve(submit())

    def live(self) -> list[tuple[int, int, bytes, bytes, bytes]]:
        """Return every message that the log of the stream returns to a reader.

        Each is (sequence, nanoseconds since the Unix epoch, subject, headers, payload).
        """
        return self.run(self._live())

    async def _live(self) -> list[tuple[int, int, bytes, bytes, bytes]]:
        found: list[tuple[int, int, bytes, bytes, bytes]] = []
        seq = 0
        while True:
            page = await self.runner.log.read(seq, 3)
            if page is None:
                return found
            headers = page.headers or [None] * len(page)
            rows = zip(page.seqs, page.times, page.subjects, headers, page.payloads, strict=True)
            found += [(s, ts, subject, block or b"", body) for s, ts, subject, block, body in rows]
            seq = page.last + 1
