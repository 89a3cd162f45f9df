"""CloudEvents 1.0 in binary mode: conversion of `ce-*` headers between HTTP and NATS messages.

In HTTP, `datacontenttype` is only in Content-Type (HTTP binding, 3.1.1). In NATS messages it is in
`ce-datacontenttype` too, because their Content-Type only distinguishes binary from structured mode.
Both percent-encode values. An event in structured mode has all attributes in its payload, so its
`ce-*` headers are omitted.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote_from_bytes, unquote_to_bytes

from core.model.gotime import parse_time
from gateway.http.problems import bad_request

PREFIX = b"ce-"
_STRUCTURED = b"application/cloudevents"
_REQUIRED = ("specversion", "id", "source", "type")
_NAME = re.compile(rb"[a-z0-9]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_URI_REFERENCE = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")
_BAD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ESCAPED = re.compile(rb"\\(.)")
_UNENCODED = re.compile(rb"[^!#-~]")
# All printable ASCII but the blank, the double quote and the percent sign.
_SAFE = "!#$&'()*+,/:;<=>?@[\\]^`{|}"

Items = list[tuple[bytes, bytes]]


def to_message(headers: Iterable[tuple[bytes, bytes]]) -> Items:
    """Return the message headers for the CloudEvent in request headers; empty if there is none.

    Raises Problem 400 if the event violates CloudEvents 1.0.
    """
    content_type = b""
    values: dict[str, str] = {}
    for name, value in headers:
        if name == b"content-type":
            content_type = value
        elif name.startswith(PREFIX):
            attribute = _attribute(name)
            if attribute in values:
                raise _bad(attribute, "occurs twice")
            values[attribute] = _decoded(value, attribute)
    if not values or content_type.lower().startswith(_STRUCTURED):
        return []
    _check(values)
    items = [(PREFIX + key.encode(), _encoded(value)) for key, value in values.items()]
    if content_type:
        items.append((b"ce-datacontenttype", _encoded(content_type.decode("latin-1"))))
    return items


def is_event(items: Items) -> bool:
    """Return True if message headers are those of a CloudEvent in binary mode."""
    values = {name.lower(): value for name, value in items}
    if values.get(b"content-type", b"").lower().startswith(_STRUCTURED):
        return False
    return all(values.get(PREFIX + name.encode()) for name in _REQUIRED)


def to_http(value: bytes) -> bytes:
    """Percent-encode the value of a CloudEvent's message header for HTTP.

    Characters that the publisher has encoded stay unchanged.
    """
    return _UNENCODED.sub(lambda found: b"%%%02X" % found[0][0], value)


def media_type(value: bytes) -> bytes:
    """Decode the media type in the value of `ce-datacontenttype`."""
    return unquote_to_bytes(value)


def _attribute(name: bytes) -> str:
    bare = name[len(PREFIX) :]
    if not _NAME.fullmatch(bare):
        shown = bare.decode("latin-1")
        raise _bad(shown, "names of attributes are letters and digits")
    attribute = bare.decode()
    if attribute == "datacontenttype":
        raise _bad(attribute, "is the header Content-Type, not a ce- header")
    if attribute == "data":
        raise _bad(attribute, "is the body, not a ce- header")
    return attribute


def _decoded(value: bytes, attribute: str) -> str:
    """Unquote and percent-decode a value once (HTTP binding, 3.1.3.2). Raises Problem 400."""
    if len(value) > 1 and value[:1] == value[-1:] == b'"':
        value = _ESCAPED.sub(rb"\1", value[1:-1])
    if _BAD_PERCENT.search(value):
        raise _bad(attribute, "a percent sign without two hexadecimal digits")
    try:
        text = unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise _bad(attribute, "not UTF-8") from None
    if _CONTROL.search(text):
        raise _bad(attribute, "a control character")
    return text


def _encoded(text: str) -> bytes:
    return quote_from_bytes(text.encode(), safe=_SAFE).encode()


def _check(values: dict[str, str]) -> None:
    for attribute in _REQUIRED:
        if not values.get(attribute):
            raise _bad(attribute, "is required, and not empty")
    if values["specversion"] != "1.0":
        raise _bad("specversion", f"{values['specversion'][:20]!r}, the only version is 1.0")
    if not _URI_REFERENCE.fullmatch(values["source"]):
        raise _bad("source", "not a URI reference")
    if values.get("subject") == "":
        raise _bad("subject", "empty")
    schema = values.get("dataschema")
    if schema is not None and not (_ABSOLUTE.match(schema) and _URI_REFERENCE.fullmatch(schema)):
        raise _bad("dataschema", "not a URI")
    if (time := values.get("time")) is not None:
        try:
            parse_time(time)
        except ValueError:
            raise _bad("time", "not an RFC 3339 time") from None


def _bad(attribute: str, why: str) -> Exception:
    return bad_request("bad-cloud-event", f"ce-{attribute}: {why}")
