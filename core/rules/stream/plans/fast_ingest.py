"""Deciding publishes that include messages of fast-ingest batches (ADR-50)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.api_errors import err_code
from core.rules.stream import headers as h
from core.rules.stream.batches.fast_ingest import SUFFIX
from core.rules.stream.batches.open_batches import split_author, without
from core.rules.stream.plans.checks import FAST, PUBLISHED
from core.rules.stream.plans.planner import Planner
from core.rules.stream.texts import refusal

if TYPE_CHECKING:
    from core.protocol.messages import MessageColumns
    from core.rules.stream.batches.fast_ingest import FastBatches, FastDraft, FastMessage
    from core.rules.stream.machine import StreamMachine
    from core.rules.stream.plan import PlanBuilder
    from core.rules.stream.preconditions import Preconditions

_WRONG_LAST_ID = err_code("JSStreamWrongLastMsgID")
_NO_ANSWERS: list[bytes] = []


def decide_fast(
    machine: StreamMachine,
    columns: MessageColumns,
    answers: dict[int, bytes],
    fast: FastBatches,
    times: tuple[int, int],
    preconditions: Preconditions,
) -> PlanBuilder:
    """Return the plan for publishes, some of which belong to fast-ingest batches.

    Args:
        machine: The state of the stream.
        columns: The messages.
        answers: The answers of messages that are answered already, by index.
        fast: The open fast batches. The plan contains their changes.
        times: Wall-clock time since the Unix epoch, and monotonic time, in nanoseconds.
        preconditions: Data that the decision needs beside the state of the stream, as for
            `planner.decide`.
    """
    draft = fast.draft(machine)
    plan = _FastPlanner(machine, columns, times, preconditions, answers, draft).decide()
    plan.fast = draft.changes
    return plan


class _FastPlanner(Planner):
    """The planner of a batch of publishes of which some belong to fast-ingest batches.

    Messages of a fast-ingest batch are answered as the state of that batch requires.
    """

    def __init__(
        self,
        machine: StreamMachine,
        columns: MessageColumns,
        times: tuple[int, int],
        preconditions: Preconditions,
        answers: dict[int, bytes],
        fast: FastDraft,
    ) -> None:
        now, self._monotonic = times
        super().__init__(machine, columns, now, preconditions)
        self._answers = answers
        self._fast = fast
        # The current message, if it belongs to a fast batch.
        self._message: FastMessage | None = None

    def store_whole(self) -> bool:
        return False

    def accept_all(self) -> bool:
        columns, draft, answers = self.columns, self.draft, self._answers
        draft.refused.update(answers)
        is_simple = self.is_clean and not self.is_limited and draft.counting is None
        subjects, replies = columns.subjects, columns.replies
        blocks, payloads = columns.headers, columns.payloads
        place = 0
        while place < len(columns):
            if place not in answers and replies[place].endswith(SUFFIX):
                self._accept_fast(place)
                if is_simple and not blocks[place]:
                    place += self._accept_following(place + 1)
            elif place not in answers:
                self.accept(place, subjects[place], blocks[place], payloads[place], PUBLISHED)
            place += 1
        return True

    def _accept_following(self, place: int) -> int:
        """Accept the directly following messages of the batch that have no headers.

        Returns their number.
        """
        columns, draft, fast = self.columns, self.draft, self._fast
        count = fast.following(columns.replies, columns.headers, place)
        if count:
            draft.next_seq += count
            draft.blocks += [None] * count
            draft.last_msg_id = b""
            self.has_answers.update(dict.fromkeys(range(place, place + count), _NO_ANSWERS))
            reply, seq = columns.replies[place - 1], draft.next_seq - 1
            for offset, told in fast.stored_all(reply, count, seq, self._monotonic):
                self.has_answers[place + offset] = told
        return count

    def _accept_fast(self, place: int) -> None:
        """Check a message of a fast-ingest batch; collect the answers to the batch's publisher."""
        columns, draft, fast = self.columns, self.draft, self._fast
        author, block = split_author(columns.headers[place])
        payload = columns.payloads[place]
        told = self.has_answers[place] = []
        try:
            message = fast.check(columns.replies[place], block, payload, author)
        except ApiError as error:
            draft.refused[place] = b""
            self.plan.count_refused(error.err_code)
            if not self.machine.config.no_ack:
                told.append(refusal(error, self.machine.json_name))
            return
        fast.answers = told
        if not fast.accept(message, self._monotonic):
            draft.refused[place] = b""
            return
        if block.find(h.REQUIRED_LEVEL) >= 0:
            block = without(block, h.REQUIRED_LEVEL + b":")
        self._message = message
        self.accept(place, columns.subjects[place], block, payload, FAST)
        self._message = None
        if place not in draft.refused:
            fast.stored(message, draft.next_seq - 1)

    def refuse(self, place: int, error: ApiError) -> None:
        if self._message is None:
            super().refuse(place, error)
            return
        self.draft.refused[place] = b""
        self.plan.count_refused(error.err_code)
        if error.err_code == _WRONG_LAST_ID:
            self._fast.passed(self._message, error)
        else:
            self._fast.refused(self._message, error)

    def duplicate(self, place: int, seq: int) -> None:
        if self._message is None:
            super().duplicate(place, seq)
            return
        self.draft.refused[place] = b""
        self._fast.copied(self._message, seq)
