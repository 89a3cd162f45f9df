"""Atomic batches of one stream, between its publishes and its plans (ADR-50).

What is gathered is cut where a batch ends: what is before is decided first, then the batch is one
plan of one transaction, however many messages it has. So storage holds all of it or nothing, and
readers, who learn of a plan as a whole, never see a part. Open batches live in memory, and time
out on the one timer of the node.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from core.errors import ApiError
from core.jetstream.facts import facts_for
from core.model.api_errors import api_error
from core.stream import headers as h
from core.stream.atomic import decide_batch, decide_others
from core.stream.batching import OpenBatch, Staging, ends_batch
from core.stream.plan import Columns
from core.stream.texts import refusal

if TYPE_CHECKING:
    from core.jetstream.stream_runner import StreamRunner
    from core.stream.plan import StreamPlan


class Batches:
    """The open batches of a stream that allows them."""

    def __init__(self, runner: StreamRunner) -> None:
        self._runner = runner
        self._clock = runner.shell.clock
        self._timers = runner.shell.timers
        abandoned = partial(runner.advisories.batch_abandoned, runner.name)
        self._staging = Staging(runner.shell.batches, abandoned)
        self.armed = 0

    def close(self) -> None:
        """Forget what is open; whoever goes on with it is told that it is incomplete."""
        self._timers.forget(self)
        self._staging.clear()

    def deadline(self) -> int | None:
        """Return when the next batch runs out of time."""
        return self._staging.deadline()

    def on_deadline(self, now: int) -> None:
        """Drop what has waited too long."""
        self._staging.expire(now)

    def cut(self, columns: Columns) -> int:
        """Return how many of the gathered messages to decide next: none behind the end of a batch,
        which is decided alone.
        """
        for place, block in enumerate(columns.headers):
            if block and ends_batch(block):
                return max(place, 1)
        return len(columns)

    async def decide(self, columns: Columns, now: int) -> StreamPlan:
        """Return the plan for messages up to an end of a batch, or for that end alone.

        When this raises, nothing has changed.
        """
        machine = self._runner.machine
        whole = self._with_batch(columns)
        rollups = await facts_for(self._runner, whole, now) or {}
        answers: dict[int, bytes] = {}
        for place, block in enumerate(columns.headers):
            found = h.publish_headers(block) if block.find(h.BATCH_ID) >= 0 else {}
            if not found.get(h.BATCH_ID):
                continue
            try:
                batch = self._take(columns, place, found)
            except ApiError as error:
                answers[place] = refusal(error, machine.json_name)
                continue
            if batch is not None:
                reply = columns.replies[place]
                return decide_batch(machine, batch.name, batch.columns, reply, now, rollups)
            answers[place] = b""
        self._timers.at(self, self.deadline())
        if not answers:
            return machine.decide(columns, now, rollups)
        return decide_others(machine, columns, answers, now, rollups)

    def _with_batch(self, columns: Columns) -> Columns:
        """Return the messages that a plan may store: those of the batch too that ends here."""
        block = columns.headers[0]
        if len(columns) > 1 or not ends_batch(block):
            return columns
        batch = self._staging.open.get(h.publish_headers(block)[h.BATCH_ID])
        if batch is None:
            return columns
        whole = batch.columns.part(0, len(batch.columns))
        whole.extend(columns)
        return whole

    def _take(self, columns: Columns, place: int, found: dict[bytes, bytes]) -> OpenBatch | None:
        """Put a message aside, or return the batch that it completes. Raises ApiError."""
        machine = self._runner.machine
        block, payload = columns.headers[place], columns.payloads[place]
        if self._runner.batches is not self:
            raise api_error(10174)
        if machine.config.sealed:
            raise api_error(10109)
        if 0 <= machine.config.max_msg_size < len(block) + len(payload):
            raise api_error(10054)
        if machine.allowance is not None and machine.allowance < 0:
            raise api_error(10023)
        now = self._clock.monotonic()
        return self._staging.take(columns.subjects[place], block, payload, found, now)


def batches_for(runner: StreamRunner, batches: Batches | None) -> Batches | None:
    """Return what holds the open batches of a stream if it allows them; else forget them."""
    if runner.config.allow_atomic:
        return batches or Batches(runner)
    if batches is not None:
        batches.close()
    return None
