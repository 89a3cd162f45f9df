"""The group committer: the one writer of messages on a node, with one transaction for all streams.

It works in rounds of four steps. *Gather*: publishes and changes queue per stream while a commit is
in progress. *Decide*: each queued stream decides a plan (`StreamPlan`: rows and counts to write).
*Commit*: one transaction stores all plans. *Emit*: only then are acks and deliveries sent. There is
no timer: a lone publisher waits only for its own commit. If the next round is ready when a COMMIT
returns, its transaction is sent before the acks of the previous round.

Lost connection during COMMIT: the plans are kept, unacknowledged, until this node has read the head
rows of the streams again under a new epoch. A plan that the head row includes was committed and is
acknowledged; the others are committed again. Publishes that queue meanwhile are refused after two
seconds (JSClusterNotAvail), so that no client waits forever.

Fenced commit (the epoch check fails): nothing was stored, because another node leads at least one
of the streams. This node releases those streams without answering their publishes, and commits the
plans of the others again.
"""

import asyncio
import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from core import retry
from core.errors import ApiError, Fenced, OutcomeUnknown, Refused, Unavailable
from core.model.api_errors import api_error
from core.rules.stream.machine import StreamMachine
from core.rules.stream.plan import StreamPlan
from core.runtime.clock import Clock
from core.runtime.loop_tick import LoopTick
from core.storage.health import COMMITS, SPACE, StorageHealth
from core.storage.interface import LogWriter, StreamCommit
from core.units import NANOS_PER_SECOND, Epoch

log = logging.getLogger(__name__)

ROUND_ROWS = 8192
STREAM_ROWS = 4096
# Seconds after which waiting publishes are refused, and after which a COMMIT is abandoned.
SLOW_S = 2.0
TIMEOUT_S = 10.0


# Upper bounds of the buckets of commit durations, in seconds.
COMMIT_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


_REFUSED = "store refused the messages"


class Runner(Protocol):
    """The interface of a stream's leader for the group committer.

    Attributes:
        stream: Number of the stream in storage.
        partition: Partition of the message table.
        epoch: Epoch that the head row must have.
        queued: True while the stream is in the queue of the group committer.
    """

    stream: int
    partition: int
    epoch: Epoch
    queued: bool

    async def next_plan(self, limit: int, now: int) -> StreamPlan | None: ...
    @property
    def machine(self) -> StreamMachine: ...
    def has_work(self) -> bool: ...
    def emit(self, plan: StreamPlan) -> None: ...
    def fail(self, plan: StreamPlan, error: ApiError) -> None: ...
    def refuse_gathered(self, error: ApiError) -> None: ...


Work = list[tuple[Runner, StreamPlan]]
"""The streams of one commit, each with its plan."""


