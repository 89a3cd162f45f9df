"""Conversion between HTTP headers and message headers.

Into messages: `Nats-H-<Name>` becomes `<Name>`, and `ce-*` are attributes of a CloudEvent. Of
JetStream's headers (`Nats-*`), those that control a publish are accepted, others are refused. HTTP
names are case-insensitive, so they are converted to the usual spelling (`X-Order-Id`).

Out of messages: headers of JetStream and CloudEvents are unchanged. All others get the prefix
`Nats-H-`, so that no message can set a cookie, a redirect or a policy on a response.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from starlette.datastructures import Headers

from core.model.api_errors import api_error
from core.model.versions import is_level_supported
from gateway.formats import cloud_events
from gateway.formats.validation import sequence
from gateway.http.problems import Problem, bad_request, problem_of, quoted
from gateway.settings import Settings

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNPRINTABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_USER = b"nats-h-"
PUBLISH_HEADERS = (
    "Nats-Msg-Id",
    "Nats-Expected-Stream",
    "Nats-Expected-Last-Sequence",
    "Nats-Expected-Last-Subject-Sequence",
    "Nats-Expected-Last-Subject-Sequence-Subject",
    "Nats-Expected-Last-Msg-Id",
    "Nats-Rollup",
    "Nats-TTL",
    "Nats-Incr",
    "Nats-Schedule",
    "Nats-Schedule-Target",
    "Nats-Schedule-Source",
    "Nats-Schedule-TTL",
    "Nats-Schedule-Time-Zone",
    "Nats-Schedule-Rollup",
    "Nats-Schedule-Next",
    "Nats-Scheduler",
    "Nats-Required-Api-Level",
)
_ALLOWED = {name.lower().encode(): name.encode() for name in PUBLISH_HEADERS}
# Headers of nearly every request that never become message headers.
_SILENT = frozenset(
    (
        b"accept",
        b"accept-encoding",
        b"authorization",
        b"connection",
        b"content-length",
        b"host",
        b"user-agent",
    )
)
_CACHED_BYTES = 128
_LEVEL = b"Nats-Required-Api-Level"
_CONDITIONS = frozenset((b"idempotency-key", b"js-expect", b"if-match", b"if-none-match"))
# Media types that a browser shows or downloads without running code.
_SAFE_TYPES = re.compile(
    rb"(application/(json|[a-z0-9.-]+\+json|x-ndjson|cbor|msgpack|octet-stream|protobuf|avro)"
    rb"|text/(plain|csv)|image/(png|jpeg|webp|gif))(; ?charset=[a-z0-9-]{1,20})?"
)

Items = list[tuple[bytes, bytes]]


def canonical(name: bytes) -> bytes:
    """Convert a header name to the usual spelling: `x-order-id` becomes `X-Order-Id`."""
    return b"-".join(part[:1].upper() + part[1:] for part in name.split(b"-"))


def jetstream_name(name: bytes) -> bytes:
    """Convert the name of a JetStream header to its usual spelling.

    Raises Problem 400 for a header that a publisher may not set.
    """
    known = _ALLOWED.get(name.lower())
    if known is None:
        shown = name.decode(errors="replace")
        raise bad_request("header-not-allowed", f"{shown}: cannot be set by a publisher")
    return known


def _users_own(name: bytes) -> bytes:
    """Return the name of a user's header. Raises Problem 400 if it starts with `nats-`."""
    if name.startswith(b"nats-"):
        shown = name.decode(errors="replace")
        raise bad_request("header-not-allowed", f"Nats-H-{shown}: begins with Nats- itself")
    return canonical(name)


def publish_block(raw: list[tuple[bytes, bytes]], settings: Settings) -> bytes:
    """Convert the headers of a publish request to the NATS header block of its message.

    Empty if the message has no headers. Raises Problem for invalid headers or too many of them.
    """
    said = [header for header in raw if header[0] not in _SILENT]
    if not said:
        return b""
    if len(said) == 1 and said[0][0] == b"content-type" and len(said[0][1]) <= _CACHED_BYTES:
        found = _typed(said[0][1])
        if len(found) <= settings.message_header_bytes_max and settings.message_header_count_max:
            return found
    items = message_headers(raw, settings)
    items += preconditions(Headers(raw=raw))
    refuse_duplicates(items)
    return block(items)


@lru_cache(256)
def _typed(media_type: bytes) -> bytes:
    """Return the NATS header block of a message that only has a Content-Type."""
    return block([(b"Content-Type", _value(b"content-type", media_type))]) if media_type else b""


def message_headers(raw: Iterable[tuple[bytes, bytes]], settings: Settings) -> Items:
    """Convert the headers of a publish request to the headers of its message.

    `Idempotency-Key`, `If-Match` and `If-None-Match` are left out: `preconditions` converts them.
    Raises Problem for invalid or disallowed headers, or too many of them.
    """
    raw = list(raw)
    items: Items = []
    for name, value in raw:
        if name.startswith(_USER):
            items.append((_users_own(name[len(_USER) :]), _value(name, value)))
        elif name.startswith(b"nats-"):
            items.append((jetstream_name(name), _value(name, value)))
        elif name == b"content-type" and value:
            items.append((b"Content-Type", _value(name, value)))
    items += cloud_events.to_message(raw)
    check(items, settings)
    return items


def require_level(value: bytes) -> None:
    """Raise Problem 412 if the server does not support the required API level (ADR-44)."""
    if not is_level_supported(value):
        raise problem_of(api_error("JSRequiredApiLevel"))


