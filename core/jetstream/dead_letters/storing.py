"""Storing dead letters in their dead-letter streams, each exactly once, also after a crash.

    message ends ─▶ COMMIT of the consumer's state with the dead letter ─▶ COMMIT in the target:
    rows, and the last dead letter's number as a position ─▶ dead letters removed from the state

The target is the dead-letter stream. After a crash before its COMMIT, the dead letters are still in
the consumer's state. After a crash after it, the position shows that they are stored. If another
node leads the target, the dead letters are sent to that node; after a missing answer they are sent
again, also by a new leader of the consumer. While the target is missing or refuses dead letters,
storing is retried, and they count against `max_ack_pending` like unacknowledged messages.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from core.errors import ApiError, CoreError
from core.jetstream.dead_letters.peer_batches import NoPeers, PeerSender, StoreOutcome, error_of
from core.model.api_errors import err_code
from core.model.response import ErrorBody
from core.model.row_limits import MAX_SUBJECT
from core.rules.consumer.dead_letter import (
    TOO_LARGE,
    DeadLetter,
    EndedMessage,
    dead_letter_headers,
    dead_letter_subject,
)
from core.rules.stream.plans.sourced import SourcedBatch
from core.runtime.tasks import spawn, stop

if TYPE_CHECKING:
    from core.jetstream.dead_letters.local_streams import LocalDeadLetterStreams
    from core.jetstream.services import DeadLetterSource

log = logging.getLogger(__name__)

_AT_ONCE = 256
_BYTES_AT_ONCE = 8 << 20
_RETRY_FIRST_S, _RETRY_MAX_S = 0.1, 1.0
_WAIT_S = 2.0
_TOO_LARGE = {
    err_code("JSStreamMessageExceedsMaximum"),
    err_code("JSStreamHeaderExceedsMaximum"),
}


class DeadLetters:
    """Stores the dead letters of all consumers of an account in their dead-letter streams.

    Args:
        local: Stores dead letters in the streams that this node leads.

    Attributes:
        peers: Sends dead letters to peers, for streams that other nodes lead.
    """

    def __init__(self, local: LocalDeadLetterStreams) -> None:
        self.peers: PeerSender = NoPeers()
        self._local = local
        self._targets: dict[str, _Target] = {}
        self._stopped = False

    def schedule(self, consumer: DeadLetterSource) -> None:
        """Schedule the storing of the dead letters in a consumer's committed state."""
        name = consumer.machine.dead_letter_stream
        if name and not self._stopped:
            self._target(name).add(consumer)

    def _target(self, name: str) -> _Target:
        target = self._targets.get(name)
        if target is None:
            target = self._targets[name] = _Target(name, self._local, self.peers)
        return target

    async def await_stored(self, consumer: DeadLetterSource) -> None:
        """Wait until the dead letters of a consumer are stored, before the consumer is deleted.

        Waits at most two seconds (`_WAIT_S`), and only while the dead-letter stream has a leader.
        """
        name = consumer.machine.dead_letter_stream
        try:
            async with asyncio.timeout(_WAIT_S):
                while (
                    consumer.machine.pending_dead_letters
                    and not consumer.closed
                    and self._is_led(name)
                ):
                    await self._target(name).next_attempt()
        except TimeoutError:
            log.warning("consumer %s is deleted with dead letters not stored", consumer.name)

    def _is_led(self, name: str) -> bool:
        return name in self._local or self.peers.reaches(name)

    async def stop(self) -> None:
        """Stop storing dead letters; those not stored stay in the states of their consumers."""
        self._stopped = True
        await stop(*(target.task for target in self._targets.values()))


