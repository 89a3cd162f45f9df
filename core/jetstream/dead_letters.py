"""Dead letters into their streams: once each, whatever crashes.

    message ends ─▶ the consumer's state is committed, the ending in it ─▶ letters of the consumer
    ─▶ one plan of the target: rows, and the number of the last letter as a position ─▶ endings go

A crash before the plan leaves the endings in the state; one after it leaves the position, which
says that they are stored. A target that is not there, or takes nothing, is asked again; meanwhile
the endings hold up deliveries as unacknowledged messages do (`max_ack_pending`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from core.consumer.dead_letter import Ending, Origin, letter_headers, letter_subject
from core.errors import ApiError, CoreError
from core.model.api_errors import api_error, err_code
from core.runtime.tasks import spawn, stop
from core.stream.copying import Run
from core.stream.plan import Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.jetstream.services import LetterWriter
    from core.jetstream.stream.runner import StreamRunner
    from core.stream.copying import Copied
    from core.stream.plan import StreamPlan

logger = logging.getLogger("jetgate.dead_letters")

_AT_ONCE = 256
_BYTES_AT_ONCE = 8 << 20
_RETRY_FIRST_S, _RETRY_MAX_S = 0.1, 1.0
_PATIENCE_S = 2.0
_TOO_LARGE = {
    err_code("JSStreamMessageExceedsMaximum"),
    err_code("JSStreamHeaderExceedsMaximum"),
}


class DeadLetters:
    """The dead letters of all consumers of an account.

    Args:
        streams: The streams of the account by name.
    """

    def __init__(self, streams: Mapping[str, StreamRunner]) -> None:
        self._streams = streams
        self._targets: dict[str, _Target] = {}
        self._stopped = False

    def take(self, consumer: LetterWriter) -> None:
        """Store the dead letters of a consumer that are due, soon."""
        name = consumer.machine.dead_letters
        if name and not self._stopped:
            self._target(name).take(consumer)

    def _target(self, name: str) -> _Target:
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = _Target(name, self._streams)
        return target

    async def taken(self, consumer: LetterWriter) -> None:
        """Return when those of a consumer are stored.

        Not for ever: two seconds, and not at all for a stream that is not there.
        """
        name = consumer.machine.dead_letters
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while consumer.machine.endings and not consumer.closed and name in self._streams:
                    await self._target(name).turn()
        except TimeoutError:
            logger.warning("consumer %s goes with dead letters not stored", consumer.name)

    async def stop(self) -> None:
        """Store no more: what is left is in the states of the consumers."""
        self._stopped = True
        await stop(*(target.task for target in self._targets.values()))


class _Target:
    """The letters for one stream; its task lives while there are some."""

    def __init__(self, name: str, streams: Mapping[str, StreamRunner]) -> None:
        self._name = name
        self._streams = streams
        self._waiting: dict[LetterWriter, None] = {}
        self._positions: dict[str, Position] = {}
        self._positions_of: StreamRunner | None = None
        self._oversize: set[tuple[str, int]] = set()
        self._turned = asyncio.Event()
        self._complained = ""
        self.task: asyncio.Task[None] | None = None

    def take(self, consumer: LetterWriter) -> None:
        """Store what a consumer has."""
        self._waiting[consumer] = None
        if self.task is None:
            self.task = spawn(self._run(), name=f"dead letters into {self._name}")

    async def turn(self) -> None:
        """Return after something was tried."""
        self._turned.clear()
        await self._turned.wait()

    async def _run(self) -> None:
        pause = _RETRY_FIRST_S
        try:
            while self._waiting:
                consumer = next(iter(self._waiting))
                del self._waiting[consumer]
                try:
                    await self._store(consumer)
                    pause = _RETRY_FIRST_S
                    self._complained = ""
                except CoreError as error:
                    self._complain(consumer, error)
                    self._waiting[consumer] = None
                    self._turned.set()
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _RETRY_MAX_S)
                self._turned.set()
        finally:
            self.task = None
            self._turned.set()

    def _complain(self, consumer: LetterWriter, error: CoreError) -> None:
        """Say it once for each reason."""
        if (text := str(error)) != self._complained:
            self._complained = text
            name = f"{consumer.log.name}.{consumer.name}"
            logger.warning("dead letters of %s wait for stream %s: %s", name, self._name, text)

    async def _store(self, consumer: LetterWriter) -> None:
        """Store some of a consumer's letters. Raises ApiError and StorageError."""
        machine = consumer.machine
        if consumer.closed or machine.dead_letters != self._name or not _due(consumer, 1):
            return
        runner = self._streams.get(self._name)
        if runner is None:
            raise api_error("JSStreamNotFound")
        if runner.config.mirror is not None:
            raise api_error("JSStreamStoreFailed", err="a mirror takes no dead letters")
        await runner.log.loaded()
        run = await self._letters(consumer)
        copied: deque[Copied] = deque(maxlen=1)

        async def plan(now: int) -> StreamPlan:
            copied.append(await runner.plan_copies(await self._fresh(runner, run), now))
            return copied[0].plan

        await runner.submit(plan)
        self._committed(consumer, run, copied[0])

    def _committed(self, consumer: LetterWriter, run: Run, copied: Copied) -> None:
        """Tell the consumer what is stored; go on with the rest."""
        for known in copied.plan.positions:
            self._positions[known.key] = known
        position = self._positions.get(run.key)
        if position is not None and position.identity == run.identity:
            consumer.letters_taken(position.seq)
            stored = {o for o in self._oversize if o[0] == run.identity and o[1] <= position.seq}
            self._oversize -= stored
        if _due(consumer, 1):
            self._waiting[consumer] = None
        if (error := copied.stalled.get(0)) is not None:
            # The first that was not stored; perhaps it can be without headers and payload.
            last = 0
            if position is not None and position.identity == run.identity:
                last = position.seq
            place = run.identity, max(last + 1, run.seqs[0])
            if not is_too_large(error) or place in self._oversize:
                raise error
            self._oversize.add(place)

    async def _fresh(self, runner: StreamRunner, run: Run) -> Run:
        """Return a run without the letters that are stored already. Raises Unavailable."""
        if self._positions_of is not runner:
            positions = await runner.log.rows.positions()
            self._positions = {position.key: position for position in positions}
            self._positions_of = runner
        position = self._positions.get(run.key)
        if position is None or position.identity != run.identity:
            return run.part(0, len(run))
        return run.after(position.seq).part(0, len(run))

    # -- writing letters ---------------------------------------------------------------------

    async def _letters(self, consumer: LetterWriter) -> Run:
        """Write the oldest letters of a consumer. Raises Unavailable."""
        log, endings = consumer.log, consumer.machine.endings
        oldest = _due(consumer, _AT_ONCE)
        run = Run(f"dead {log.name} {consumer.name}", endings.era, 0)
        found = await log.get_all([ending.sseq for _, ending in oldest if log.is_live(ending.sseq)])
        columns = run.columns
        for number, ending in oldest:
            origin, payload, lacks = Origin(log.name, consumer.name), b"", "gone"
            if (message := found.get(ending.sseq)) is not None and log.is_live(ending.sseq):
                _, ts, subject, headers, payload = message
                origin = Origin(log.name, consumer.name, subject, ts, headers)
                lacks = ""
            if (run.identity, number) in self._oversize:
                origin, payload, lacks = origin._replace(headers=b""), b"", "too-large"
            self._add(run, origin, ending, payload, lacks)
            run.seqs.append(number)
            run.times.append(0)
            run.through = number
            if columns.nbytes >= _BYTES_AT_ONCE:
                break
        return run

    def _add(self, run: Run, origin: Origin, ending: Ending, payload: bytes, lacks: str) -> None:
        columns = run.columns
        columns.subjects.append(letter_subject(self._name, origin))
        columns.replies.append(b"")
        columns.headers.append(letter_headers(origin, ending, lacks=lacks))
        columns.payloads.append(payload)
        columns.nbytes += len(payload)
        columns.headered = True


def _due(consumer: LetterWriter, limit: int) -> list[tuple[int, Ending]]:
    """Return the oldest endings that a durable state tells of, with their numbers."""
    return consumer.machine.endings.oldest(limit, consumer.letters_due)


def is_too_large(error: ApiError) -> bool:
    """Say whether a letter was refused for its size."""
    return error.err_code in _TOO_LARGE or error.description.endswith("message too large")
