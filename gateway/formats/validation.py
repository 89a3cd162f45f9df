"""Validation of request input: names, subjects, durations, JSON. Functions raise `Problem`.

Subjects and names become part of NATS protocol lines and API subjects. So input with line breaks,
blanks or unexpected wildcards is refused.
"""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
import orjson

from core.model.durations import parse_duration
from core.model.gojson import MAX_VALUES
from core.model.gotime import parse_time
from gateway.http.problems import Problem, bad_request, quoted
from gateway.settings import Settings

T = TypeVar("T")

_BAD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
# Characters that end a word or a line of the NATS protocol. All others occur in subjects of NATS
# clients: joiners of Persian words and of emoji, wide blanks, even control characters.
_UNSAFE = re.compile(r"[\t\n\r ]")
_NAME_FORBIDDEN = re.compile(r"[\x00\t\n\f\r .*>/\\]")
_NAME_MAX = 255
_LAST_INSTANT = 2**63 - 1
_OPEN_DOLLAR = ("$KV.", "$O.")
_RESERVED = ("_INBOX.", "_R_.", "_GR_.")
_DURATION = re.compile(r"(?:(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:ns|us|µs|ms|s|m|h))+")
_DURATION_MAX = 64
_TRUNCATED = "Input data was truncated"  # also msgspec's text for half of a surrogate pair
_HALF_PAIR = "half of a surrogate pair, such as \\ud800 alone, is no text"
_INT64_MAX = 2**63 - 1
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_JSON_TYPES = {
    list: "an array",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
}
_ANY = 1 << 20  # more bytes than the path of a request can have


def percent_decoded(segment: bytes, what: str) -> str:
    """Percent-decode a part of a path or query, once.

    Raises Problem 400 if the result is not UTF-8 or the encoding is malformed. `what` names the
    part.
    """
    try:
        if b"%" not in segment:
            return segment.decode()
        if not _BAD_PERCENT.search(segment):
            return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise bad_request(
            "bad-encoding", f"{what}: {quoted(segment.decode('latin-1'))} does not decode to UTF-8"
        ) from None
    raise bad_request(
        "bad-encoding",
        f"{what}: {quoted(segment.decode('latin-1'))} has a % "
        "without two hexadecimal digits after it",
    )


def name(text: str, what: str) -> str:
    """Check the name of a stream or consumer, and return it.

    Raises Problem 400 unless it has 1 to 255 bytes without blanks, line breaks, NUL, backslash or
    `.*>/`. `what` is its kind, for the error.
    """
    if not text or _NAME_FORBIDDEN.search(text):
        rule = "1 to 255 bytes without blanks, line breaks, NUL or . * > / \\"
        raise bad_request("bad-name", f"{what} name: {quoted(text)} is not {rule}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise bad_request(
            "bad-name", f"{what} name: {quoted(text)} cannot be encoded as UTF-8"
        ) from None
    if size > _NAME_MAX:
        raise bad_request("bad-name", f"{what} name: {size} bytes, at most {_NAME_MAX}")
    return text


def publish_subject(text: str, settings: Settings) -> bytes:
    """Check a subject to publish to, and return it as bytes.

    Raises Problem 400 if it is invalid or has wildcards, 403 if it is reserved for the system.
    """
    return _publish_subject(text, settings.subject_bytes_max)


@lru_cache(1024)
def _publish_subject(text: str, bytes_max: int) -> bytes:
    tokens = _subject_tokens(text, bytes_max)
    if "*" in tokens or ">" in tokens:
        raise bad_request(
            "bad-subject", f"subject: {quoted(text)} has wildcards, which a publish may not have"
        )
    reserved = text.startswith(_RESERVED)
    if reserved or (text.startswith("$") and not text.startswith(_OPEN_DOLLAR)):
        raise Problem(
            403, "reserved-subject", f"subject: {quoted(text)} is reserved for the system"
        )
    return text.encode()


def stored_subject(text: str) -> str:
    """Check the subject of a stored message, of any length, and return it.

    Raises Problem 400 if it is invalid or has wildcards.
    """
    if {"*", ">"} & set(_subject_tokens(text, _ANY)):
        raise bad_request(
            "bad-subject", f"subject: {quoted(text)} has wildcards, but names one message"
        )
    return text


def filter_subject(text: str, settings: Settings) -> str:
    """Check a subject that may have wildcards, and return it.

    Raises Problem 400 if it is invalid.
    """
    tokens = _subject_tokens(text, settings.subject_bytes_max)
    if ">" in tokens[:-1]:
        raise bad_request("bad-subject", f"subject: {quoted(text)} has > before the last token")
    return text


def followed(filters: Iterable[str], kind: str) -> None:
    """Check the filters of a consumer. Raises Problem 400 for a form feed, as JetStream refuses it.

    `kind` is the kind of the problem.
    """
    if any("\f" in text for text in filters):
        detail = "a form feed (U+000C): stored subjects may have it, filters of consumers not"
        raise bad_request(kind, detail)


