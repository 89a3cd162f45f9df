"""Changes of a log other than publishes: they take turns with them, and are plans as they are."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from core.errors import ApiError, Unresolved
from core.stream.plan import PlanBuilder, StreamPlan

Change = Callable[[int], Awaitable[PlanBuilder]]
"""Plans a change when its turn comes, given the wall-clock time in nanoseconds.

Raises ApiError to refuse it, Unavailable to be asked again when storage is back.
"""

Submit = Callable[[Change], "asyncio.Future[StreamPlan]"]
"""Gives a change its turn; the future has the committed plan, or ApiError."""

WithoutInterest = Callable[[Iterable[bytes]], frozenset[bytes]]
"""Returns the subjects that are not stored: retention is by interest, and no consumer has it."""

MapSubjects = Callable[[list[bytes]], list[bytes]]
"""Returns the subjects under which messages published on some subjects are stored."""


@dataclass(slots=True)
class Waiting:
    """A change that waits for its turn, or for the COMMIT of its plan."""

    change: Change
    done: asyncio.Future[StreamPlan]


class Changes:
    """The changes of one log that wait for their turn, oldest first; one is committed at a time.

    After `close` each is refused, also one that is just being planned: nobody commits it, so nobody
    would answer it. One that is being committed ends with Unresolved.
    """

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._planned: Waiting | None = None
        self._closed: ApiError | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, change: Change) -> asyncio.Future[StreamPlan]:
        """Queue a change; the future has the committed plan, or ApiError."""
        done: asyncio.Future[StreamPlan] = asyncio.get_running_loop().create_future()
        if self._closed is None:
            self._waiting.append(Waiting(change, done))
        else:
            done.set_exception(self._closed)
        return done

    async def plan_next(self, now: int) -> PlanBuilder | None:
        """Return the plan of the oldest change; None when it is refused or nobody waits for it.

        Raises Unavailable; the change keeps its place then.
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
        """Answer the change whose plan is committed, if the plan was that of one."""
        planned, self._planned = self._planned, None
        if planned is not None and not planned.done.done():
            planned.done.set_result(plan)

    def failed(self, error: ApiError) -> None:
        """Answer the change whose plan was not committed, if the plan was that of one."""
        planned, self._planned = self._planned, None
        if planned is not None:
            _refuse(planned, error)

    def refuse(self, error: ApiError) -> None:
        """Answer every change that waits for its turn."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            _refuse(each, error)

    def close(self, error: ApiError) -> None:
        """Refuse every change from now on: this node does not lead the stream any more.

        What became of one whose COMMIT is under way remains unknown here.
        """
        self._closed = error
        self.failed(Unresolved(error.code, error.err_code, error.description))
        self.refuse(error)


def _refuse(waiting: Waiting, error: ApiError) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(error)
