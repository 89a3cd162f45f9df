"""Delivery of dead letters to their streams: each is stored exactly once, also after a crash.

    message ends ─▶ COMMIT of the consumer's state with the ending ─▶ letters of the consumer
    ─▶ one plan of the target: rows, and the last letter's number as a position ─▶ endings removed

After a crash before the plan's COMMIT, the endings are still in the consumer's state. After a
crash after it, the position records that the letters are stored. If another node leads the
target stream, the letters are sent to that node; they are sent again after a missing answer and
by a new leader of the consumer. While the target is missing or refuses letters, the transfer is
retried, and the endings count against `max_ack_pending` like unacknowledged messages.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from core.errors import ApiError, CoreError
from core.jetstream.dead_letters.parcel import Nobody, Post, Taken, error_of
from core.model.api_errors import err_code
from core.model.response import ErrorBody
from core.model.row_limits import MAX_SUBJECT
from core.rules.consumer.dead_letter import (
    TOO_LARGE,
    Ending,
    Origin,
    letter_headers,
    letter_subject,
)
from core.rules.stream.plans.sourced import Run
from core.runtime.tasks import spawn, stop

if TYPE_CHECKING:
    from core.jetstream.dead_letters.boxes import Boxes
    from core.jetstream.services import LetterWriter

log = logging.getLogger(__name__)

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
        boxes: Stores letters in the streams that this node leads.

    Attributes:
        post: Sends letters to peers.
    """

    def __init__(self, boxes: Boxes) -> None:
        self.post: Post = Nobody()
        self._boxes = boxes
        self._targets: dict[str, _Target] = {}
        self._stopped = False

    def take(self, consumer: LetterWriter) -> None:
        """Schedule the storing of a consumer's due dead letters."""
        name = consumer.machine.dead_letters
        if name and not self._stopped:
            self._target(name).take(consumer)

    def _target(self, name: str) -> _Target:
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = _Target(name, self._boxes, self.post)
        return target

    async def taken(self, consumer: LetterWriter) -> None:
        """Wait until the dead letters of a consumer are stored.

        Waits at most two seconds (`_PATIENCE_S`), and only while the target stream has a leader.
        """
        name = consumer.machine.dead_letters
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while consumer.machine.endings and not consumer.closed and self._is_led(name):
                    await self._target(name).turn()
        except TimeoutError:
            log.warning("consumer %s goes with dead letters not stored", consumer.name)

    def _is_led(self, name: str) -> bool:
        return name in self._boxes or self.post.reaches(name)

    async def stop(self) -> None:
        """Stop storing letters; the remaining endings stay in the states of the consumers."""
        self._stopped = True
        await stop(*(target.task for target in self._targets.values()))


class _Target:
    """The letters for one target stream; `task` runs while consumers wait."""

    def __init__(self, name: str, boxes: Boxes, post: Post) -> None:
        self._name = name
        self._boxes, self._post = boxes, post
        self._waiting: dict[LetterWriter, None] = {}
        self._oversize: set[tuple[str, int]] = set()
        self._turned = asyncio.Event()
        self._complained = ""
        self.task: asyncio.Task[None] | None = None

    def take(self, consumer: LetterWriter) -> None:
        """Queue the letters of a consumer, and start the task if none runs."""
        self._waiting[consumer] = None
        if self.task is None:
            self.task = spawn(self._run(), name=f"dead letters into {self._name}")

    async def turn(self) -> None:
        """Return after the next attempt to store letters, successful or not."""
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
        """Log an error unless the previous log line of this target has the same text."""
        if (text := str(error)) != self._complained:
            self._complained = text
            name = f"{consumer.log.name}.{consumer.name}"
            log.warning("dead letters of %s wait for stream %s: %s", name, self._name, text)

    async def _store(self, consumer: LetterWriter) -> None:
        """Store the oldest due letters of a consumer. Raises ApiError and StorageError."""
        machine = consumer.machine
        if consumer.closed or machine.dead_letters != self._name or not _due(consumer, 1):
            return
        run = await self._letters(consumer)
        taken = await self._deliver(run)
        if taken.refused is not None:
            raise error_of(taken.refused)
        if not consumer.closed and consumer.machine.endings.era == run.identity:
            self._taken(consumer, run, taken)

    async def _deliver(self, run: Run) -> Taken:
        """Store letters here, or send them to the leader of the stream.

        A run that is too large to send is returned as stopped. Raises ApiError and StorageError.
        """
        if self._name in self._boxes or not self._post.reaches(self._name):
            return await self._boxes.store(self._name, run)
        try:
            return await self._post.send(self._name, run)
        except ApiError as error:
            if not is_too_large(error):
                raise
            return Taken(stopped=ErrorBody.of(error))

    def _taken(self, consumer: LetterWriter, run: Run, taken: Taken) -> None:
        """Remove the stored endings from the consumer, and queue the rest. Raises ApiError."""
        if taken.through:
            consumer.letters_taken(taken.through)
            stored = {o for o in self._oversize if o[0] == run.identity and o[1] <= taken.through}
            self._oversize -= stored
        if _due(consumer, 1):
            self._waiting[consumer] = None
        if taken.stopped is not None:
            # The first letter that was not stored: retry it once without headers and payload.
            error = error_of(taken.stopped)
            place = run.identity, max(taken.through + 1, run.seqs[0])
            if not is_too_large(error) or place in self._oversize:
                raise error
            self._oversize.add(place)

    # -- writing letters ---------------------------------------------------------------------

    async def _letters(self, consumer: LetterWriter) -> Run:
        """Build the oldest due letters of a consumer. Raises Unavailable.

        At most `_AT_ONCE` letters, or about `_BYTES_AT_ONCE` bytes of headers and payloads.
        """
        log, endings = consumer.log, consumer.machine.endings
        oldest = _due(consumer, _AT_ONCE)
        run = Run(f"dead {log.name} {consumer.name}", endings.era, 0)
        found = await log.get_all([ending.sseq for _, ending in oldest if log.is_live(ending.sseq)])
        nbytes = 0
        for number, ending in oldest:
            origin, payload, lacks = Origin(log.name, consumer.name), b"", "gone"
            if (message := found.get(ending.sseq)) is not None and log.is_live(ending.sseq):
                _, ts, subject, headers, payload = message
                origin = Origin(log.name, consumer.name, subject, ts, headers)
                lacks = ""
            if (run.identity, number) in self._oversize:
                origin, payload, lacks = origin._replace(headers=b""), b"", TOO_LARGE
            nbytes += len(origin.headers) + len(payload)
            if run.seqs and nbytes > _BYTES_AT_ONCE:
                break
            self._add(run, origin, ending, payload, lacks)
            run.seqs.append(number)
            run.times.append(0)
            run.through = number
        return run

    def _add(self, run: Run, origin: Origin, ending: Ending, payload: bytes, lacks: str) -> None:
        subject = letter_subject(self._name, origin, MAX_SUBJECT)
        run.columns.add(subject, b"", letter_headers(origin, ending, lacks=lacks), payload)


def _due(consumer: LetterWriter, limit: int) -> list[tuple[int, Ending]]:
    """Return up to `limit` (number, ending) pairs that a committed state contains, oldest first."""
    return consumer.machine.endings.oldest(limit, consumer.letters_due)


def is_too_large(error: ApiError) -> bool:
    """Return whether the error refuses a letter for its size."""
    return error.err_code in _TOO_LARGE or error.description.endswith("message too large")