def _subject_tokens(text: str, bytes_max: int) -> list[str]:
    if not text or _UNSAFE.search(text):
        raise bad_request(
            "bad-subject", f"subject: {quoted(text)} is empty, or has a blank, tab or line break"
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise bad_request(
            "bad-subject", f"subject: {quoted(text)} cannot be encoded as UTF-8"
        ) from None
    tokens = text.split(".")
    if size > bytes_max:
        raise bad_request("bad-subject", f"subject: {size} bytes, at most {bytes_max}")
    if "" in tokens:
        raise bad_request(
            "bad-subject",
            f"subject: {quoted(text)} has an empty token between two dots, or at an end",
        )
    return tokens


def utf8_header(value: bytes, name: str) -> str:
    """Decode the value of an HTTP header. Raises Problem 400 if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise bad_request(
            "bad-header", f"{name}: {quoted(value.decode('latin-1'))} is not UTF-8"
        ) from None


def header_text(text: str, what: str) -> bytes:
    """Encode a text as the value of a message header, without surrounding blanks.

    Raises Problem 400 for line breaks and NUL.
    """
    if any(c in text for c in "\r\n\0"):
        raise bad_request("bad-header", f"{what}: {quoted(text)} has a line break or NUL")
    return text.strip(" \t").encode(errors="surrogatepass")


def instant(text: str) -> int:
    """Parse an RFC 3339 time to nanoseconds since the Unix epoch, for a search by time.

    Times of messages have 63 bits. An earlier or later time becomes the first or last of these; in
    the NATS API it wraps around. Raises ValueError for other text.
    """
    return min(max(parse_time(text), 0), _LAST_INSTANT)


def sequence(text: str, what: str) -> int:
    """Parse a sequence number, from 0 to 2**64 - 1. Raises Problem 400 for other text."""
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) >= 2**64:
        raise bad_request(
            "bad-parameter", f"{what}: {quoted(text)} is not an integer from 0 to 2^64 - 1"
        )
    return int(text)


def page_offset(text: str) -> int:
    """Parse the number of list entries to skip, from 0 to 2**63 - 1.

    Raises Problem 400 for other text.
    """
    count = sequence(text, "offset")
    if count > _INT64_MAX:
        raise bad_request("bad-parameter", f"offset: {count} is more than 2^63 - 1")
    return count


def flag(text: str, what: str) -> bool:
    """Parse a query parameter that is `true` or `false`. Raises Problem 400 for other text."""
    if text in ("true", "false"):
        return text == "true"
    raise bad_request("bad-parameter", f"{what}: {quoted(text)} is neither true nor false")


def duration(value: int | str, what: str) -> int:
    """Convert a duration to nanoseconds: an integer is nanoseconds, text is like `1.5s` or `2m30s`.

    Raises Problem 400 for other text, a negative number, or more than 2**63 - 1.
    """
    if isinstance(value, int):
        if 0 <= value <= _INT64_MAX:
            return value
        raise bad_request("bad-duration", f"{what}: {value} ns is negative, or more than 2^63 - 1")
    if len(value) > _DURATION_MAX or not _DURATION.fullmatch(value):
        raise bad_request(
            "bad-duration", f"{what}: {quoted(value)} is not a duration such as 500ms, 1.5s or 2m"
        )
    try:
        return parse_duration(value)
    except ValueError:
        raise bad_request("bad-duration", f"{what}: {value} is more than 2^63 - 1 ns") from None


def json_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object with any members.

    Raises Problem 400 for other JSON or a repeated member, 413 for too many values.
    """
    if not body.strip():
        raise bad_request("bad-json", "body: empty; expected a JSON object")
    refuse_many_values(body)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request("bad-json", f"body: {error}") from None
    if not isinstance(value, dict):
        raise bad_request(
            "bad-json", f"body: expected a JSON object, got {_JSON_TYPES.get(type(value), 'null')}"
        )
    json_bytes(value)
    refuse_duplicate_members(body)
    return value


def refuse_many_values(body: bytes) -> None:
    """Raise Problem 413 if JSON has more values than the server accepts.

    Each value takes microseconds to process.
    """
    if body.count(b",") + body.count(b"[") + body.count(b"{") < MAX_VALUES:
        return
    text = _STRINGS.sub(b"0", body).translate(None, b" \t\r\n")
    filled = text.count(b"[") + text.count(b"{") - text.count(b"[]") - text.count(b"{}")
    if text.count(b",") + filled >= MAX_VALUES:
        raise Problem(413, "body-too-large", f"body: more than {MAX_VALUES} values of JSON")


def refuse_duplicate_members(body: bytes) -> None:
    """Raise Problem 400 if an object in valid JSON repeats a member (RFC 8259, 4).

    The reason is in `gateway.formats.json_members`.
    """
    if body.count(b":") < 2:
        return
    try:
        json.loads(body, object_pairs_hook=_once, parse_int=len, parse_float=len)
    except RecursionError:
        raise bad_request("bad-json", "body: nested too deeply") from None


def _once(pairs: list[tuple[str, object]]) -> None:
    if len(pairs) > 1 and len({name for name, _ in pairs}) != len(pairs):
        raise bad_request("bad-json", f"body: an object has a member twice: {_first_twice(pairs)}")


def _first_twice(pairs: list[tuple[str, object]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return quoted(name)
        seen.add(name)
    return ""


def json_bytes(value: object) -> bytes:
    """Encode a value as JSON for the server.

    Raises Problem 400 for deeply nested values, which can be parsed but not encoded.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        raise bad_request("bad-json", "body: nested too deeply") from None


def json_fault(error: Exception, body: bytes) -> str:
    """Return the reason why a decoder refused JSON, for the client.

    The decoder's misleading messages are replaced.
    """
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeError):
        return "not UTF-8"
    text = str(error)
    if text != _TRUNCATED:
        return text
    return _HALF_PAIR if _is_json(body) else "it ends too early"


def _is_json(body: bytes) -> bool:
    """Return True if the text is JSON; halves of surrogate pairs are accepted."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def struct(cls: type[T], body: bytes) -> T:
    """Decode a JSON body to a struct; an empty body has all defaults.

    Raises Problem 400 for invalid JSON or members, 413 for too many values.
    """
    refuse_many_values(body)
    try:
        value = msgspec.json.decode(body or b"{}", type=cls)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request("bad-json", f"body: {json_fault(error, body)}") from None
    refuse_duplicate_members(body)
    return value
