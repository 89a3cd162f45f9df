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
from core.model.stream import Discard
from core.stream import headers as h
from core.stream.plan import Columns, StreamPlan
from core.stream.room import Room
from core.subjects.subject import compile_filters

if TYPE_CHECKING:
    from core.stream.machine import StreamMachine

# A subject is a column of the log's unique index, whose entries are limited to 2704 bytes.
MAX_SUBJECT = 2048
LARGEST_RECORD = 32 << 20
_MAX_HEADERS = 65535

Rollups = dict[bytes, list[tuple[int, int]]]


class _Duplicate(Exception):
    def __init__(self, seq: int) -> None:
        self.seq = seq


class Judge:
    """Judges one batch; used once."""

    def __init__(self, machine: StreamMachine, plan: StreamPlan, rollups: Rollups) -> None:
        self.machine = machine
        self.plan = plan
        self.rollups = rollups
        self.next_seq = machine.last_seq + 1
        self._room = Room(machine, rollups) if machine.config.discard is Discard.NEW else None
        self._dedups = machine.config.duplicate_window > 0
        self._lasts: dict[bytes, int] = {}
        self._ids: dict[bytes, int] = {}
        self._last_id = machine.last_msg_id
        self._subjects: list[bytes] = []
        self._headers: list[bytes | None] = []
        self._payloads: list[bytes] = []
        # Where the newest roll-up of each subject, and of everything, stands in the batch.
        self._rolled: dict[bytes, int] = {}
        self._wiped = -1

    def judge(self, columns: Columns, now: int) -> None:
        """Fill the plan with the accepted messages and with an answer for every message."""
        name = self.machine.json_name
        accepted = b'{"stream":"%s","seq":%%d}' % name.replace(b"%", b"%%")
        accept, answers = self._accept, self.plan.answers
        for subject, reply, block, payload in zip(
            columns.subjects, columns.replies, columns.headers, columns.payloads, strict=True
        ):
            try:
                seq = accept(subject, block, payload, now)
            except ApiError as error:
                if reply:
                    answers.append((reply, refusal(error, name)))
            except _Duplicate as copy:
                if reply:
                    answers.append(
                        (reply, b'{"stream":"%s","seq":%d,"duplicate": true}' % (name, copy.seq))
                    )
            else:
                if reply:
                    answers.append((reply, accepted % seq))
        self._finish(now)

    def _accept(self, subject: bytes, block: bytes, payload: bytes, now: int) -> int:
        machine = self.machine
        config = machine.config
        if config.sealed:
            raise api_error(10109)
        if 0 <= config.max_msg_size < len(block) + len(payload):
            raise api_error(10054)
        if subject not in self._lasts:
            _check_text(subject)
        msg_id = rollup = b""
        kept = block
        if block:
            found = h.publish_headers(block)
            if found.get(h.BATCH_ID):
                raise api_error(10174)
            if len(block) > _MAX_HEADERS:
                raise api_error(10097)
            if found:
                msg_id = found.get(h.MSG_ID, b"")
                rollup = found.get(h.ROLLUP, b"").lower()
                if not msg_id or len(found) > 1:
                    self._check_found(subject, found)
                if msg_id and self._dedups:
                    self._check_id(msg_id, now)
                if len(found) > 1 or not msg_id:
                    self._check_rest(found, rollup)
            kept = h.stored_block(block)
        size = machine.size_of(subject, kept, len(payload))
        if size > LARGEST_RECORD:
            raise api_error(10077, err="message too large")
        if self._room is not None:
            self._check_room(self._room, subject, size, rollup)
        return self._take(subject, kept or None, payload, msg_id, rollup)

    # -- checks ------------------------------------------------------------------------------

    def _check_found(self, subject: bytes, found: dict[bytes, bytes]) -> None:
        """Check what comes before deduplication; an empty value is no value."""
        increment = found.get(h.INCREMENT)
        if increment:
            raise api_error(10168 if h.is_increment(increment) else 10171)
        stream = found.get(h.EXPECTED_STREAM)
        if stream and stream != self.machine.config.name.encode():
            raise api_error(10060)
        # Without support for what it says a message must not be stored as if it were kept.
        ttl = found.get(h.TTL)
        if ttl and h.is_ttl(ttl):
            raise api_error(10166)
        self._check_expected(subject, found)
        if found.get(h.SCHEDULE):
            raise api_error(10188)
        if found.get(h.STREAM_SOURCE):
            raise api_error(10227)

    def _check_expected(self, subject: bytes, found: dict[bytes, bytes]) -> None:
        wanted = found.get(h.EXPECTED_LAST_SUBJECT_SEQ)
        other = found.get(h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
        if wanted:
            last = self._last_of(other or subject)
            if _number(wanted) != last:
                raise api_error(10071, seq=last)
        elif other:
            raise api_error(10193)
        wanted = found.get(h.EXPECTED_LAST_SEQ)
        if wanted and _number(wanted) != self.next_seq - 1:
            raise api_error(10071, seq=self.next_seq - 1)

    def _last_of(self, pattern: bytes) -> int:
        index, wiped = self.machine.index, self._wiped >= 0
        if b"*" not in pattern and b">" not in pattern:
            last = self._lasts.get(pattern)
            if last is None:
                return 0 if wiped else index.last(pattern)
            return last
        match = compile_filters([pattern]) or _everything
        stored = {} if wiped else {s: last for s, _, last in index.items() if match(s)}
        stored.update((s, last) for s, last in self._lasts.items() if match(s))
        return max(stored.values(), default=0)

    def _check_id(self, msg_id: bytes, now: int) -> None:
        seq = self._ids.get(msg_id)
        if seq is None:
            seq = self.machine.dedup.find(msg_id, now)
        if seq is not None:
            raise _Duplicate(seq)

    def _check_rest(self, found: dict[bytes, bytes], rollup: bytes) -> None:
        """Check what comes after deduplication."""
        wanted = found.get(h.EXPECTED_LAST_MSG_ID)
        if wanted and wanted != self._last_id:
            raise api_error(10070, id=self._last_id.decode(errors="replace"))
        if rollup:
            config = self.machine.config
            if not config.allow_rollup_hdrs or config.deny_purge:
                raise api_error(10111, err="rollup not permitted")
            if rollup not in (b"sub", b"all"):
                text = rollup.decode(errors="replace")
                raise api_error(10111, err=f'rollup value invalid: "{text}"')
        ttl = found.get(h.TTL)
        if ttl and not h.is_no_ttl(ttl):
            raise api_error(10165)

    def _check_room(self, room: Room, subject: bytes, size: int, rollup: bytes) -> None:
        why = room.refusal(subject, size, rollup)
        if why:
            raise api_error(10077, err=why)
        room.take(subject, size, rollup)

    # -- acceptance --------------------------------------------------------------------------

    def _take(
        self, subject: bytes, block: bytes | None, payload: bytes, msg_id: bytes, rollup: bytes
    ) -> int:
        seq = self.next_seq
        self.next_seq = seq + 1
        if rollup:
            if rollup == b"all":
                self._wiped = len(self._payloads)
                self._lasts.clear()
            else:
                self._rolled[subject] = len(self._payloads)
        self._lasts[subject] = seq
        self._subjects.append(subject)
        self._headers.append(block)
        self._payloads.append(payload)
        self._last_id = msg_id
        if msg_id:
            self._ids[msg_id] = seq
        return seq

    def _finish(self, now: int) -> None:
        plan = self.plan
        if not self._payloads:
            return
        if self._dedups:
            plan.ids = list(self._ids.items())
        plan.last_msg_id = self._last_id
        dropped = self._roll_up() if self._rolled or self._wiped >= 0 else None
        headers = self._headers if any(self._headers) else None
        plan.texts = [subject.decode() for subject in self._subjects]
        self.machine.store(plan, self._subjects, headers, self._payloads, now, dropped)

    def _roll_up(self) -> set[int]:
        """Take out what the batch's roll-ups replace; return places within the batch to drop."""
        plan, machine, wiped, rolled = self.plan, self.machine, self._wiped, self._rolled
        if wiped >= 0:
            plan.purged_below = machine.last_seq + 1
            plan.msgs = plan.nbytes = 0
        else:
            for subject in rolled:
                stored = machine.index.of_subject(subject)
                if stored is None:
                    stored = self.rollups.get(subject, [])
                for seq, size in stored:
                    machine.remove(plan, seq, subject, size)
                    # With one message per subject the next leader derives it from the rows.
                    if machine.limit != 1:
                        plan.erased.append(seq)
        place_of = rolled.get
        return {i for i, s in enumerate(self._subjects) if i < wiped or i < place_of(s, 0)}


def refusal(error: ApiError, name: bytes) -> bytes:
    """Return the publish ack that carries an error; `name` is escaped for JSON."""
    return b'{"error":{"code":%d,"err_code":%d,"description":"%s"},"stream":"%s","seq":0}' % (
        error.code,
        error.err_code,
        json_text(error.description),
        name,
    )


def json_text(text: str) -> bytes:
    """Return the inside of a JSON string, escaped as the reference server does it."""
    out = text.replace("\\", "\\\\").replace('"', '\\"')
    for char, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        out = out.replace(char, escape)
    return "".join(c if c >= " " else f"\\u{ord(c):04x}" for c in out).encode()


def _check_text(subject: bytes) -> None:
    """Refuse a subject that PostgreSQL cannot keep as text."""
    if len(subject) > MAX_SUBJECT:
        raise ApiError(400, 10003, f"bad request: subject longer than {MAX_SUBJECT} bytes")
    try:
        subject.decode()
    except UnicodeDecodeError:
        raise ApiError(400, 10003, "bad request: subject is not UTF-8 text") from None
    if b"\0" in subject:
        raise ApiError(400, 10003, "bad request: subject contains a NUL byte")


def _number(value: bytes) -> int:
    """Return a sequence header's value; anything but digits matches no sequence."""
    return int(value) if value.isdigit() and len(value) <= 20 else -1


def _everything(_subject: bytes) -> bool:
    return True
