"""Publishes of which some are messages of fast-ingest batches (ADR-50)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.api_errors import api_error, err_code
from core.stream import headers as h
from core.stream.batching import without
from core.stream.discard_new import Capacity
from core.stream.fast import SUFFIX
from core.stream.judge import Duplicate, Judge
from core.stream.schedule_headers import HEADERS as SCHEDULING
from core.stream.texts import refusal, texts_of

if TYPE_CHECKING:
    from core.stream.facts import Facts
    from core.stream.fast import FastBatches, FastMessage
    from core.stream.machine import StreamMachine
    from core.stream.plan import Columns, StreamPlan

_WRONG_LAST_ID = err_code("JSStreamWrongLastMsgID")
_NOTHING_TOLD: list[bytes] = []


def decide_fast(
    machine: StreamMachine,
    columns: Columns,
    answers: dict[int, bytes],
    fast: FastBatches,
    times: tuple[int, int],
    facts: Facts,
) -> StreamPlan:
    """Return the plan for publishes of which some are those of fast batches.

    Args:
        machine: of the stream.
        columns: the messages.
        answers: of messages that have theirs already, by place.
        fast: the open fast batches, which take note of their messages.
        times: wall-clock and monotonic, in nanoseconds.
        facts: as for `StreamMachine.decide`.
    """
    plan = machine.unchanged()
    capacity = None
    if machine.refuses and not machine.fits_limits(columns, facts):
        capacity = Capacity(machine, facts.replaced)
    judge = FastJudge(machine, plan, capacity, facts)
    if facts.storage_left is not None and machine.coming(columns, facts) > facts.storage_left:
        judge.storage_left = facts.storage_left
    judge.counting = machine.counting(facts)
    judge.judge_fast(columns, answers, fast, times)
    machine.evict(plan, times[0])
    return plan


class FastJudge(Judge):
    """Judges message by message; used once."""

    # The place and subject of the message at hand if it is one of a fast batch: its headers for
    # atomic batches say nothing, the others are checked in the order of batches.
    _fast: tuple[int, bytes] | None = None

    def judge_fast(
        self,
        columns: Columns,
        answers: dict[int, bytes],
        fast: FastBatches,
        times: tuple[int, int],
    ) -> None:
        """Fill the plan; every message is answered, in order, those of fast batches as they say."""
        subjects = columns.subjects
        texts = texts_of(subjects)
        self._subjects = subjects
        self._clean = texts is not None and self._fits(columns)
        self._refused.update(answers)
        self.now, monotonic = times
        is_simple = self._clean and self._capacity is None and self.storage_left is None
        is_simple = is_simple and self.counting is None
        replies, blocks, payloads = columns.replies, columns.headers, columns.payloads
        place = 0
        while place < len(columns):
            row = subjects[place], replies[place], blocks[place], payloads[place]
            if place not in answers and replies[place].endswith(SUFFIX):
                self._take_fast(fast, place, row, monotonic)
                if is_simple and not blocks[place]:
                    place += self._take_following(fast, columns, place + 1, monotonic)
            elif place not in answers:
                self._take(place, row)
            place += 1
        self._finish(columns, texts, self.now)

    def _take(self, place: int, row: tuple[bytes, bytes, bytes, bytes]) -> None:
        """Judge a message that is in no batch."""
        subject, _, block, payload = row
        try:
            self._accept(place, subject, block, payload, self.now)
        except ApiError as error:
            self._refused[place] = refusal(error, self.machine.json_name)
        except Duplicate as duplicate:
            self._refused[place] = self._duplicate(duplicate.seq)

    def _take_following(
        self, fast: FastBatches, columns: Columns, place: int, monotonic: int
    ) -> int:
        """Take at once what goes on in order and has no headers; return how many these are."""
        count = fast.following(columns.replies, columns.headers, place)
        if count:
            self.next_seq += count
            self._headers += [None] * count
            self._last_id = b""
            self._told.update(dict.fromkeys(range(place, place + count), _NOTHING_TOLD))
            reply = columns.replies[place - 1]
            for offset, told in fast.stored_all(reply, count, self.next_seq - 1, monotonic):
                self._told[place + offset] = told
        return count

    def _take_fast(
        self, fast: FastBatches, place: int, row: tuple[bytes, bytes, bytes, bytes], monotonic: int
    ) -> None:
        """Judge a message of a fast batch, and let the batch say what is to be told."""
        _, reply, block, payload = row
        told = self._told[place] = []
        try:
            message = fast.check(reply, block, payload)
        except ApiError as error:
            self._refused[place] = b""
            if not self.machine.config.no_ack:
                told.append(refusal(error, self.machine.json_name))
            return
        fast.told = told
        if not fast.judging(message, monotonic) or not self._is_taken(fast, message, place, row):
            self._refused[place] = b""

    def _is_taken(
        self,
        fast: FastBatches,
        message: FastMessage,
        place: int,
        row: tuple[bytes, bytes, bytes, bytes],
    ) -> bool:
        subject, _, block, payload = row
        if block.find(h.REQUIRED_LEVEL) >= 0:
            block = without(block, h.REQUIRED_LEVEL + b":")
        self._fast = place, subject
        try:
            self._accept(place, subject, block, payload, self.now)
        except ApiError as error:
            if error.err_code == _WRONG_LAST_ID:
                fast.passed(message, error)
            else:
                fast.refused(message, error)
            return False
        except Duplicate as duplicate:
            fast.copied(message, duplicate.seq)
            return False
        finally:
            self._fast = None
        fast.stored(message, self.next_seq - 1)
        return True

    def _check_no_batch(self, found: dict[bytes, bytes]) -> None:
        if self._fast is None:
            super()._check_no_batch(found)

    def _check_found(
        self, place: int, subject: bytes, payload: bytes, found: dict[bytes, bytes]
    ) -> None:
        if self._fast is None:
            super()._check_found(place, subject, payload, found)
        else:
            self._check_in_batch(payload, found)

    def _check_rest(self, found: dict[bytes, bytes]) -> bytes:
        if self._fast is None:
            return super()._check_rest(found)
        place, subject = self._fast
        if found.get(h.STREAM_SOURCE):
            raise api_error("JSMessageSourceHdrNotAllowed")
        self._check_last(found)
        self._check_last_of_subject(place, subject, found)
        if not SCHEDULING.isdisjoint(found):
            self._check_scheduling(place, subject, found)
        rollup = self._check_rollup(found)
        self._check_last_id(found)
        return rollup
