"""Publish preconditions, message by message, in the reference server's order.

The overlay (`_lasts`, `_ids`, ...) is what the batch itself has changed so far, so that a message
is judged against the stream as it will be when its predecessors are committed. What a stream
that discards old messages evicts, it evicts at the end of the batch: no message of the batch is
judged by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.api_errors import api_error
from core.stream import headers as h
from core.stream.counting import check_increment
from core.stream.plan import Columns, StreamPlan
from core.stream.schedule_headers import HEADERS as SCHEDULING
from core.stream.schedule_headers import check_end, check_schedule, ended_by, stored_schedule
from core.stream.texts import LARGEST_RECORD, MAX_SUBJECT, check_text, refusal, texts_of
from core.stream.ttl import parse_ttl, raised
from core.subjects.subject import compile_filters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.stream.counting import Counting
    from core.stream.discard_new import Capacity
    from core.stream.facts import Facts
    from core.stream.machine import StreamMachine

# What a record has beside its header block and payload, at most.
LONGEST_FRAME = 34 + MAX_SUBJECT
_NOTHING: dict[bytes, bytes] = {}


class Duplicate(Exception):
    """The message is there already."""

    def __init__(self, seq: int) -> None:
        self.seq = seq


class Judge:
    """Judges one batch; used once.

    Most batches are accepted whole: their columns are stored as they came, and only what is
    refused costs more than the checks. `capacity` is given when the stream could refuse a message
    for lack of it.
    """

    def __init__(
        self, machine: StreamMachine, plan: StreamPlan, capacity: Capacity | None, facts: Facts
    ) -> None:
        config = machine.config
        self.machine = machine
        self.plan = plan
        self.facts = facts
        self.next_seq = machine.last_seq + 1
        self._capacity = capacity
        # Bytes that the node has left, where that could be less than the batch.
        self.storage_left: int | None = None
        # What the subjects amount to, in a stream of counters.
        self.counting: Counting | None = None
        # Sequences and times of messages that bring their own.
        self.stamps: tuple[Sequence[int], Sequence[int]] | None = None
        self._dedups = config.duplicate_window > 0
        self._least_ttl = machine.least_ttl
        self._ends = machine.ends_schedules
        self._find_id = machine.dedup.find
        self._clean = False
        self._subjects: list[bytes] = []
        # Header blocks of the accepted messages as they will be stored.
        self._headers: list[bytes | None] = []
        # Answers to the messages that are not accepted, by place.
        self._refused: dict[int, bytes] = {}
        # What is told, accepted or not, to those who do not get an ack for each message, by place.
        self._told: dict[int, list[bytes]] = {}
        self._ids: dict[bytes, int] = {}
        self._last_id = machine.last_msg_id
        # Last sequence by subject within the batch, as far as `_scanned` messages.
        self._last_seqs: dict[bytes, int] = {}
        self._scanned = 0
        # Where the newest roll-up of each subject, and of everything, stands among the accepted.
        self._rolled: dict[bytes, int] = {}
        self._wiped = -1
        # Schedules of the batch by subject, the place of the newest, and subjects whose are over.
        self._begun: dict[bytes, int] = {}
        self._begun_at = -1
        self._ended: set[bytes] = set()
        self.now = 0

    def judge(self, columns: Columns, now: int) -> None:
        """Fill the plan with the accepted messages and with an answer for every message."""
        self.now = now
        subjects, payloads = columns.subjects, columns.payloads
        texts = texts_of(subjects)
        self._subjects = subjects
        self._clean = texts is not None and self._fits(columns)
        unlimited = self._capacity is None and self.storage_left is None
        simple = self._clean and unlimited and self.counting is None
        lone_msg_id, dedups, ids = h.lone_msg_id, self._dedups, self._ids
        find_new, find_old = ids.get, self._find_id
        accept, refused, keep = self._accept, self._refused, self._headers.append
        name = self.machine.json_name
        for place, (subject, block, payload) in enumerate(
            zip(subjects, columns.headers, payloads, strict=True)
        ):
            try:
                if not simple:
                    accept(place, subject, block, payload, now)
                elif not block:
                    self._last_id = b""
                    self.next_seq += 1
                    keep(None)
                elif msg_id := lone_msg_id(block):
                    # Only the id can be refused: no call and no exception for this common form.
                    copy = (find_new(msg_id) or find_old(msg_id, now)) if dedups else None
                    if copy is not None:
                        refused[place] = self._duplicate(copy)
                        continue
                    self._last_id = msg_id
                    ids[msg_id] = self.next_seq
                    self.next_seq += 1
                    keep(block)
                else:
                    accept(place, subject, block, payload, now)
            except ApiError as error:
                refused[place] = refusal(error, name)
            except Duplicate as duplicate:
                refused[place] = self._duplicate(duplicate.seq)
        self._finish(columns, texts, now)

    def _fits(self, columns: Columns) -> bool:
        """Whether no message of the batch is too large in any way."""
        config = self.machine.config
        block = max(map(len, columns.headers), default=0)
        whole = block + max(map(len, columns.payloads), default=0)
        return (
            not config.sealed
            and block <= h.MAX_BLOCK
            and whole <= LARGEST_RECORD - LONGEST_FRAME
            and not 0 <= config.max_msg_size < whole
        )

    def _accept(self, place: int, subject: bytes, block: bytes, payload: bytes, now: int) -> None:
        found = h.publish_headers(block) if block else _NOTHING
        if not self._clean:
            self._check_form(subject, block, payload, found)
        msg_id = found.get(h.MSG_ID)
        more = len(found) > 1 or (msg_id is None and bool(found))
        if more:
            self._check_found(place, subject, payload, found)
        if msg_id and self._dedups:
            self._check_id(msg_id, now)
        rollup = self._check_rest(found) if more else b""
        if block:
            block = h.stored_block(block)
        if self.counting is not None:
            block, payload = self.counting.add(subject, block, payload, found)
        if more:
            block = self._complete(place, subject, block, payload, found)
        if self.storage_left is not None:
            # The message that goes beyond the limit is the last that is taken.
            if self.storage_left < 0:
                raise api_error("JSInsufficientResources")
            self.storage_left -= self.machine.record_size.of(subject, block, len(payload))
        if self._capacity is not None and self._is_stored(subject):
            self._check_capacity(self._capacity, subject, block, payload, rollup)
        if rollup or self._ends:
            self._roll(place, subject, rollup, found)
        if self.counting is not None:
            self.counting.take(subject, block, payload)
        self._last_id = msg_id or b""
        if msg_id:
            self._ids[msg_id] = self.next_seq
        self.next_seq += 1
        self._headers.append(block or None)

    def _duplicate(self, seq: int) -> bytes:
        return b'{"stream":"%s","seq":%d,"duplicate": true}' % (self.machine.ack_name, seq)

    def _check_id(self, msg_id: bytes, now: int) -> None:
        copy = self._ids.get(msg_id) or self._find_id(msg_id, now)
        if copy is not None:
            raise Duplicate(copy)

    # -- checks ------------------------------------------------------------------------------

    def _check_form(
        self, subject: bytes, block: bytes, payload: bytes, found: dict[bytes, bytes]
    ) -> None:
        """Check state and sizes, which come before all headers but one."""
        config = self.machine.config
        if config.sealed:
            raise api_error("JSStreamSealed")
        if block.find(h.REQUEST_INFO) >= 0:
            block = h.stored_block(block)
        if 0 <= config.max_msg_size < len(block) + len(payload):
            raise api_error("JSStreamMessageExceedsMaximum")
        self._check_no_batch(found)
        self._check_record(subject, block, payload)

    def _check_no_batch(self, found: dict[bytes, bytes]) -> None:
        if found.get(h.BATCH_ID):
            raise api_error("JSAtomicPublishDisabled")

    def _check_record(self, subject: bytes, block: bytes, payload: bytes) -> None:
        """Refuse what storage cannot keep."""
        if len(block) > h.MAX_BLOCK:
            raise api_error("JSStreamHeaderExceedsMaximum")
        check_text(subject)
        if self.machine.record_size.of(subject, block, len(payload)) > LARGEST_RECORD:
            raise api_error("JSStreamStoreFailed", err="message too large")

    def _check_found(
        self, place: int, subject: bytes, payload: bytes, found: dict[bytes, bytes]
    ) -> None:
        """Check what comes before deduplication; an empty value is no value."""
        self._check_no_batch(found)
        increment = found.get(h.INCREMENT)
        if increment:
            check_increment(increment, payload, found, counts=self.counting is not None)
            if len(found) == 1:
                return
        stream = found.get(h.EXPECTED_STREAM)
        if stream and stream != self.machine.config.name.encode():
            raise api_error("JSStreamNotMatch")
        ttl = found.get(h.TTL)
        if ttl and not self.machine.config.allow_msg_ttl and parse_ttl(ttl):
            raise api_error("JSMessageTTLDisabled")
        self._check_expected(place, subject, found)
        if not SCHEDULING.isdisjoint(found):
            self._check_scheduling(place, subject, found)
        if found.get(h.STREAM_SOURCE):
            raise api_error("JSMessageSourceHdrNotAllowed")

    def _check_in_batch(self, payload: bytes, found: dict[bytes, bytes]) -> None:
        """Check what comes before deduplication in a message of a batch."""
        increment = found.get(h.INCREMENT)
        if increment:
            check_increment(increment, payload, found, counts=self.counting is not None)
        stream = found.get(h.EXPECTED_STREAM)
        if stream and stream != self.machine.config.name.encode():
            raise api_error("JSStreamNotMatch")
        ttl = found.get(h.TTL)
        if ttl and not self.machine.config.allow_msg_ttl:
            raise api_error("JSMessageTTLDisabled")
        if ttl and parse_ttl(ttl) is None:
            raise api_error("JSMessageTTLInvalid")

    def _check_expected(self, place: int, subject: bytes, found: dict[bytes, bytes]) -> None:
        self._check_last_of_subject(place, subject, found)
        self._check_last(found)

    def _check_last_of_subject(self, place: int, subject: bytes, found: dict[bytes, bytes]) -> None:
        wanted = found.get(h.EXPECTED_LAST_SUBJECT_SEQ)
        other = found.get(h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
        if wanted:
            last = self._last_of(other or subject, place)
            if h.number(wanted) != last:
                raise api_error("JSStreamWrongLastSequence", seq=last)
        elif other:
            raise api_error("JSStreamExpectedLastSeqPerSubjectInvalid")

    def _check_last(self, found: dict[bytes, bytes]) -> None:
        wanted = found.get(h.EXPECTED_LAST_SEQ)
        if wanted and h.number(wanted) != self.next_seq - 1:
            raise api_error("JSStreamWrongLastSequence", seq=self.next_seq - 1)

    def _last_of(self, pattern: bytes, place: int) -> int:
        """Return the last sequence of a subject or filter as of the message at `place`."""
        index, wiped = self.machine.index, self._wiped >= 0
        self._scan(place)
        if b"*" not in pattern and b">" not in pattern:
            last = self._last_seqs.get(pattern)
            if last is None:
                return 0 if wiped else index.last(pattern)
            return last
        match = compile_filters([pattern]) or _everything
        stored: dict[bytes, int] = {}
        if not wiped:
            for _ in index.prepare((pattern,)):
                pass
            stored = {s: index.last(s) for part in index.search((pattern,)) for s in part}
        stored.update((s, last) for s, last in self._last_seqs.items() if match(s))
        return max(stored.values(), default=0)

    def _scan(self, upto: int) -> None:
        """Learn the last sequences of what the batch has accepted before the message at `upto`."""
        start, refused = self._scanned, self._refused
        self._scanned = upto
        places = [i for i in range(start, upto) if i not in refused]
        seqs = range(self.next_seq - len(places), self.next_seq)
        self._last_seqs.update(zip([self._subjects[i] for i in places], seqs, strict=True))

    def _check_scheduling(self, place: int, subject: bytes, found: dict[bytes, bytes]) -> None:
        """Check what schedules or ends schedules; a schedule replaces those before it."""
        config, schedules = self.machine.config, self.machine.schedules
        if check_schedule(config, subject, found, self.now):
            self._begun_at = place
        ended = check_end(config, subject, found)
        if ended and schedules is not None:
            last = self._last_of(ended, place)
            if last and last != (self._begun.get(ended) or schedules.seq_of(ended)):
                raise api_error("JSMessageSchedulesSchedulerInvalid")

    def _check_rest(self, found: dict[bytes, bytes]) -> bytes:
        """Check what comes after deduplication; return the kind of roll-up (b"": none)."""
        self._check_last_id(found)
        return self._check_rollup(found)

    def _check_last_id(self, found: dict[bytes, bytes]) -> None:
        wanted = found.get(h.EXPECTED_LAST_MSG_ID)
        if wanted and wanted != self._last_id:
            raise api_error("JSStreamWrongLastMsgID", id=self._last_id.decode(errors="replace"))

    def _check_rollup(self, found: dict[bytes, bytes]) -> bytes:
        rollup = found.get(h.ROLLUP, b"").lower()
        if rollup:
            config = self.machine.config
            if not config.allow_rollup_hdrs or config.deny_purge:
                raise api_error("JSStreamRollupFailed", err="rollup not permitted")
            if rollup not in (b"sub", b"all"):
                text = rollup.decode(errors="replace")
                raise api_error("JSStreamRollupFailed", err=f'rollup value invalid: "{text}"')
        return rollup

    def _check_ttl(self, found: dict[bytes, bytes]) -> None:
        ttl = found.get(h.TTL)
        if ttl and parse_ttl(ttl) is None:
            raise api_error("JSMessageTTLInvalid")

    def _is_stored(self, subject: bytes) -> bool:
        """Whether somebody is interested, where that decides: what is not stored takes no room."""
        return subject not in self.facts.no_interest

    def _check_capacity(
        self, capacity: Capacity, subject: bytes, block: bytes, payload: bytes, rollup: bytes
    ) -> None:
        size = self.machine.record_size.of(subject, block, len(payload))
        why = capacity.refusal(subject, size, rollup)
        if why:
            raise api_error("JSStreamStoreFailed", err=why)
        capacity.take(subject, size, rollup)

    # -- acceptance --------------------------------------------------------------------------

    def _complete(
        self, place: int, subject: bytes, block: bytes, payload: bytes, found: dict[bytes, bytes]
    ) -> bytes:
        """Return the header block as it is stored; what it says of time is checked last."""
        if place == self._begun_at:
            block = self._begin(subject, block, payload)
        if not self._is_stored(subject):
            return block
        self._check_ttl(found)
        return raised(block, self._least_ttl) if self._least_ttl and h.TTL in found else block

    def _begin(self, subject: bytes, block: bytes, payload: bytes) -> bytes:
        """Return the header block of a schedule as it is stored, which may be too large."""
        block = stored_schedule(block)
        if 0 <= self.machine.config.max_msg_size < len(block) + len(payload):
            raise api_error("JSStreamMessageExceedsMaximum")
        if len(block) > h.MAX_BLOCK:
            raise api_error("JSStreamHeaderExceedsMaximum")
        self._begun[subject] = self.next_seq
        return block

    def _end(self, place: int, subject: bytes) -> None:
        """Note that a message of the batch purges a subject, whose schedule is over."""
        self._scan(place)
        self._last_seqs[subject] = 0
        self._rolled[subject] = len(self._headers) + 1
        self._ended.add(subject)

    def _roll(self, place: int, subject: bytes, rollup: bytes, found: dict[bytes, bytes]) -> None:
        """Note that a message of the batch replaces what is before it, or ends a schedule."""
        if rollup == b"sub":
            self._rolled[subject] = len(self._headers)
        elif rollup:
            self._wiped = len(self._headers)
            self._last_seqs.clear()
            if self.counting is not None:
                self.counting.wipe()
            self._scanned = place
        if self._ends and (ended := ended_by(found)):
            self._end(place, ended)

    def _finish(self, columns: Columns, texts: list[str] | None, now: int) -> None:
        plan, refused, headers = self.plan, self._refused, self._headers
        payloads = columns.payloads
        first = self.machine.last_seq + 1
        if refused or self._told or self.counting is not None:
            self._answer(columns.replies, first)
            self._subjects = [s for i, s in enumerate(columns.subjects) if i not in refused]
            payloads = [p for i, p in enumerate(payloads) if i not in refused]
            texts = None if texts is None else [t for i, t in enumerate(texts) if i not in refused]
        elif not self.machine.config.no_ack:
            plan.acks, plan.ack_first = columns.replies, first
        if not headers:
            return
        if self.counting is not None:
            payloads = self.counting.payloads
        if self._dedups:
            plan.ids = list(self._ids.items())
        plan.last_msg_id = self._last_id
        plan.texts = [s.decode() for s in self._subjects] if texts is None else texts
        dropped = self._roll_up() if self._rolled or self._wiped >= 0 else None
        blocks = headers if any(headers) else None
        no_interest = self.facts.no_interest
        self.machine.store(
            plan, self._subjects, blocks, payloads, now, dropped, self.stamps, no_interest
        )

    def _answer(self, replies: list[bytes], seq: int) -> None:
        """Say something to everybody, in order, because not all are accepted."""
        name, refused, answers = self.machine.ack_name, self._refused, self.plan.answers
        values = iter(self.counting.values()) if self.counting is not None else None
        is_silent = self.machine.config.no_ack
        for place, reply in enumerate(replies):
            body, told = refused.get(place), self._told.get(place)
            value = b"" if body is not None or values is None else b',"val":"%s"' % next(values)
            if body is None:
                body = b'{"stream":"%s","seq":%d%s}' % (name, seq, value)
                seq += 1
            if told is not None:
                answers += [(reply, one) for one in told]
            elif reply and not is_silent:
                answers.append((reply, body))

    def _roll_up(self) -> set[int]:
        """Take out what the batch's roll-ups replace; return places within the batch to drop."""
        plan, machine, wiped, rolled = self.plan, self.machine, self._wiped, self._rolled
        if wiped >= 0:
            plan.purged_below = machine.last_seq + 1
            plan.msgs = plan.nbytes = 0
        else:
            for subject, place in rolled.items():
                plan.purges.append((subject, machine.last_seq + 1 + place))
                stored: Sequence[tuple[int, int]] | None = machine.index.of_subject(subject)
                if stored is None:
                    stored = self.facts.replaced.get(subject, ())
                for seq, size in stored:
                    machine.remove(plan, seq, subject, size)
                    # With one message per subject the next leader derives it from the rows.
                    if machine.limit != 1 or subject in self._ended:
                        plan.erased.append(seq)
        place_of = rolled.get
        return {i for i, s in enumerate(self._subjects) if i < wiped or i < place_of(s, 0)}


def _everything(_subject: bytes) -> bool:
    return True
