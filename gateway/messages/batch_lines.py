"""Conversion of a batch publish: JSON lines to messages, receipts to result lines (no I/O).

This code runs for each message of a batch. It decodes a line once into a struct, publishes the
bytes of `data` unchanged, and returns a successful receipt as the server encoded it.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from core.client import MessageColumns, ReplyBatch, read_ack
from core.errors import ApiError
from gateway.formats import message_headers as headers_of
from gateway.formats.json_members import TWICE, colons_beside, is_plain, repeats_a_member
from gateway.formats.models import Expect, HeaderValues, PublishLine, WithPayload
from gateway.formats.validation import header_text, json_fault, publish_subject
from gateway.http.problems import Problem, bad_request, problem_of
from gateway.settings import Settings

_SUCCESS = b'{"stream":'
_SUBJECTS_CACHED_MAX = 8192
SLICE_LINES = 2048
"""Lines decoded per loop tick; an invalid line takes about four microseconds."""
_NO_STREAM = "no stream captures this subject"


class LineDecoder:
    """Decodes JSON lines of a batch publish to messages; checked subjects are cached."""

    def __init__(self, settings: Settings, max_payload: int) -> None:
        self._settings = settings
        self._max_payload = max_payload
        self._decoder = msgspec.json.Decoder(PublishLine)
        self._subjects: dict[str, bytes] = {}

    def decode(self, lines: list[bytes]) -> "BatchPart":
        """Decode a list of JSON lines to messages; blank lines are skipped.

        Invalid lines are recorded in the result as refused.
        """
        part = BatchPart()
        text = b"\n".join(lines)
        entries = self._decoded(text, lines)
        for entry in entries or ():
            self._put(part, entry)
        if entries is not None and not part.refused and _are_members_once(text, part):
            return part
        part = BatchPart()
        kept = [line for line in lines if line.strip()]
        if entries is None or len(entries) != len(kept):
            for line in kept:
                self.decode_line(part, line)
        else:
            for line, entry in zip(kept, entries, strict=True):
                self._put_if_once(part, line, entry)
        return part

    def decode_line(self, part: "BatchPart", raw: bytes | msgspec.Raw) -> None:
        """Decode one line, or one element of a JSON array, and append it to `part`."""
        entry = self._entry(raw)
        if isinstance(entry, PublishLine):
            self._put_if_once(part, raw, entry)
        else:
            part.refuse(entry)

    def _put_if_once(self, part: "BatchPart", raw: bytes | msgspec.Raw, entry: PublishLine) -> None:
        """Append a message, or a refusal if its JSON text `raw` repeats a member."""
        try:
            is_refused = _has_more_headers(entry, self._settings.message_header_count_max)
            if not is_refused and repeats_a_member(bytes(raw)):
                part.refuse(bad_request("bad-json", TWICE))
                return
        except (UnicodeDecodeError, RecursionError) as error:
            part.refuse(bad_request("bad-json", json_fault(error, bytes(raw))))
        else:
            self._put(part, entry)

    def _decoded(self, text: bytes, lines: list[bytes]) -> list[PublishLine] | None:
        """Decode all lines at once. None: a line is invalid, so each line must be decoded alone."""
        try:
            entries = self._decoder.decode_lines(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return entries if _is_one_a_line(text, lines, len(entries)) else None

    def _entry(self, line: bytes | msgspec.Raw) -> PublishLine | Problem:
        try:
            return self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return bad_request("bad-json", json_fault(error, bytes(line)))

    def _put(self, part: "BatchPart", line: PublishLine) -> None:
        try:
            subject = self._subjects.get(line.subject) or self._subject(line.subject)
            payload = payload_of(line)
            plain = line.headers is None and line.msg_id is None and line.expect is None
            headers = b"" if plain else headers_of_line(line, self._settings)
            if line.data_base64 is not UNSET:
                part.colons -= payload.count(b":")  # the line contains the payload as base64
            if not plain:
                part.colons += colons_beside(line.headers, line.msg_id, line.expect)
            if len(payload) + len(headers) > self._max_payload:
                detail = f"headers and payload: larger than {self._max_payload} bytes"
                raise Problem(413, "body-too-large", detail)
            part.add(subject, payload, headers)
        except Problem as problem:
            part.refuse(problem)

    def _subject(self, text: str) -> bytes:
        subject = publish_subject(text, self._settings)
        if len(self._subjects) >= _SUBJECTS_CACHED_MAX:
            self._subjects.clear()
        self._subjects[text] = subject
        return subject


def _has_more_headers(line: PublishLine, most: int) -> bool:
    """Return True if a message has too many headers; such a line is refused later."""
    headers = line.headers or {}
    return len(headers) > most or any(
        len(values) > most for values in headers.values() if not isinstance(values, str)
    )


def _is_one_a_line(text: bytes, lines: list[bytes], found: int) -> bool:
    """Return True if each line of NDJSON contains exactly one JSON object.

    The decoder also accepts two objects in a line, and an object that continues in the next line.
    `found` is the number of objects that it has decoded. No object continues between the `}` at the
    end of a line and the `{` at the start of the next one.
    """
    if found == len(lines) == text.count(b"}\n{") + 1:
        return True
    kept = [line for raw in lines if (line := raw.strip())]
    return found == len(kept) and all(line[:1] == b"{" and line[-1:] == b"}" for line in kept)


def _are_members_once(text: bytes, part: "BatchPart") -> bool:
    """Return True if certainly no line repeats a member (`gateway.formats.json_members`)."""
    subjects, payloads = part.batch.subjects, part.batch.payloads
    members = 2 * part.size - payloads.count(b"")  # subjects and payload members
    held = b"".join(subjects).count(b":") + b"".join(payloads).count(b":")
    return text.count(b":") == members + held + part.colons and is_plain(text)


def payload_of(line: WithPayload) -> bytes:
    """Return the payload of a message in JSON: `data`, `text`, decoded `data_base64`, or empty.

    Raises Problem 400 for more than one of them, or invalid base64.
    """
    data, text, encoded = line.data, line.text, line.data_base64
    if data is not UNSET:
        assert not isinstance(data, UnsetType)
        if text is not UNSET or encoded is not UNSET:
            raise bad_request("bad-line", "only one of data, text and data_base64 may be set")
        payload = bytes(data)
        if not payload.isascii():
            try:
                payload.decode()
            except UnicodeDecodeError:
                raise bad_request("bad-json", "data: not UTF-8") from None
        return payload
    if not isinstance(text, UnsetType):
        if not isinstance(encoded, UnsetType):
            raise bad_request("bad-line", "only one of data, text and data_base64 may be set")
        return text.encode()
    if isinstance(encoded, UnsetType):
        return b""
    try:
        return b64decode(encoded, validate=True)
    except (Base64Error, ValueError):
        raise bad_request(
            "bad-line", "data_base64: the value is not base64 (RFC 4648, 4)"
        ) from None


_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def headers_of_line(line: PublishLine, settings: Settings) -> bytes:
    """Encode the headers of a JSON line as a NATS header block.

    Raises Problem as `header_block`.
    """
    return header_block(line.headers, settings, line.msg_id, line.expect)


def header_block(
    headers: HeaderValues | None,
    settings: Settings,
    msg_id: str | None = None,
    expect: Expect | None = None,
) -> bytes:
    """Encode the headers, message id and conditions of a message as a NATS header block.

    Raises Problem for invalid or disallowed headers, or too many of them.
    """
    items: headers_of.Items = []
    for name, values in (headers or {}).items():
        key = name.encode()
        if key[:5].lower() == b"nats-":
            key = headers_of.jetstream_name(key)
        for value in [values] if isinstance(values, str) else values:
            if len(items) >= settings.message_header_count_max:
                raise headers_of.too_large(settings)
            items.append((key, _header_value(value, name)))
    if msg_id is not None:
        if not msg_id:
            raise bad_request("bad-header", "msg_id: the value is empty")
        items.append((b"Nats-Msg-Id", _header_value(msg_id, "msg_id")))
    if expect is not None:
        items += _expectations(expect)
    headers_of.check(items, settings)
    headers_of.refuse_duplicates(items)
    return headers_of.block(items)


def _header_value(value: str, what: str) -> bytes:
    if _CONTROL.search(value):
        raise bad_request("bad-header", f"{what}: a control character")
    return header_text(value, what)


def _expectations(expect: Expect) -> headers_of.Items:
    items: headers_of.Items = []
    if expect.stream is not None:
        items.append((b"Nats-Expected-Stream", _header_value(expect.stream, "expect.stream")))
    if expect.last_seq is not None:
        items.append((b"Nats-Expected-Last-Sequence", b"%d" % expect.last_seq))
    if expect.last_subject_seq is not None:
        items.append((b"Nats-Expected-Last-Subject-Sequence", b"%d" % expect.last_subject_seq))
    if expect.last_msg_id is not None:
        value = _header_value(expect.last_msg_id, "expect.last_msg_id")
        items.append((b"Nats-Expected-Last-Msg-Id", value))
    return items


class BatchPart:
    """Consecutive messages of a batch publish, including refused ones.

    Attributes:
        batch: The messages to publish.
        refused: Problems of refused lines, by index in the part.
        replies: Replies to `batch`, after it is sent.
        size: Number of lines.
        colons: Number of colons in the JSON of headers, message ids and conditions, less those in
            payloads sent as base64; to detect repeated members (`gateway.formats.json_members`).
    """

    __slots__ = ("batch", "colons", "refused", "replies", "size")

    def __init__(self) -> None:
        self.batch = MessageColumns()
        self.refused: dict[int, Problem] = {}
        self.replies: ReplyBatch | None = None
        self.size = 0
        self.colons = 0  # see `_are_members_once`

    def add(self, subject: bytes, payload: bytes, headers: bytes) -> None:
        """Append a message to publish."""
        self.batch.add(subject, b"", headers, payload)
        self.size += 1

    def refuse(self, problem: Problem) -> None:
        """Append a line that cannot be published, by its problem."""
        self.refused[self.size] = problem
        self.size += 1

    def append(self, other: "BatchPart") -> None:
        """Append the messages of another `BatchPart`, including refused ones."""
        self.refused |= {self.size + place: problem for place, problem in other.refused.items()}
        self.batch.extend(other.batch)
        self.size += other.size

    def results(self, counter: "ResultCounter") -> list[bytes]:
        """Return one JSON text per line, in order: the receipt or the problem.

        Empty texts are omitted.
        """
        replies, refused = self.replies, self.refused
        acks = replies.payloads if replies is not None else [None] * len(self.batch)
        statuses = replies.statuses if replies is not None else {}
        results: list[bytes] = []
        answered = 0
        for position in range(self.size):
            if refused and position in refused:
                results.append(counter.failure(refused[position]))
                continue
            ack = acks[answered]
            if ack is not None and ack.startswith(_SUCCESS) and answered not in statuses:
                results.append(counter.success(ack))
            else:
                results.append(counter.failure(failure_of(replies, answered)))
            answered += 1
        return results


class ResultCounter:
    """Counts and encodes the results of a batch publish; `brief`: successes are only counted."""

    def __init__(self, brief: bool) -> None:
        self.brief = brief
        self.published = 0
        self.duplicates = 0
        self.failed = 0

    def success(self, ack: bytes) -> bytes:
        """Count a stored message, and return its receipt on one line; empty if `brief`."""
        self.published += 1
        if not self.brief:
            return ack.replace(b"\n", b" ") if b"\n" in ack else ack
        self.duplicates += b'"duplicate"' in ack
        return b""

    def failure(self, problem: Problem) -> bytes:
        """Count a failed message, and return its problem as JSON.

        If `brief`, the JSON has the number of the message in the batch, counted from 1.
        """
        self.failed += 1
        line: dict[str, object] = {"error": problem.members()}
        if self.brief:
            line["line"] = self.published + self.failed
        return orjson.dumps(line)

    def summary(self) -> bytes:
        """Return the last line of a brief response: the numbers of results."""
        counts = {"published": self.published, "duplicates": self.duplicates, "failed": self.failed}
        return orjson.dumps(counts)


def failure_of(replies: ReplyBatch | None, index: int) -> Problem:
    """Return the problem of a publish without a successful receipt, by its index in the batch.

    `replies` None: the batch could not be sent.
    """
    if replies is None:
        return receipt_problem(None, 0)
    status = replies.statuses.get(index, 0)
    if status == 403 and (error := replies.refused.get(index)) is not None:
        return problem_of(error)
    return receipt_problem(replies.payloads[index], status)


def receipt_problem(ack: bytes | None, status: int) -> Problem:
    """Return the problem of a publish without a successful receipt.

    `ack` is the payload of the reply; None: no reply arrived. `status` is its NATS status; 0: none.
    """
    if ack is None:
        detail = "no acknowledgement came in time; the outcome is unknown"
        return Problem(504, "no-answer", detail)
    if status == 503:
        return Problem(404, "no-stream", _NO_STREAM)
    if status == 403:
        return Problem(403, "not-permitted", "this user may not publish to this subject")
    if status:
        return Problem(
            429, "too-many-requests", "the stream has too many unfinished publishes; retry later"
        )
    try:
        read_ack(ack)
    except ApiError as error:
        return problem_of(error)
    except ValueError:
        pass
    return Problem(502, "not-a-receipt", "a subscriber that is not a stream answered the publish")