class _Target:
    """The dead letters for one dead-letter stream; `task` runs while consumers wait."""

    def __init__(self, name: str, local: LocalDeadLetterStreams, peers: PeerSender) -> None:
        self._name = name
        self._local, self._peers = local, peers
        self._waiting: dict[DeadLetterSource, None] = {}
        self._oversize: set[tuple[str, int]] = set()
        self._attempted = asyncio.Event()
        self._logged = ""
        self.task: asyncio.Task[None] | None = None

    def add(self, consumer: DeadLetterSource) -> None:
        """Queue the dead letters of a consumer, and start the task if none runs."""
        self._waiting[consumer] = None
        if self.task is None:
            self.task = spawn(self._run(), name=f"dead letters into {self._name}")

    async def next_attempt(self) -> None:
        """Return after the next attempt to store dead letters, successful or not."""
        self._attempted.clear()
        await self._attempted.wait()

    async def _run(self) -> None:
        pause = _RETRY_FIRST_S
        try:
            while self._waiting:
                consumer = next(iter(self._waiting))
                del self._waiting[consumer]
                try:
                    await self._store(consumer)
                    pause = _RETRY_FIRST_S
                    self._logged = ""
                except CoreError as error:
                    self._log_once(consumer, error)
                    self._waiting[consumer] = None
                    self._attempted.set()
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _RETRY_MAX_S)
                self._attempted.set()
        finally:
            self.task = None
            self._attempted.set()

    def _log_once(self, consumer: DeadLetterSource, error: CoreError) -> None:
        """Log an error unless the previous log line of this target has the same text."""
        if (text := str(error)) != self._logged:
            self._logged = text
            name = f"{consumer.log.name}.{consumer.name}"
            log.warning("dead letters of %s wait for stream %s: %s", name, self._name, text)

    async def _store(self, consumer: DeadLetterSource) -> None:
        """Store the oldest dead letters in a consumer's committed state.

        Raises ApiError if the dead-letter stream refuses them, StorageError if PostgreSQL fails.
        """
        machine = consumer.machine
        if consumer.closed or machine.dead_letter_stream != self._name or not _due(consumer, 1):
            return
        batch = await self._build(consumer)
        outcome = await self._deliver(batch)
        if outcome.refused is not None:
            raise error_of(outcome.refused)
        if not consumer.closed and consumer.machine.pending_dead_letters.era == batch.identity:
            self._apply_outcome(consumer, batch, outcome)

    async def _deliver(self, batch: SourcedBatch) -> StoreOutcome:
        """Store dead letters on this node, or send them to the node that leads the stream.

        For a batch that is too large to send the outcome has an error in `stopped`. Raises ApiError
        if the batch is refused, StorageError if PostgreSQL fails.
        """
        if self._name in self._local or not self._peers.reaches(self._name):
            return await self._local.store(self._name, batch)
        try:
            return await self._peers.send(self._name, batch)
        except ApiError as error:
            if not is_too_large(error):
                raise
            return StoreOutcome(stopped=ErrorBody.of(error))

    def _apply_outcome(
        self, consumer: DeadLetterSource, batch: SourcedBatch, outcome: StoreOutcome
    ) -> None:
        """Remove stored dead letters from the consumer's state, and queue it for the rest.

        Raises ApiError if a dead letter was refused, except for one retry without headers and
        payload.
        """
        if outcome.through:
            consumer.remove_dead_letters(outcome.through)
            stored = {
                o for o in self._oversize if o[0] == batch.identity and o[1] <= outcome.through
            }
            self._oversize -= stored
        if _due(consumer, 1):
            self._waiting[consumer] = None
        if outcome.stopped is not None:
            # The first dead letter that was not stored: retry it once without headers and payload.
            error = error_of(outcome.stopped)
            place = batch.identity, max(outcome.through + 1, batch.seqs[0])
            if not is_too_large(error) or place in self._oversize:
                raise error
            self._oversize.add(place)

    # -- writing dead letters ----------------------------------------------------------------

    async def _build(self, consumer: DeadLetterSource) -> SourcedBatch:
        """Build the batch of the oldest dead letters in a consumer's committed state.

        The batch has at most `_AT_ONCE` dead letters, or about `_BYTES_AT_ONCE` bytes of headers
        and payloads. Raises Unavailable if PostgreSQL does not answer.
        """
        log, pending = consumer.log, consumer.machine.pending_dead_letters
        oldest = _due(consumer, _AT_ONCE)
        batch = SourcedBatch(f"dead {log.name} {consumer.name}", pending.era, 0)
        found = await log.get_all(
            [dead_letter.sseq for _, dead_letter in oldest if log.is_live(dead_letter.sseq)]
        )
        nbytes = 0
        for number, dead_letter in oldest:
            origin, payload, lacks = EndedMessage(log.name, consumer.name), b"", "gone"
            if (message := found.get(dead_letter.sseq)) is not None and log.is_live(
                dead_letter.sseq
            ):
                _, ts, subject, headers, payload = message
                origin = EndedMessage(log.name, consumer.name, subject, ts, headers)
                lacks = ""
            if (batch.identity, number) in self._oversize:
                origin, payload, lacks = origin._replace(headers=b""), b"", TOO_LARGE
            nbytes += len(origin.headers) + len(payload)
            if batch.seqs and nbytes > _BYTES_AT_ONCE:
                break
            self._add(batch, origin, dead_letter, payload, lacks)
            batch.seqs.append(number)
            batch.times.append(0)
            batch.through = number
        return batch

    def _add(
        self,
        batch: SourcedBatch,
        origin: EndedMessage,
        dead_letter: DeadLetter,
        payload: bytes,
        lacks: str,
    ) -> None:
        subject = dead_letter_subject(self._name, origin, MAX_SUBJECT)
        batch.columns.add(
            subject, b"", dead_letter_headers(origin, dead_letter, lacks=lacks), payload
        )


def _due(consumer: DeadLetterSource, limit: int) -> list[tuple[int, DeadLetter]]:
    """Return up to `limit` (number, dead letter) pairs of a consumer, oldest first.

    Only dead letters in the consumer's committed state are returned.
    """
    return consumer.machine.pending_dead_letters.oldest(limit, consumer.dead_letters_due)


def is_too_large(error: ApiError) -> bool:
    """Return whether the error means that a dead letter is too large for its stream."""
    return error.err_code in _TOO_LARGE or error.description.endswith("message too large")
