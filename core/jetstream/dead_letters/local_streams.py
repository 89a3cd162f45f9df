"""Storing dead letters in the dead-letter streams that this node leads.

The consumers may be on this node or on a peer. In the same transaction the stream stores the number
of a consumer's last dead letter, as its position. By the position the stream recognizes dead
letters that are sent again, also by a later leader of the consumer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from core.errors import ApiError, StorageError
from core.jetstream.dead_letters.peer_batches import StoreOutcome
from core.model.api_errors import api_error
from core.model.response import ErrorBody

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from core.jetstream.stream.runner import StreamRunner
    from core.rules.stream.plan import PlanBuilder, Position
    from core.rules.stream.plans.sourced import SourcedBatch, SourcedPlan


class LocalDeadLetterStreams:
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
        self._local: dict[str, _LocalStream] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._streams

    async def store(self, name: str, batch: SourcedBatch) -> StoreOutcome:
        """Store a batch of dead letters in stream `name`; return the outcome after COMMIT.

        Raises ApiError if this node does not lead the stream or the stream refuses the batch,
        StorageError if PostgreSQL fails.
        """
        runner = self._streams.get(name)
        if runner is None:
            self._local.pop(name, None)
            raise api_error("JSClusterNotAvail" if self._exists(name) else "JSStreamNotFound")
        stream = self._local.get(name)
        if stream is None or stream.runner is not runner:
            stream = self._local[name] = _LocalStream(runner)
        return await stream.store(batch)

    async def store_sent(self, name: str, batch: SourcedBatch) -> StoreOutcome:
        """Store a batch of dead letters that a peer sent; return errors in the outcome.

        Refuses the batch (JSClusterNotAvail) while an earlier one of the same consumer is being
        stored.
        """
        stream = self._local.get(name)
        if stream is not None and batch.key in stream.under_way:
            return StoreOutcome(refused=ErrorBody.of(api_error("JSClusterNotAvail")))
        try:
            return await self.store(name, batch)
        except ApiError as error:
            return StoreOutcome(refused=ErrorBody.of(error))
        except StorageError:
            return StoreOutcome(refused=ErrorBody.of(api_error("JSClusterNotAvail")))


class _LocalStream:
    """Stores dead letters in one stream while this node leads it.

    Attributes:
        runner: The leader object of the stream.
        under_way: The keys (consumers) of the batches that are being stored or wait for `_lock`.
    """

    def __init__(self, runner: StreamRunner) -> None:
        self.runner = runner
        self.under_way: set[str] = set()
        self._positions: dict[str, Position] | None = None
        self._lock = asyncio.Lock()

    async def store(self, batch: SourcedBatch) -> StoreOutcome:
        """Store those dead letters of a batch that the stream has not stored before.

        Raises ApiError if the stream refuses them, StorageError if PostgreSQL fails.
        """
        if self.runner.config.mirror is not None:
            raise api_error("JSStreamStoreFailed", err="a mirror takes no dead letters")
        self.under_way.add(batch.key)
        try:
            # One batch at a time: a plan depends on the positions that the previous plan stored.
            async with self._lock:
                return await self._store(batch)
        finally:
            self.under_way.discard(batch.key)

    async def _store(self, batch: SourcedBatch) -> StoreOutcome:
        runner = self.runner
        await runner.log.loaded()
        planned: deque[SourcedPlan] = deque(maxlen=1)

        async def plan(now: int) -> PlanBuilder:
            planned.append(await runner.plan_dead_letters(await self._not_stored(batch), now))
            return planned[0].plan

        try:
            await runner.submit(plan)
        except BaseException:
            self._positions = None  # The outcome is unknown here: read the positions again.
            raise
        assert self._positions is not None, "a plan has read them"
        for known in planned[0].plan.positions:
            self._positions[known.key] = known
        stopped = planned[0].stalled.get(0)
        return StoreOutcome(
            self._through(batch), None if stopped is None else ErrorBody.of(stopped)
        )

    def _through(self, batch: SourcedBatch) -> int:
        """Return the number up to which dead letters of this consumer are stored (0: none).

        Numbers of another era (an earlier numbering of the consumer) are ignored.
        """
        position = self._positions.get(batch.key) if self._positions is not None else None
        return position.seq if position is not None and position.identity == batch.identity else 0

    async def _not_stored(self, batch: SourcedBatch) -> SourcedBatch:
        """Return the batch without the dead letters that are stored already.

        Raises Unavailable if PostgreSQL does not answer.
        """
        if self._positions is None:
            positions = await self.runner.log.rows.positions()
            self._positions = {position.key: position for position in positions}
        rest = batch.after(self._through(batch)) if self._through(batch) else batch
        return rest.part(0, len(rest))
