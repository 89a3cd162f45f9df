"""Storing dead letters in the streams that this node leads; any node may send them.

A stream stores the number of a consumer's last dead letter with the letters, as a position. The
position identifies letters that arrive again, also from a later leader of the consumer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from core.errors import ApiError, StorageError
from core.jetstream.dead_letters.parcel import Taken
from core.model.api_errors import api_error
from core.model.response import ErrorBody

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.jetstream.stream.runner import StreamRunner
    from core.rules.stream.plan import PlanBuilder, Position
    from core.rules.stream.plans.sourced import Copied, Run


class Boxes:
    """Stores dead letters in the streams of one account that this node leads.

    Args:
        streams: The streams that this node leads, by name.
        exists: Returns whether a stream of that name exists, led by any node.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamRunner],
        exists: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self._streams = streams
        self._exists = exists
        self._boxes: dict[str, _Box] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._streams

    async def store(self, name: str, run: Run) -> Taken:
        """Store letters in stream `name`; return after COMMIT. Raises ApiError and StorageError."""
        runner = self._streams.get(name)
        if runner is None:
            self._boxes.pop(name, None)
            raise api_error("JSClusterNotAvail" if self._exists(name) else "JSStreamNotFound")
        box = self._boxes.get(name)
        if box is None or box.runner is not runner:
            box = self._boxes[name] = _Box(runner)
        return await box.store(run)

    async def store_sent(self, name: str, run: Run) -> Taken:
        """Store letters that a peer sent; return refusals in `Taken` instead of raising them.

        Refuses a run (JSClusterNotAvail) while an earlier one with its key is being stored.
        """
        box = self._boxes.get(name)
        if box is not None and run.key in box.under_way:
            return Taken(refused=ErrorBody.of(api_error("JSClusterNotAvail")))
        try:
            return await self.store(name, run)
        except ApiError as error:
            return Taken(refused=ErrorBody.of(error))
        except StorageError:
            return Taken(refused=ErrorBody.of(api_error("JSClusterNotAvail")))


class _Box:
    """Stores the dead letters of one stream while this node leads it.

    Attributes:
        runner: The leader of the stream.
        under_way: The keys of the runs that are being stored or wait for `_turn`.
    """

    def __init__(self, runner: StreamRunner) -> None:
        self.runner = runner
        self.under_way: set[str] = set()
        self._positions: dict[str, Position] | None = None
        self._turn = asyncio.Lock()

    async def store(self, run: Run) -> Taken:
        """Store those letters of a run that are not stored yet. Raises ApiError, StorageError."""
        if self.runner.config.mirror is not None:
            raise api_error("JSStreamStoreFailed", err="a mirror takes no dead letters")
        self.under_way.add(run.key)
        try:
            # One run at a time: a plan depends on the positions that the previous plan stored.
            async with self._turn:
                return await self._store(run)
        finally:
            self.under_way.discard(run.key)

    async def _store(self, run: Run) -> Taken:
        runner = self.runner
        await runner.log.loaded()
        copied: deque[Copied] = deque(maxlen=1)

        async def plan(now: int) -> PlanBuilder:
            copied.append(await runner.plan_letters(await self._fresh(run), now))
            return copied[0].plan

        try:
            await runner.submit(plan)
        except BaseException:
            self._positions = None  # The outcome is unknown here: read the positions again.
            raise
        assert self._positions is not None, "a plan has read them"
        for known in copied[0].plan.positions:
            self._positions[known.key] = known
        stopped = copied[0].stalled.get(0)
        return Taken(self._through(run), None if stopped is None else ErrorBody.of(stopped))

    def _through(self, run: Run) -> int:
        """Return the number up to which letters of the run's era are stored (0: none)."""
        position = self._positions.get(run.key) if self._positions is not None else None
        return position.seq if position is not None and position.identity == run.identity else 0

    async def _fresh(self, run: Run) -> Run:
        """Return the run without letters that are stored already. Raises Unavailable."""
        if self._positions is None:
            positions = await self.runner.log.rows.positions()
            self._positions = {position.key: position for position in positions}
        fresh = run.after(self._through(run)) if self._through(run) else run
        return fresh.part(0, len(fresh))
