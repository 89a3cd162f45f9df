"""Changes of a log other than publishes: queued among publishes, committed as plans."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from core.errors import ApiError, Unresolved
from core.rules.stream.plan import PlanBuilder, StreamPlan

Change = Callable[[int], Awaitable[PlanBuilder]]
"""Plans a change in its turn, given the wall-clock time in nanoseconds.

Raises ApiError to refuse the change, Unavailable to be called again once storage is available.
"""

Submit = Callable[[Change], "asyncio.Future[StreamPlan]"]
"""Queues a change; the future's result is the committed plan, or it raises ApiError."""

WithoutInterest = Callable[[Iterable[bytes]], frozenset[bytes]]
"""Returns those of the subjects that are not stored: with interest retention and no consumer."""

MapSubjects = Callable[[list[bytes]], list[bytes]]
"""Maps subjects of publishes to the subjects under which the messages are stored."""


@dataclass(slots=True)
class Waiting:
    """A change that waits for its turn or for the COMMIT of its plan.

    Attributes:
        change: Plans the change.
        done: Its result is the committed plan.
    """

    change: Change
    done: asyncio.Future[StreamPlan]


class Changes:
    """The queued changes of one log, oldest first; one is committed at a time.

    After `close` each is refused, including one that is being planned, since it is never
    committed. One that is being committed ends with Unresolved.
    """

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._planned: Waiting | None = None
        self._closed: ApiError | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, change: Change) -> asyncio.Future[StreamPlan]:
        """Queue a change; the future's result is the committed plan, or it raises ApiError."""
        done: asyncio.Future[StreamPlan] = asyncio.get_running_loop().create_future()
        if self._closed is None:
            self._waiting.append(Waiting(change, done))
        else:
            done.set_exception(self._closed)
        return done

    async def plan_next(self, now: int) -> PlanBuilder | None:
        """Return the plan of the oldest change; None: it is refused, or its future was cancelled.

        Raises Unavailable; then the change keeps its place in the queue.
        """
        oldest = self._waiting.popleft()
        if oldest.done.cancelled():
            return None
        try:
            plan = await oldest.change(now)
        except ApiError as error:
            _refuse(oldest, self._closed or error)
            return None
        except BaseException:
            if self._closed is None:
                self._waiting.appendleft(oldest)
            else:
                _refuse(oldest, self._closed)
            raise
        if self._closed is not None:
            _refuse(oldest, self._closed)
            return None
        self._planned = oldest
        return plan

    def committed(self, plan: StreamPlan) -> None:
        """Resolve the future of the change being committed, if there is one."""
        planned, self._planned = self._planned, None
        if planned is not None and not planned.done.done():
            planned.done.set_result(plan)

    def failed(self, error: ApiError) -> None:
        """Fail the change being committed, if there is one."""
        planned, self._planned = self._planned, None
        if planned is not None:
            _refuse(planned, error)

    def refuse(self, error: ApiError) -> None:
        """Fail every change that waits for its turn."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            _refuse(each, error)

    def close(self, error: ApiError) -> None:
        """Fail all changes, also later ones: this node does not lead the stream any more.

        A change whose COMMIT is in progress fails with Unresolved: its outcome is unknown.
        """
        self._closed = error
        self.failed(Unresolved(error.code, error.err_code, error.description))
        self.refuse(error)


def _refuse(waiting: Waiting, error: ApiError) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(error)
