"""The planner: decides a batch of publishes as a plan, without I/O.

It checks each message, stores the accepted ones, and evicts messages above a limit. All kinds of
messages go through these steps. The subclass for a kind chooses the checks
(`core.rules.stream.plans.checks`), the limits, and the treatment of refused messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.row_limits import LARGEST_RECORD, MAX_SUBJECT
from core.rules.stream import headers as h
from core.rules.stream.counters import Counting
from core.rules.stream.plans.checks import PUBLISHED, Checks, Duplicate
from core.rules.stream.plans.counter_evictions import Evictions
from core.rules.stream.plans.discard_new import Capacity
from core.rules.stream.plans.draft import Draft, Message
from core.rules.stream.preconditions import NO_PRECONDITIONS, Preconditions
from core.rules.stream.schedules.schedule_headers import stored_schedule
from core.rules.stream.texts import refusal
from core.rules.stream.ttl import raised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.protocol.messages import MessageColumns
    from core.rules.stream.machine import StreamMachine
    from core.rules.stream.plan import PlanBuilder

# Largest size of a record beside its header block and payload, in bytes.
_LONGEST_FRAME = 34 + MAX_SUBJECT
_NOTHING: dict[bytes, bytes] = {}


def decide(
    machine: StreamMachine,
    columns: MessageColumns,
    now: int,
    preconditions: Preconditions = NO_PRECONDITIONS,
) -> PlanBuilder:
    """Return the plan for a batch of publishes, with an answer for each of them.

    Args:
        machine: The state of the stream; it is not changed.
        columns: The published messages, in order.
        now: Wall-clock time in nanoseconds since the Unix epoch. Stored times increase strictly
            from it.
        preconditions: Data that the decision needs beside the state of the stream.
    """
    return Planner(machine, columns, now, preconditions).decide()


class Planner:
    """Decides one batch of publishes; an instance is used once.

    Most batches are accepted as a whole: their columns are stored unchanged, and only refused
    messages cost more than the checks. Messages are identified by their index in the batch
    (`place`).
    """

    checks: ClassVar[Checks] = PUBLISHED

    def __init__(
        self,
        machine: StreamMachine,
        columns: MessageColumns,
        now: int,
        preconditions: Preconditions,
    ) -> None:
        self.machine = machine
        self.columns = columns
        self.now = now
        self.preconditions = preconditions
        self.plan = machine.unchanged()
        # The counts of a stream with discard policy `new`, if the batch may exceed a limit.
        self.capacity: Capacity | None = None
        # Bytes that the node has left, if that may be less than the batch needs.
        self.storage_left: int | None = None
        self.is_limited = False
        # Sequences and times of messages that have their own.
        self.stamps: tuple[Sequence[int], Sequence[int]] | None = None
        # Whether no message of the batch is too large in any way.
        self.is_clean = False
        # Answers, by place, of messages that do not get one acknowledgement each.
        self.has_answers: dict[int, list[bytes]] = {}

    def decide(self) -> PlanBuilder:
        """Return the plan: the accepted messages, evictions by limits, and the answers."""
        if len(self.columns):
            self.limit()
        if not len(self.columns) or self.store_whole() or self._store_accepted():
            self.machine.evict(self.plan, self.now)
        return self.plan

    # -- limits ------------------------------------------------------------------------------

    def limit(self) -> None:
        """Set the attributes that enable the check of limits for each message of the batch.

        They are set only if the batch may exceed a limit of a stream with discard policy `new`, or
        the node's limit on stored bytes.
        """
        machine = self.machine
        if machine.refuses and not machine.fits_limits(self.columns, self.preconditions):
            self.capacity = Capacity(machine, self.preconditions.replaced)
            self.is_limited = True
        self.limit_storage()

    def limit_storage(self) -> None:
        """Set `storage_left` if the batch may exceed the node's limit on stored bytes."""
        left = self.preconditions.storage_left
        if (
            left is not None
            and self.machine.incoming_bytes(self.columns, self.preconditions) > left
        ):
            self.storage_left = left
            self.is_limited = True

    def counting(self) -> Counting | None:
        """Return an object that computes the new counter totals of the batch's messages (ADR-49).

        None: the stream has no counters.
        """
        machine = self.machine
        if not machine.counts:
            return None
        evicted = Evictions(machine).count if machine.evicts else None
        limits = machine.config.max_msg_size, self.preconditions.max_payload
        return Counting(machine.index.last, self.preconditions.last_messages, *limits, evicted)

    def dedups(self) -> bool:
        """Return whether the stream deduplicates message ids."""
        return self.machine.config.duplicate_window > 0

    # -- all at once -------------------------------------------------------------------------

    def store_whole(self) -> bool:
        """Add a batch of messages without headers to the plan, all of them unchanged.

        Returns False, without a change, if some of the messages may be refused.
        """
        machine, columns, config = self.machine, self.columns, self.machine.config
        if columns.has_headers or config.sealed or machine.counts or self.is_limited:
            return False
        longest = max(map(len, columns.payloads))
        if longest > LARGEST_RECORD - _LONGEST_FRAME or 0 <= config.max_msg_size < longest:
            return False
        if max(map(len, columns.subjects)) > MAX_SUBJECT:
            return False
        plan = self.plan
        plan.acks = [] if config.no_ack else columns.replies
        plan.ack_first = machine.last_seq + 1
        plan.last_msg_id = b""
        no_interest = self.preconditions.no_interest
        machine.store(
            plan, columns.subjects, None, columns.payloads, self.now, no_interest=no_interest
        )
        return True

    # -- one by one --------------------------------------------------------------------------

    def _store_accepted(self) -> bool:
        columns = self.columns
        self.is_clean = self.fits()
        self.draft = Draft(
            self.machine,
            columns.subjects,
            self.now,
            self.preconditions,
            dedups=self.dedups(),
            counting=self.counting(),
        )
        if not self.accept_all():
            return False
        self._store()
        return True

    def fits(self) -> bool:
        """Return whether every message of the batch is within all limits on the size of a message.

        False for a sealed stream.
        """
        config = self.machine.config
        block = max(map(len, self.columns.headers), default=0)
        whole = block + max(map(len, self.columns.payloads), default=0)
        return (
            not config.sealed
            and max(map(len, self.columns.subjects), default=0) <= MAX_SUBJECT
            and block <= h.MAX_BLOCK
            and whole <= LARGEST_RECORD - _LONGEST_FRAME
            and not 0 <= config.max_msg_size < whole
        )

    def accept_all(self) -> bool:
        """Accept or refuse every message of the batch.

        Returns False if the batch stores no message at all.
        """
        draft, columns = self.draft, self.columns
        simple = self.is_clean and not self.is_limited and draft.counting is None
        lone_msg_id, dedups, ids, now = h.lone_msg_id, draft.dedups, draft.ids, self.now
        find_new, find_old = ids.get, self.machine.dedup.find
        take, keep, checks = self.accept, draft.blocks.append, self.checks
        expected = h.expecting(self.machine.config.name)
        for place, (subject, block, payload) in enumerate(
            zip(columns.subjects, columns.headers, columns.payloads, strict=True)
        ):
            if not simple:
                take(place, subject, block, payload, checks)
            elif not block:
                draft.last_msg_id = b""
                draft.next_seq += 1
                keep(None)
            elif msg_id := lone_msg_id(block, expected):
                # Only the id can be refused: the common form needs no call.
                seq = (find_new(msg_id) or find_old(msg_id, now)) if dedups else None
                if seq is not None:
                    self.duplicate(place, seq)
                    continue
                draft.last_msg_id = msg_id
                ids[msg_id] = draft.next_seq
                draft.next_seq += 1
                keep(block)
            elif block == expected or not h.has_publish_headers(block):
                draft.last_msg_id = b""
                draft.next_seq += 1
                keep(h.stored_block(block) or None)
            else:
                take(place, subject, block, payload, checks)
        return True

    def accept(
        self, place: int, subject: bytes, block: bytes, payload: bytes, checks: Checks
    ) -> None:
        """Run the checks on one message, and accept or refuse it."""
        found = h.publish_headers(block) if block else _NOTHING
        message = Message(place, subject, block, payload, found)
        draft = self.draft
        try:
            if not self.is_clean:
                for check in checks.form:
                    check(draft, message)
            if found:
                headers = checks.headers
                if len(found) == 1:
                    headers = checks.lone.get(next(iter(found)), headers)
                for check in headers:
                    check(draft, message)
            self._complete(message, checks)
        except ApiError as error:
            self.refuse(place, error)
        except Duplicate as duplicate:
            self.duplicate(place, duplicate.seq)
        else:
            draft.accept(message)

    def _complete(self, message: Message, checks: Checks) -> None:
        """Put a message into its stored form, run the checks that depend on it, and count it.

        Raises:
            ApiError: The message is refused.
        """
        draft, subject, found = self.draft, message.subject, message.found
        counting = draft.counting
        if message.block:
            message.block = h.stored_block(message.block)
        if counting is not None:
            counted = counting.add(subject, message.block, message.payload, found)
            message.block, message.payload = counted
        if message.is_schedule:
            self._begin_schedule(message)
        if h.TTL in found and draft.is_stored(subject):
            for check in checks.stored:
                check(draft, message)
            if self.machine.least_ttl:
                message.block = raised(message.block, self.machine.least_ttl)
        if self.is_limited:
            self.check_limits(message)
        self.replace(message)
        if counting is not None:
            counting.record(subject, message.block, message.payload)

    def _begin_schedule(self, message: Message) -> None:
        """Put a schedule into its stored form. Raises ApiError if that is too large."""
        message.block = stored_schedule(message.block)
        config, size = self.machine.config, len(message.block) + len(message.payload)
        if 0 <= config.max_msg_size < size:
            raise api_error("JSStreamMessageExceedsMaximum")
        if len(message.block) > h.MAX_BLOCK:
            raise api_error("JSStreamHeaderExceedsMaximum")
        self.draft.schedules[message.subject] = self.draft.next_seq

    def check_limits(self, message: Message) -> None:
        """Count a message against the limits. Raises ApiError if it exceeds one."""
        subject = message.subject
        size = self.machine.record_size.of(subject, message.block, len(message.payload))
        if self.storage_left is not None:
            # The message that crosses the limit is the last one accepted.
            if self.storage_left < 0:
                raise api_error("JSInsufficientResources")
            self.storage_left -= size
        if self.capacity is not None and self.draft.is_stored(subject):
            why = self.capacity.refusal(subject, size, message.rollup)
            if why:
                raise api_error("JSStreamStoreFailed", err=why)
            self.capacity.count(subject, size, message.rollup)

    def replace(self, message: Message) -> None:
        """Record the messages that a message replaces, and the schedule that it ends."""
        if message.rollup == b"sub":
            self.draft.roll_up_subject(message.subject, message.place)
        elif message.rollup:
            self.draft.roll_up_all(message.place)
        if self.machine.ends_schedules:
            self.draft.end_schedule(message)

    # -- refused messages and duplicates -----------------------------------------------------

    def refuse(self, place: int, error: ApiError) -> None:
        """Record that the message at index `place` is refused, with the error as its answer."""
        self.draft.refused[place] = refusal(error, self.machine.json_name)
        self.plan.count_refused(error.err_code)

    def duplicate(self, place: int, seq: int) -> None:
        """Record that the message at index `place` is a duplicate of the stored message `seq`."""
        answer = b'{"stream":"%s","seq":%d,"duplicate": true}' % (self.machine.ack_name, seq)
        self.draft.refused[place] = answer

    # -- the plan ----------------------------------------------------------------------------

    def _store(self) -> None:
        """Add the accepted messages and all answers to the plan."""
        plan, draft, columns, machine = self.plan, self.draft, self.columns, self.machine
        subjects, payloads, refused = columns.subjects, columns.payloads, draft.refused
        self.answer()
        if not draft.blocks:
            return
        if refused:
            subjects = [s for i, s in enumerate(subjects) if i not in refused]
            payloads = [p for i, p in enumerate(payloads) if i not in refused]
        if draft.counting is not None:
            payloads = draft.counting.payloads
        if draft.dedups:
            plan.ids = list(draft.ids.items())
        plan.last_msg_id = draft.last_msg_id
        replaced = draft.remove_replaced(plan, subjects)
        blocks = draft.blocks if any(draft.blocks) else None
        no_interest = self.preconditions.no_interest
        machine.store(
            plan, subjects, blocks, payloads, self.now, replaced, self.stamps, no_interest
        )

    def answer(self) -> None:
        """Add answers to the plan: acks with contiguous sequences, or one answer per message."""
        plan, draft, first = self.plan, self.draft, self.machine.last_seq + 1
        if draft.refused or self.has_answers or draft.counting is not None:
            self._answer_each(first)
        elif not self.machine.config.no_ack:
            plan.acks, plan.ack_first = self.columns.replies, first
        elif self.columns.answered:
            self._answer_each(first)

    def _answer_each(self, seq: int) -> None:
        name, refused, answers = self.machine.ack_name, self.draft.refused, self.plan.answers
        counting, is_silent = self.draft.counting, self.machine.config.no_ack
        values = iter(counting.values()) if counting is not None else None
        for place, reply in enumerate(self.columns.replies):
            body, told = refused.get(place), self.has_answers.get(place)
            value = b"" if body is not None or values is None else b',"val":"%s"' % next(values)
            if body is None:
                body = b'{"stream":"%s","seq":%d%s}' % (name, seq, value)
                seq += 1
            if told is not None:
                answers += [(reply, one) for one in told]
            elif reply and (not is_silent or reply in self.columns.answered):
                answers.append((reply, body))
