"""The queue of a stream's changes other than publishes: purges, deletes, expiry, retention, copies.

The group committer (`core.jetstream.group_committer`) commits the changes of a stream between its
publishes, one at a time. Each change is first decided as a plan (`StreamPlan`): the exact effect on
rows and counts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from core.errors import ApiError, Unresolved
from core.rules.stream.plan import PlanBuilder, StreamPlan

Change = Callable[[int], Awaitable[PlanBuilder]]
"""Decides one change as a plan, given the wall-clock time in nanoseconds since the Unix epoch.

Raises ApiError to refuse the change. Raises Unavailable if PostgreSQL does not answer; then the
change is decided again later.
"""

Submit = Callable[[Change], "asyncio.Future[StreamPlan]"]
"""Queues a change of a stream. The returned future yields the plan after its COMMIT.

The future raises ApiError if the change is refused.
"""

WithoutInterest = Callable[[Iterable[bytes]], frozenset[bytes]]
"""Returns those of the given subjects whose messages are not stored.

With interest retention these are the subjects that no consumer wants; otherwise none.
"""

MapSubjects = Callable[[list[bytes]], list[bytes]]
"""Maps subjects of publishes to the subjects under which the stream stores the messages."""


@dataclass(slots=True)
class Waiting:
    """A change of a stream that is queued, or whose COMMIT is in progress.

    Attributes:
        change: Decides the change.
        done: Yields the plan (`StreamPlan`: the effect of the change) after its COMMIT, or raises
            ApiError.
    """

    change: Change
    done: asyncio.Future[StreamPlan]


class Changes:
    """The queued changes of one stream, oldest first; one is committed at a time.

    For each change the group committer calls `plan_next`, then `committed` or `failed`. `close`
    refuses the queued changes, a change that is being decided, and all later ones. A change whose
    COMMIT is in progress fails with Unresolved, because its outcome is unknown.
    """

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._planned: Waiting | None = None
        self._closed: ApiError | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, change: Change) -> asyncio.Future[StreamPlan]:
        """Queue a change of the stream.

        The returned future yields its plan (`StreamPlan`: the effect of the change) after COMMIT.
        It raises ApiError if the change is refused.
        """
        done: asyncio.Future[StreamPlan] = asyncio.get_running_loop().create_future()
        if self._closed is None:
            self._waiting.append(Waiting(change, done))
        else:
            done.set_exception(self._closed)
        return done

    async def plan_next(self, now: int) -> PlanBuilder | None:
        """Decide the oldest queued change; return its plan, the effect to commit.

        `now` is in nanoseconds since the Unix epoch. Returns None if the change is refused or its
        future was cancelled. Raises Unavailable if PostgreSQL does not answer; then the change
        stays first in the queue.
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
        """Resolve the future of the change that was committed, if one was in progress."""
        planned, self._planned = self._planned, None
        if planned is not None and not planned.done.done():
            planned.done.set_result(plan)

    def failed(self, error: ApiError) -> None:
        """Fail the future of the change whose commit failed, if a change was in progress."""
        planned, self._planned = self._planned, None
        if planned is not None:
            _refuse(planned, error)

    def refuse(self, error: ApiError) -> None:
        """Fail the futures of all queued changes, but not of the one that is being committed."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            _refuse(each, error)

    def close(self, error: ApiError) -> None:
        """Fail all queued and later changes with `error`: this node no longer leads the stream.

        A change whose COMMIT is in progress fails with Unresolved: its outcome is unknown.
        """
        self._closed = error
        self.failed(Unresolved(error.code, error.err_code, error.description))
        self.refuse(error)


def _refuse(waiting: Waiting, error: ApiError) -> None:
    if not waiting.done.done():
        waiting.done.set_exception(error)
