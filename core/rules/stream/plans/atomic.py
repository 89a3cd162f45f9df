"""Deciding atomic batches: the stream accepts all messages of a batch, or none (ADR-50).

The checks are those of single publishes in another order (`checks.ATOMIC`). Special rules apply if
a message would depend on another message of its batch. Limits that refuse new messages count every
message of the batch, including messages that the batch itself replaces.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from core.model.api_errors import api_error
from core.rules.stream.batches.open_batches import quoted
from core.rules.stream.counters import Counting
from core.rules.stream.plans.checks import ATOMIC
from core.rules.stream.plans.planner import Planner
from core.rules.stream.texts import refusal

if TYPE_CHECKING:
    from core.errors import ApiError
    from core.protocol.messages import MessageColumns
    from core.rules.stream.machine import StreamMachine
    from core.rules.stream.plan import PlanBuilder
    from core.rules.stream.plans.draft import Message
    from core.rules.stream.preconditions import Preconditions


def decide_batch(
    machine: StreamMachine,
    name: bytes,
    batch: MessageColumns,
    reply: bytes,
    now: int,
    preconditions: Preconditions,
) -> PlanBuilder:
    """Return the plan that stores all messages of a complete batch, or the plan that refuses them.

    Args:
        machine: The state of the stream.
        name: The id of the batch.
        batch: The messages of the batch.
        reply: The subject for the answer to the last message (b"": no answer).
        now: Wall-clock time in nanoseconds since the Unix epoch.
        preconditions: Data that the decision needs beside that state, as for `planner.decide`.
    """
    planner = _AtomicPlanner(machine, batch, now, preconditions)
    plan = planner.decide()
    if reply:
        plan.answers = [(reply, planner.answer_to(name))]
    return plan


class _AtomicPlanner(Planner):
    checks = ATOMIC

    def limit(self) -> None:
        """Prepare the counts for a stream with discard policy `new`.

        The limits of the node were checked when the messages were received.
        """
        self.is_limited = self.machine.refuses
        self._added: Counter[bytes] = Counter()
        self._grown = 0
        self._error: ApiError | None = None
        self._replaces_all = False

    def counting(self) -> Counting | None:
        """Return an object that computes the new counter totals of the batch's messages (ADR-49).

        None: the stream has no counters. Totals start from the messages stored before the batch;
        evictions by the batch itself do not count.
        """
        machine, preconditions = self.machine, self.preconditions
        if not machine.counts:
            return None
        limits = machine.config.max_msg_size, preconditions.max_payload
        return Counting(machine.index.last, preconditions.last_messages, *limits)

    def store_whole(self) -> bool:
        return False

    def accept_all(self) -> bool:
        columns, draft = self.columns, self.draft
        rows = zip(columns.subjects, columns.headers, columns.payloads, strict=True)
        for place, (subject, block, payload) in enumerate(rows):
            self.accept(place, subject, block, payload, ATOMIC)
            if self._error is not None:
                return False
            draft.written.add(subject)
        if self._replaces_all:
            draft.replace_stored()
        return True

    def check_limits(self, message: Message) -> None:
        """Raise ApiError if the message exceeds a limit of a stream with discard policy `new`."""
        machine, subject, added = self.machine, message.subject, self._added
        added[subject] += 1
        self._grown += machine.record_size.of(subject, message.block, len(message.payload))
        count = self.draft.next_seq - machine.last_seq
        if machine.max_msgs and machine.msgs + count > machine.max_msgs:
            raise api_error("JSStreamStoreFailed", err="maximum messages exceeded")
        if machine.max_bytes and machine.bytes + self._grown > machine.max_bytes:
            raise api_error("JSStreamStoreFailed", err="maximum bytes exceeded")
        limited = machine.limit > 0 and machine.config.discard_new_per_subject
        stored = machine.index.count(subject)
        if limited and not message.rollup and stored + added[subject] > machine.limit:
            raise api_error("JSStreamStoreFailed", err="maximum messages per subject exceeded")

    def replace(self, message: Message) -> None:
        """Apply the roll-up of one subject, but only record a roll-up of all subjects.

        The messages of a batch are checked against the messages stored before it.
        """
        if message.rollup == b"all":
            self._replaces_all = True
            message.rollup = b""
        super().replace(message)

    def refuse(self, place: int, error: ApiError) -> None:
        self._error = error
        self.plan.count_refused(error.err_code)

    def answer(self) -> None:
        """Add no answers to the plan: the messages of a batch have no answers of their own."""

    def answer_to(self, name: bytes) -> bytes:
        """Return the acknowledgement of the whole batch, or its error, as JSON.

        Totals of counters are left out.
        """
        if self._error is not None:
            return refusal(self._error, self.machine.json_name)
        return b'{"stream":"%s","seq":%d,"batch":"%s","count":%d}' % (
            self.machine.ack_name,
            self.draft.next_seq - 1,
            quoted(name),
            len(self.draft.blocks),
        )
