"""Atomic batches and fast batches (ADR-50) among the publishes of one stream.

Queued publishes are cut where an atomic batch ends: those before it are decided and committed
first, then the whole batch in one transaction. So storage has all messages of the batch or none,
and readers never see a part of it. The messages of fast batches are decided together with other
publishes. Open batches are kept in memory, and time out by the node's timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.api_errors import api_error
from core.protocol.messages import MessageColumns
from core.rules.stream import headers as h
from core.rules.stream.batches.fast_ingest import SUFFIX, FastBatches, is_fast
from core.rules.stream.batches.open_batches import OpenBatch, Staging, ends_batch, split_author
from core.rules.stream.plans.atomic import decide_batch
from core.rules.stream.plans.fast_ingest import decide_fast
from core.rules.stream.plans.planner import decide
from core.rules.stream.texts import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from core.jetstream.log.preconditions import PreconditionReader
    from core.jetstream.timers import Timers
    from core.rules.stream.batches.open_batches import Quota
    from core.rules.stream.machine import StreamMachine
    from core.rules.stream.plan import PlanBuilder
    from core.rules.stream.preconditions import Preconditions
    from core.rules.stream.state.fast_batches import FastChanges
    from core.runtime.clock import Clock


class Batches:
    """The open batches (not yet ended by their publisher) of one stream.

    Args:
        machine: The state of the stream.
        preconditions: Reads data that a decision needs beside that state.
        clock: The clock.
        timers: The timer for timeouts of batches.
        quota: The node's limits on open batches.
        abandoned: Called with the id of a dropped batch and the reason.
    """

    def __init__(
        self,
        machine: StreamMachine,
        preconditions: PreconditionReader,
        clock: Clock,
        timers: Timers,
        quota: Quota,
        abandoned: Callable[[bytes, str], None],
    ) -> None:
        self._machine = machine
        self._preconditions = preconditions
        self._clock = clock
        self._timers = timers
        self._staging = Staging(quota, abandoned)
        self._fast = FastBatches(quota)
        self.armed = 0

    def configure(self) -> None:
        """Drop open batches of kinds that the stream no longer allows."""
        if not self._machine.config.allow_atomic:
            self._staging.clear()
        if not self._machine.config.allow_batched:
            self._fast.clear()

    def close(self) -> None:
        """Drop all open batches; later messages of them are refused as incomplete."""
        self._timers.forget(self)
        self._staging.clear()
        self._fast.clear()

    def committed(self, changes: FastChanges) -> None:
        """Apply the changes of fast batches after the commit of the messages that caused them."""
        self._fast.apply(changes)
        self._timers.at(self, self.deadline())

    def failed(self) -> None:
        """Drop all fast batches after a failed commit; their clients have to begin new ones."""
        self._fast.clear()

    def deadline(self) -> int | None:
        """Return when the next batch times out, in monotonic nanoseconds; None: never."""
        deadlines = [d for d in (self._staging.deadline(), self._fast.deadline()) if d is not None]
        return min(deadlines, default=None)

    def on_deadline(self, now: int) -> None:
        """Drop the batches that have timed out. `now` is in monotonic nanoseconds."""
        self._staging.expire(now)
        self._fast.expire(now)

    def concern(self, columns: MessageColumns) -> bool:
        """Return whether any of these messages may belong to an atomic or fast batch."""
        return (columns.has_headers and self._machine.config.allow_atomic) or is_fast(
            columns.replies
        )

    def split_at(self, columns: MessageColumns) -> int:
        """Return how many of the queued messages to decide next.

        The message that ends an atomic batch is decided alone, after all messages before it.
        """
        if columns.has_headers and self._machine.config.allow_atomic:
            for place, block in enumerate(columns.headers):
                if block and _ends_batch(columns, place):
                    return max(place, 1)
        return len(columns)

    async def decide(self, columns: MessageColumns, now: int) -> PlanBuilder:
        """Decide messages before the end of an atomic batch, or the end of one.

        Returns the plan: the rows to store and the answers. `now` is in nanoseconds since the Unix
        epoch. Raises Unavailable if PostgreSQL does not answer; nothing has changed then.
        """
        machine = self._machine
        is_atomic = columns.has_headers and self._machine.config.allow_atomic
        whole = self._with_batch(columns) if is_atomic else columns
        preconditions = await self._preconditions.read(whole, now)
        answers: dict[int, bytes] = {}
        refused: list[int] = []
        for place, found in _atomic(columns) if is_atomic else ():
            try:
                batch = self._add(columns, place, found, preconditions)
            except ApiError as error:
                answers[place] = refusal(error, machine.json_name)
                refused.append(error.err_code)
                continue
            if batch is not None:
                reply = columns.replies[place]
                if machine.config.no_ack and reply not in columns.answered:
                    reply = b""
                return decide_batch(machine, batch.name, batch.columns, reply, now, preconditions)
            answers[place] = b""
        times = now, self._clock.monotonic()
        if answers or is_fast(columns.replies):
            plan = decide_fast(machine, columns, answers, self._fast, times, preconditions)
        else:
            plan = decide(machine, columns, now, preconditions)
        for code in refused:
            plan.count_refused(code)
        self._timers.at(self, self.deadline())
        return plan

    def _with_batch(self, columns: MessageColumns) -> MessageColumns:
        """Return the messages that the plan may store.

        If the only message ends an atomic batch, these are all messages of the batch.
        """
        block = columns.headers[0]
        if len(columns) > 1 or not _ends_batch(columns, 0):
            return columns
        batch = self._staging.find(h.publish_headers(block))
        if batch is None:
            return columns
        whole = batch.columns.part(0, len(batch.columns))
        whole.extend(columns)
        return whole

    def _add(
        self,
        columns: MessageColumns,
        place: int,
        found: dict[bytes, bytes],
        preconditions: Preconditions,
    ) -> OpenBatch | None:
        """Add a message to its atomic batch; return the batch if the message ends it, else None.

        Raises ApiError if the stream or the batch refuses the message.
        """
        machine = self._machine
        _, block = split_author(columns.headers[place])
        payload = columns.payloads[place]
        if machine.config.sealed:
            raise api_error("JSStreamSealed")
        if 0 <= machine.config.max_msg_size < len(block) + len(payload):
            raise api_error("JSStreamMessageExceedsMaximum")
        if preconditions.storage_left is not None and preconditions.storage_left < 0:
            raise api_error("JSInsufficientResources")
        now = self._clock.monotonic()
        return self._staging.receive(columns.subjects[place], block, payload, found, now)


def _atomic(columns: MessageColumns) -> Iterator[tuple[int, dict[bytes, bytes]]]:
    """Yield (index, headers) of the messages that belong to atomic batches."""
    for place, block in enumerate(columns.headers):
        if block.find(h.BATCH_ID) < 0 or columns.replies[place].endswith(SUFFIX):
            continue
        found = h.publish_headers(block)
        if found.get(h.BATCH_ID):
            yield place, found


def _ends_batch(columns: MessageColumns, place: int) -> bool:
    return ends_batch(columns.headers[place]) and not columns.replies[place].endswith(SUFFIX)