class GroupCommitter:
    """The group committer of a node: the only writer of message rows.

    Args:
        writer: Commits the plans to PostgreSQL.
        loop_tick: Flushes the output of all sessions at the end of each pass of the event loop.
        clock: The clock.
        trusted: Returns whether the leadership of this node was confirmed recently enough
            (`core.node.trust_window`).
        recover: Called after a storage failure. Returns (committed plans, plans to commit again)
            once this node leads again with new epochs. Raises Unavailable while storage is
            unavailable, Fenced if another node has taken over.
        drop_fenced: Called after a fenced commit. Releases the streams that another node leads, and
            returns the others with their plans. Raises Fenced if no stream is left, Unavailable if
            PostgreSQL does not answer.
        deposed: Called with the reason when another node leads; the group committer stops.
        health: Records whether storage accepts commits.
        release: Called in each round after queued publishes were decided, to resume paused reading.

    Attributes:
        ready: Streams with work for the next round.
        commits: Count of commits.
        messages: Count of committed messages.
        failures: Count of plans that storage refused.
        refused: Count of messages answered with an error, by `err_code`.
        commit_ns: Total duration of commits, in nanoseconds.
        commit_counts: Count of commits by duration, in buckets of `COMMIT_BOUNDS`.
        stopped: True once another node leads, or the runtime stopped the group committer.
    """

    def __init__(
        self,
        writer: LogWriter,
        loop_tick: LoopTick,
        clock: Clock,
        trusted: Callable[[], bool],
        recover: Callable[[Work], Awaitable[tuple[Work, Work]]],
        drop_fenced: Callable[[Work], Awaitable[Work]],
        deposed: Callable[[str], None],
        health: StorageHealth | None = None,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self.health = health or StorageHealth(clock)
        self._writer = writer
        self._loop_tick = loop_tick
        self._clock = clock
        self._trusted = trusted
        self._recover = recover
        self._drop_fenced = drop_fenced
        self._deposed = deposed
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._committed = asyncio.Event()
        self._committed.set()
        self.ready: deque[Runner] = deque()
        self.commits = 0
        self.messages = 0
        self.failures = 0
        self.refused: dict[int, int] = {}
        self.commit_ns = 0
        self.commit_counts = [0] * (len(COMMIT_BOUNDS) + 1)
        self.stopped = False
        self._must_verify = False
        self._release = release
        self._answers: list[Callable[[], None]] = []

    def answer_after_commit(self, answer: Callable[[], None]) -> None:
        """Queue a callback that sends the acks of committed publishes.

        It is called after the transaction of the next round was sent, or at the end of this round.
        """
        self._answers.append(answer)

    def enqueue(self, runner: Runner) -> None:
        """Queue a stream for the next transaction, unless it is queued already."""
        if not runner.queued:
            runner.queued = True
            self.ready.append(runner)
            self._wake.set()

    async def run(self) -> None:
        """Commit queued publishes and changes, round by round, with one transaction per round.

        Ends when another node leads or the task is cancelled.
        """
        while not self.stopped:
            if not (self.ready or self._must_verify):
                self._idle.set()
                await self._wake.wait()
            self._wake.clear()
            self._idle.clear()
            if self._must_verify:
                self._must_verify = False
                await self._recover_plans([])
            while self.ready and not (self.stopped or self._must_verify):
                await self._round()

    def verify(self) -> None:
        """Compare the head rows in storage with memory before the next round.

        Called if a commit may have succeeded without a confirmation, so that they may differ.
        """
        self._must_verify = True
        self._wake.set()

    async def drain(self) -> None:
        """Wait until all queued publishes and changes are committed and answered."""
        while not self.stopped and (self.ready or not self._idle.is_set()):
            await self._idle.wait()
            await asyncio.sleep(0)

    async def await_commit(self) -> None:
        """Wait until the commit in progress is applied in memory or has failed.

        A reader of storage may see a commit before this node receives its confirmation.
        """
        await self._committed.wait()

    async def _round(self) -> None:
        work: Work = []
        decided: Work = []
        rows = 0
        away = False
        for _ in range(len(self.ready)):
            runner = self.ready.popleft()
            try:
                plan = await runner.next_plan(STREAM_ROWS, self._clock.now())
            except Unavailable as error:
                self.health.failed(COMMITS, str(error))
                # End the round here: waiting now would let streams with a plan in this round
                # queue for a second one.
                self.ready.append(runner)
                away = True
                break
            # Only now: publishes that arrived during the await must not queue the stream again,
            # since two plans of one stream never share a transaction.
            runner.queued = False
            if runner.has_work():
                self.enqueue(runner)
            if plan is None:
                continue
            (work if plan.changes_head else decided).append((runner, plan))
            rows += plan.rows
            if rows >= ROUND_ROWS:
                break
        self._release()
        if work:
            self._committed.clear()
            try:
                await self._commit(work)
            finally:
                self._committed.set()
        if decided and not self._trusted():
            # Another node may lead by now, and decide duplicates and refusals differently.
            decided = await self._recover_plans(decided)
        for runner, plan in decided:
            runner.emit(plan)
        if self.ready and not away:
            # The event loop runs it when the next round awaits storage for the first time.
            asyncio.get_running_loop().call_soon(self._send_answers)
        else:
            self._send_answers()
        if away and not self.stopped:
            await self._recover_plans([])

    def _send_answers(self) -> None:
        """Call the queued callbacks that send acks, and flush the output of the sessions."""
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()
        self._loop_tick.run()

    async def _commit(self, work: Work) -> None:
        """Commit the plans, then emit them; recover from failures."""
        while work and not self.stopped:
            started = self._clock.monotonic()
            try:
                if not self._trusted():
                    raise Unavailable("leadership is not confirmed")
                await self._write(work)
            except Fenced:
                work = await self._without_fenced(work)
                continue
            except Refused as error:
                await self._commit_singly(work, error)
                return
            except (OutcomeUnknown, Unavailable) as error:
                self.health.failed(COMMITS, str(error))
                work = await self._recover_plans(work)
                continue
            took = self._clock.monotonic() - started
            self.commit_ns += took
            self.commit_counts[bisect_left(COMMIT_BOUNDS, took / NANOS_PER_SECOND)] += 1
            self._emit(work)
            return

    async def _write(self, work: Work) -> None:
        commits = [
            StreamCommit(r.stream, r.partition, r.epoch, plan, self._ids_since(r, plan))
            for r, plan in work
        ]
        slow = asyncio.get_running_loop().call_later(SLOW_S, self._on_slow_commit)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._writer.commit(commits)
        except TimeoutError:
            raise OutcomeUnknown(f"no answer to COMMIT within {TIMEOUT_S:g} s") from None
        finally:
            slow.cancel()

    def _ids_since(self, runner: Runner, plan: StreamPlan) -> int | None:
        return runner.machine.ids_since(self._clock.now()) if plan.erased else None

    def _on_slow_commit(self) -> None:
        self.health.failed(COMMITS, f"no answer to COMMIT within {SLOW_S:g} s")
        self._refuse_gathered()

    def _emit(self, work: Work) -> None:
        self.health.committed()
        self.commits += 1
        for runner, plan in work:
            self.messages += plan.rows
            runner.emit(plan)

    async def _commit_singly(self, work: Work, error: Refused) -> None:
        """Handle a refused commit: commit the plans one by one, and fail a plan refused alone."""
        if len(work) > 1:
            for pair in work:
                await self._commit([pair])
            return
        ((runner, plan),) = work
        self.failures += 1
        if error.is_full:
            self.health.failed(SPACE, str(error))
        else:
            # Not an outage: storage may accept other plans.
            self.health.works(COMMITS)
            log.error("storage refused a commit: %s", error)
        runner.fail(
            plan,
            api_error("JSInsufficientResources")
            if error.is_full
            else api_error("JSStreamStoreFailed", err=_REFUSED),
        )

    async def _without_fenced(self, work: Work) -> Work:
        """Release the streams that another node leads; return the other plans, to commit again."""
        try:
            async with asyncio.timeout(SLOW_S):
                return await self._drop_fenced(work)
        except Fenced as error:
            self._depose(str(error))
            return []
        except (Unavailable, TimeoutError) as error:
            self.health.failed(COMMITS, str(error) or "no answer yet")
            return await self._recover_plans(work)

    async def _recover_plans(self, work: Work) -> Work:
        """Wait for storage and leadership; emit plans found committed, and return the others.

        After two seconds (`SLOW_S`) queued publishes are refused.
        """
        refuse_at = self._clock.monotonic() + int(SLOW_S * NANOS_PER_SECOND)
        while not self.stopped:
            try:
                async with asyncio.timeout(SLOW_S):
                    committed, rest = await self._recover(work)
            except Fenced as error:
                self._depose(str(error))
                return []
            except (Unavailable, TimeoutError) as error:
                self.health.failed(COMMITS, str(error) or "no answer yet")
                if self._clock.monotonic() >= refuse_at:
                    self._refuse_gathered()
                await asyncio.sleep(retry.COMMIT_S)
                continue
            if committed:
                self._emit(committed)
                self._send_answers()
            if not rest:  # Else the commit of the rest reports the health.
                self.health.works(COMMITS)
            return rest
        return []

    def refuse(self, code: int, count: int) -> None:
        """Count `count` messages that were answered with the error number `code` (`err_code`)."""
        if count:
            self.refused[code] = self.refused.get(code, 0) + count

    def _refuse_gathered(self) -> None:
        for runner in self.ready:
            runner.refuse_gathered(api_error("JSClusterNotAvail"))
        for _ in range(len(self.ready)):
            runner = self.ready.popleft()
            runner.queued = False
            if runner.has_work():
                self.enqueue(runner)
        self._loop_tick.run()

    def _depose(self, why: str) -> None:
        self.stopped = True
        self._idle.set()
        self._deposed(why)
