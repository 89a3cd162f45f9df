"""Publish preconditions, message by message, in the reference server's order.

The overlay (`_lasts`, `_counts`, `_ids`, ...) is what the batch itself has changed so far, so that
a message is judged against the stream as it will be when its predecessors are committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.errors import ApiError
from core.model.api_errors import api_error
from core.model.stream import Discard
from core.stream import headers as h
from core.stream.plan import Columns, StreamPlan
from core.subjects.subject import compile_filters

if TYPE_CHECKING:
    from core.stream.machine import StreamMachine

# A subject is a column of the log's unique index, whose entries are limited to 2704 bytes.
MAX_SUBJECT = 2048
_MAX_HEADERS = 65535
_LARGEST_RECORD = 32 << 20

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
        self.msgs = machine.msgs
        self.bytes = machine.bytes
        self._lasts: dict[bytes, int] = {}
        self._counts: dict[bytes, int] = {}
        self._ids: dict[bytes, int] = {}
        self._last_id = machine.last_msg_id
        self._subjects: list[bytes] = []
        self._headers: list[bytes | None] = []
        self._payloads: list[bytes] = []
        self._rolled: list[tuple[int, bytes | None]] = []

    def judge(self, columns: Columns, now: int) -> None:
        """Fill the plan with the accepted messages and with an answer for every message."""
        name = self.machine.config.name.encode()
        for subject, reply, block, payload in zip(
            columns.subjects, columns.replies, columns.headers, columns.payloads, strict=True
        ):
            try:
                seq = self._accept(subject, block, payload, now)
            except ApiError as error:
                if reply:
                    self.plan.answers.append((reply, refusal(error, name)))
            except _Duplicate as copy:
                if reply:
                    body = b'{"stream":"%s","seq":%d,"duplicate": true}' % (name, copy.seq)
                    self.plan.answers.append((reply, body))
            else:
                if reply:
                    self.plan.answers.append((reply, b'{"stream":"%s","seq":%d}' % (name, seq)))
        self._finish(now)

    def _accept(self, subject: bytes, block: bytes, payload: bytes, now: int) -> int:
        config = self.machine.config
        if config.sealed:
            raise api_error(10109)
        _text(subject)
        found = h.publish_headers(block) if block else {}
        if found:
            self._check_unserved(found)
            self._check_expected(subject, found)
            self._check_ids(found, now)
            self._check_rollup(found)
        if config.max_msg_size >= 0 and len(block) + len(payload) > config.max_msg_size:
            raise api_error(10054)
        if len(block) > _MAX_HEADERS:
            raise api_error(10097)
        kept = h.stored_block(block) if block else b""
        size = self.machine.size_of(subject, kept, len(payload))
        if size > _LARGEST_RECORD:
            raise api_error(10077, err="message too large")
        self._check_limits(subject, size, found)
        return self._take(subject, kept or None, payload, size, found)

    # -- checks ------------------------------------------------------------------------------

    def _check_unserved(self, found: dict[bytes, bytes]) -> None:
        """Refuse what this server would otherwise store without doing what it says."""
        config = self.machine.config
        stream = found.get(h.EXPECTED_STREAM)
        if h.INCREMENT in found:
            raise api_error(10168)
        if stream is not None and stream != config.name.encode():
            raise api_error(10060)
        if h.TTL in found:
            raise api_error(10166)
        if h.SCHEDULE in found:
            raise api_error(10188)
        if h.BATCH_ID in found:
            raise api_error(10174)
        if h.STREAM_SOURCE in found:
            raise api_error(10227)

    def _check_expected(self, subject: bytes, found: dict[bytes, bytes]) -> None:
        wanted = found.get(h.EXPECTED_LAST_SUBJECT_SEQ)
        other = found.get(h.EXPECTED_LAST_SUBJECT_SEQ_SUBJECT)
        if other is not None and wanted is None:
            raise api_error(10193)
        if wanted is not None:
            last = self._last_of(other or subject)
            if _number(wanted) != last:
                raise api_error(10071, seq=last)
        wanted = found.get(h.EXPECTED_LAST_SEQ)
        if wanted is not None and _number(wanted) != self.next_seq - 1:
            raise api_error(10071, seq=self.next_seq - 1)

    def _last_of(self, pattern: bytes) -> int:
        if b"*" not in pattern and b">" not in pattern:
            last = self._lasts.get(pattern)
            return self.machine.index.last(pattern) if last is None else last
        match = compile_filters([pattern]) or _everything
        stored = {s: last for s, _, last in self.machine.index.items() if match(s)}
        stored.update((s, last) for s, last in self._lasts.items() if match(s))
        return max(stored.values(), default=0)

    def _check_ids(self, found: dict[bytes, bytes], now: int) -> None:
        msg_id = found.get(h.MSG_ID)
        if msg_id and self.machine.config.duplicate_window > 0:
            seq = self._ids.get(msg_id)
            if seq is None:
                seq = self.machine.dedup.find(msg_id, now)
            if seq is not None:
                raise _Duplicate(seq)
        wanted = found.get(h.EXPECTED_LAST_MSG_ID)
        if wanted is not None and wanted != self._last_id:
            raise api_error(10070, id=self._last_id.decode(errors="replace"))

    def _check_rollup(self, found: dict[bytes, bytes]) -> None:
        value = found.get(h.ROLLUP)
        if not value:
            return
        if not self.machine.config.allow_rollup_hdrs or self.machine.config.deny_purge:
            raise api_error(10111, err="rollup not permitted")
        if value.lower() not in (b"sub", b"all"):
            text = value.decode(errors="replace").lower()
            raise api_error(10111, err=f'rollup value invalid: "{text}"')

    def _check_limits(self, subject: bytes, size: int, found: dict[bytes, bytes]) -> None:
        machine, config = self.machine, self.machine.config
        if config.discard is not Discard.NEW:
            return
        full = 0 < machine.limit <= self._count_of(subject)
        if full and config.discard_new_per_subject and not found.get(h.ROLLUP):
            raise api_error(10077, err="maximum messages per subject exceeded")
        if full or found.get(h.ROLLUP):
            return
        if machine.max_msgs and self.msgs >= machine.max_msgs:
            raise api_error(10077, err="maximum messages exceeded")
        if machine.max_bytes and self.bytes + size > machine.max_bytes:
            raise api_error(10077, err="maximum bytes exceeded")

    def _count_of(self, subject: bytes) -> int:
        return self.machine.index.count(subject) + self._counts.get(subject, 0)

    # -- acceptance --------------------------------------------------------------------------

    def _take(
        self,
        subject: bytes,
        block: bytes | None,
        payload: bytes,
        size: int,
        found: dict[bytes, bytes],
    ) -> int:
        seq = self.next_seq
        self.next_seq = seq + 1
        if not 0 < self.machine.limit <= self._count_of(subject):
            self._counts[subject] = self._counts.get(subject, 0) + 1
            self.msgs += 1
            self.bytes += size
        self._lasts[subject] = seq
        self._subjects.append(subject)
        self._headers.append(block)
        self._payloads.append(payload)
        self._last_id = found.get(h.MSG_ID, b"") if found else b""
        if self._last_id:
            self._ids[self._last_id] = seq
        rollup = found.get(h.ROLLUP, b"").lower() if found else b""
        if rollup == b"sub":
            self._rolled.append((len(self._payloads) - 1, subject))
        elif rollup == b"all":
            self._rolled.append((len(self._payloads) - 1, None))
        return seq

    def _finish(self, now: int) -> None:
        plan = self.plan
        if not self._payloads:
            return
        plan.ids = list(self._ids.items())
        plan.last_msg_id = self._last_id
        dropped = self._roll_up()
        headers = self._headers if any(self._headers) else None
        plan.texts = [subject.decode() for subject in self._subjects]
        self.machine.store(plan, self._subjects, headers, self._payloads, now, dropped)

    def _roll_up(self) -> set[int]:
        """Take out what the batch's roll-ups replace; return places within the batch to drop."""
        plan, machine = self.plan, self.machine
        dropped: set[int] = set()
        gone: set[int] = set()
        for place, subject in self._rolled:
            if subject is None:
                plan.purged_below = machine.last_seq + 1
                plan.msgs = plan.nbytes = 0
                plan.removed.clear()
                plan.erased.clear()
                dropped.update(range(place))
                continue
            dropped.update(i for i in range(place) if self._subjects[i] == subject)
            if plan.purged_below:
                continue
            stored = machine.index.of_subject(subject)
            if stored is None:
                stored = self.rollups.get(subject, [])
            for seq, size in stored:
                if seq not in gone:
                    gone.add(seq)
                    machine.remove(plan, seq, subject, size)
                    plan.erased.append(seq)
        return dropped


def refusal(error: ApiError, name: bytes) -> bytes:
    """Return the publish ack that carries an error."""
    return b'{"error":{"code":%d,"err_code":%d,"description":"%s"},"stream":"%s","seq":0}' % (
        error.code,
        error.err_code,
        _json_text(error.description),
        name,
    )


def _json_text(text: str) -> bytes:
    out = text.replace("\\", "\\\\").replace('"', '\\"')
    for char, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        out = out.replace(char, escape)
    return "".join(c if c >= " " else f"\\u{ord(c):04x}" for c in out).encode()


def _text(subject: bytes) -> None:
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
