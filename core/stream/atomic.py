"""Publish preconditions of an atomic batch: all its messages are accepted, or none (ADR-50).

The checks are those of single publishes, in another order and with rules of their own where a
message would depend on another of its batch: an expected sequence may not be asked of a subject
that the batch writes itself, a roll-up may not take out what the batch adds. Limits that refuse
new messages count every message of the batch, also what it replaces.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.api_errors import api_error
from core.stream import headers as h
from core.stream.batching import quoted
from core.stream.counting import Counting
from core.stream.judge import Judge
from core.stream.schedule_headers import HEADERS as SCHEDULING
from core.stream.schedule_headers import ended_by
from core.stream.texts import refusal, texts_of

if TYPE_CHECKING:
    from core.stream.facts import Facts
    from core.stream.machine import StreamMachine
    from core.stream.plan import Columns, StreamPlan


def decide_batch(
    machine: StreamMachine, name: bytes, batch: Columns, reply: bytes, now: int, facts: Facts
) -> StreamPlan:
    """Return the plan that stores a complete batch, or the one that refuses it.

    Args:
        machine: of the stream.
        name: the batch's id.
        batch: its messages.
        reply: where the answer to the last message goes (b"": nowhere).
        now: wall-clock time in nanoseconds.
        facts: as for `StreamMachine.decide`.
    """
    plan = machine.unchanged()
    judge = AtomicJudge(machine, plan, None, facts)
    if machine.counts:
        # The batch counts on from what is stored before it, whatever it evicts itself.
        limits = machine.config.max_msg_size, facts.max_payload
        judge.counting = Counting(machine.index.last, facts.last_messages, *limits)
    error = judge.judge_all(batch, now)
    if error is not None:
        answer = refusal(error, machine.json_name)
    else:
        machine.evict(plan, now)
        answer = judge.answer(name)
    is_asked = reply and not machine.config.no_ack
    plan.acks, plan.answers = [], [(reply, answer)] if is_asked else []
    return plan


class AtomicJudge(Judge):
    """Judges one atomic batch; used once."""

    def judge_all(self, columns: Columns, now: int) -> ApiError | None:
        """Fill the plan, or return why the batch is refused."""
        self._written: set[bytes] = set()
        self._added: Counter[bytes] = Counter()
        self._grown = 0
        self.now = now
        self._subjects = columns.subjects
        wiped = -1
        rows = zip(columns.subjects, columns.headers, columns.payloads, strict=True)
        try:
            for place, (subject, block, payload) in enumerate(rows):
                if self._take(place, subject, block, payload, now) == b"all":
                    wiped = place
        except ApiError as error:
            return error
        # Only now: the batch is judged by what is stored before it.
        self._wiped = wiped
        self._finish(columns, texts_of(columns.subjects), now)
        return None

    def answer(self, name: bytes) -> bytes:
        """Return the acknowledgement of the whole batch; what counters come to is not told."""
        return b'{"stream":"%s","seq":%d,"batch":"%s","count":%d}' % (
            self.machine.ack_name,
            self.next_seq - 1,
            quoted(name),
            len(self._headers),
        )

    def _take(self, place: int, subject: bytes, block: bytes, payload: bytes, now: int) -> bytes:
        """Check one message and add it; return the kind of its roll-up (b"": none)."""
        found = h.publish_headers(block)
        self._check_whole(subject, block, payload, found)
        self._check_in_batch(payload, found)
        msg_id = found.get(h.MSG_ID)
        if msg_id and (msg_id in self._ids or (self._dedups and self._find_id(msg_id, now))):
            raise api_error("JSAtomicPublishContainsDuplicateMessage")
        if found.get(h.STREAM_SOURCE):
            raise api_error("JSMessageSourceHdrNotAllowed")
        if self.counting is not None and not found.get(h.INCREMENT):
            raise api_error(
                "JSMessageIncrMissing"
            )  # before what is expected; single publishes hear it after
        self._check_expected(place, subject, found)
        if not SCHEDULING.isdisjoint(found):
            self._check_scheduling(place, subject, found)
        rollup = self._check_rest(found)
        if rollup == b"sub" and subject in self._written:
            raise api_error("JSStreamRollupFailed", err="batch rollup sub invalid")
        if rollup == b"all" and place:
            raise api_error("JSStreamRollupFailed", err="batch rollup all invalid")
        block = h.stored_block(block)
        if self.counting is not None:
            block, payload = self.counting.add(subject, block, payload, found)
            self.counting.take(subject, block, payload)
        block = self._complete(place, subject, block, payload, found)
        if self.machine.refuses:
            self._check_limits(
                subject, self.machine.record_size.of(subject, block, len(payload)), rollup
            )
        if rollup == b"sub":
            self._rolled[subject] = place
        if self._ends and (ended := ended_by(found)):
            self._end(place, ended)
        self._written.add(subject)
        if msg_id:
            self._ids[msg_id] = self.next_seq
        self._last_id = msg_id or b""
        self.next_seq += 1
        self._headers.append(block or None)
        return rollup

    def _check_whole(
        self, subject: bytes, block: bytes, payload: bytes, found: dict[bytes, bytes]
    ) -> None:
        if found.get(h.EXPECTED_LAST_MSG_ID):
            raise api_error(
                "JSAtomicPublishUnsupportedHeaderBatch", header=h.EXPECTED_LAST_MSG_ID.decode()
            )
        self._check_record(subject, block, payload)

    def _check_expected(self, place: int, subject: bytes, found: dict[bytes, bytes]) -> None:
        wanted = found.get(h.EXPECTED_LAST_SEQ)
        if wanted:
            if h.number(wanted) != self.next_seq - 1:
                raise api_error("JSStreamWrongLastSequence", seq=self.next_seq - 1)
            if place:
                raise api_error("JSStreamWrongLastSequenceConstant")
        wanted = found.get(h.EXPECTED_LAST_SUBJECT_SEQ)
        other = found.get(h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
        if not wanted:
            if other:
                raise api_error("JSStreamExpectedLastSeqPerSubjectInvalid")
            return
        named = other or subject
        if named in self._written:
            raise api_error("JSStreamWrongLastSequenceConstant")
        known, self._last_seqs = self._last_seqs, {}  # the batch does not count
        last = self._last_of(named, 0)
        self._last_seqs = known
        if h.number(wanted) != last:
            raise api_error("JSStreamWrongLastSequence", seq=last)

    def _check_limits(self, subject: bytes, size: int, rollup: bytes) -> None:
        """Refuse what a stream that discards new messages has no room for."""
        machine, added = self.machine, self._added
        added[subject] += 1
        self._grown += size
        count = self.next_seq - machine.last_seq
        if machine.max_msgs and machine.msgs + count > machine.max_msgs:
            raise api_error("JSStreamStoreFailed", err="maximum messages exceeded")
        if machine.max_bytes and machine.bytes + self._grown > machine.max_bytes:
            raise api_error("JSStreamStoreFailed", err="maximum bytes exceeded")
        limited = machine.limit > 0 and machine.config.discard_new_per_subject
        if limited and not rollup and machine.index.count(subject) + added[subject] > machine.limit:
            raise api_error("JSStreamStoreFailed", err="maximum messages per subject exceeded")