def check(items: Items, settings: Settings) -> None:
    """Check names, count and size of message headers.

    Raises Problem 400 for an invalid name or an empty `Nats-*`, 431 for too many or too large
    headers, 412 for an unsupported API level.
    """
    size = 0
    for name, value in items:
        size += len(name) + len(value) + 4
        if not _TOKEN.fullmatch(name):
            raise bad_request(
                "bad-header", f"{name.decode(errors='replace')!r} is not a header name"
            )
        if not value and name.startswith(b"Nats-"):  # JetStream treats it as missing
            raise bad_request("bad-header", f"{name.decode()}: the value is empty")
        if name == _LEVEL:
            require_level(value)
    if len(items) > settings.message_header_count_max or size > settings.message_header_bytes_max:
        raise too_large(settings)


def too_large(settings: Settings) -> Problem:
    """Return the Problem 431 for too many or too large message headers."""
    limits = f"{settings.message_header_count_max}, {settings.message_header_bytes_max} bytes"
    return Problem(431, "headers-too-large", f"message headers: more than {limits}")


def refuse_duplicates(items: Items) -> None:
    """Raise Problem 400 if a JetStream header is repeated: JetStream reads only the first."""
    names = [name for name, _ in items if name.startswith(b"Nats-")]
    if len(names) != len(set(names)):
        raise bad_request("bad-header", "a header of JetStream (Nats-*) occurs twice")


def _value(name: bytes, value: bytes) -> bytes:
    if _UNPRINTABLE.search(value):
        raise bad_request(
            "bad-header", f"{name.decode(errors='replace')}: the value has a control character"
        )
    return value


def preconditions(headers: Headers) -> Items:
    """Convert `Idempotency-Key`, `If-Match` and `If-None-Match` to JetStream headers.

    `Js-Expect` selects the last sequence of the stream or of the subject. Raises Problem 400 for
    invalid values.
    """
    items: Items = []
    if not any(name in _CONDITIONS for name, _ in headers.raw):
        return items
    if (key := headers.get("idempotency-key")) is not None:
        text = key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key
        if not text:
            raise bad_request("bad-header", "Idempotency-Key: the value is empty")
        if text.strip(" \t") != text:  # a message header loses the blank, which changes the key
            raise bad_request("bad-header", "Idempotency-Key: the key begins or ends with a blank")
        # As bytes: UTF-8 gives the same id as over NATS (ASGI decodes header values as latin-1).
        items.append((b"Nats-Msg-Id", _value(b"Idempotency-Key", text.encode("latin-1"))))
    scope = headers.get("js-expect", "subject").lower()
    if scope not in ("subject", "stream"):
        raise bad_request("bad-header", "Js-Expect: expected subject or stream")
    expected = _expected(headers.get("if-match"), headers.get("if-none-match"))
    if expected is not None:
        which = b"Last-Subject-Sequence" if scope == "subject" else b"Last-Sequence"
        items.append((b"Nats-Expected-" + which, b"%d" % expected))
    return items


def _expected(if_match: str | None, if_none_match: str | None) -> int | None:
    if if_match is not None and if_none_match is not None:
        raise bad_request("bad-header", "If-Match and If-None-Match exclude each other")
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise bad_request("bad-header", f'If-None-Match: {quoted(if_none_match)}, expected "*"')
        return 0
    if if_match is None:
        return None
    tag = if_match.strip()
    if len(tag) < 3 or tag[0] != '"' or tag[-1] != '"':
        raise bad_request(
            "bad-header", f'If-Match: {quoted(if_match)}, expected one entity tag such as "42"'
        )
    return sequence(tag[1:-1], "If-Match")


def response_headers(items: Items) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Convert message headers to HTTP response headers. Returns them, and the response's
    Content-Type.

    Headers that HTTP cannot carry are omitted; `Js-Headers-Omitted` is their number.
    """
    shown: list[tuple[bytes, bytes]] = []
    omitted = 0
    media_type = b"application/octet-stream"
    if cloud_events.is_event(items):
        shown, items = _event_headers(items)
    for name, value in items:
        if not _TOKEN.fullmatch(name) or _UNPRINTABLE.search(value):
            omitted += 1
            continue
        lower = name.lower()
        if lower == b"content-type" and _SAFE_TYPES.fullmatch(value.lower()):
            media_type = value.lower()
        own = lower.startswith(b"nats-") and not lower.startswith(_USER)
        shown.append((name if own else b"Nats-H-" + name, value))
    if omitted:
        shown.append((b"Js-Headers-Omitted", b"%d" % omitted))
    return shown, media_type


def _event_headers(items: Items) -> tuple[Items, Items]:
    """Return the `ce-*` headers of a CloudEvent for HTTP, and all other headers of the message.

    Content-Type is then the type of the event's data.
    """
    event: Items = []
    others: Items = []
    content_type = b""
    for name, value in items:
        lower = name.lower()
        if lower == b"ce-datacontenttype":
            content_type = cloud_events.media_type(value)
        elif lower.startswith(cloud_events.PREFIX) and _TOKEN.fullmatch(name):
            event.append((lower, cloud_events.to_http(value)))
        else:
            others.append((name, value))
    if content_type:
        others = [item for item in others if item[0].lower() != b"content-type"]
        others.append((b"Content-Type", content_type))
    return event, others


def block(items: Items) -> bytes:
    """Encode checked message headers as a NATS header block; empty if there are none."""
    return (
        b"NATS/1.0\r\n%s\r\n" % b"".join(b"%s: %s\r\n" % item for item in items) if items else b""
    )
