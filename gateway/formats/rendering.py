"""Conversion of messages to JSON."""

from base64 import b64encode
from typing import Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType

from core.client import Msg, header_items
from core.client.subscribe import JsMsg, ack_fields
from core.goinput import text_of
from core.model.gotime import format_time
from core.model.message import StoredMsg
from gateway.formats.ack_tokens import AckTokens
from gateway.formats.models import Message, Reply, WithPayload

_encoder = msgspec.json.Encoder()
_raw = msgspec.json.Decoder(Raw)
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


def stored(stream: str, msg: StoredMsg, pending: int | None = None) -> bytes:
    """Encode a stored message as JSON; `pending`: the number of messages that follow it."""
    message = Message(stream, msg.subject, msg.seq, format_time(msg.time))
    if pending is not None:
        message.pending = pending
    fill(message, msg.hdrs, msg.data)
    return _encoder.encode(message)


def delivered(msg: Msg, tokens: AckTokens) -> bytes:
    """Encode a message of a consumer as JSON, with the token that acknowledges it.

    Raises NotJetStream if the message has no ack subject.
    """
    stream, _, deliveries, stream_seq, consumer_seq, time, pending = ack_fields(msg.reply)
    message = Message(
        text_of(stream),
        text_of(msg.subject),
        int(stream_seq),
        format_time(int(time)),
        consumer_seq=int(consumer_seq),
        delivered=int(deliveries),
        pending=int(pending),
        token=tokens.seal(msg.reply),
    )
    fill(message, msg.headers, msg.payload)
    return _encoder.encode(message)


def followed(msg: JsMsg) -> bytes:
    """Encode a message of a feed without acknowledgements as JSON."""
    message = Message(
        msg.stream,
        text_of(msg.subject),
        msg.stream_seq,
        format_time(msg.time),
        pending=msg.pending,
    )
    fill(message, msg.headers, msg.payload)
    return _encoder.encode(message)


def reply(msg: Msg) -> bytes:
    """Encode a reply to a request as JSON."""
    answer = Reply()
    fill(answer, msg.headers, msg.payload)
    return _encoder.encode(answer)


class _WithHeaders(Protocol):
    headers: dict[str, list[str]]
    headers_base64: dict[str, list[str]]


class _Shown(_WithHeaders, WithPayload, Protocol):
    """A message with headers and payload."""


def fill(message: _Shown, headers: bytes, payload: bytes) -> None:
    """Set the headers of a JSON message, and one of `data`, `text` and `data_base64` to its
    payload.
    """
    fill_headers(message, headers)
    show_payload(message, payload)


def fill_headers(message: _WithHeaders, headers: bytes) -> None:
    """Set `headers` of a JSON message, and `headers_base64` for values that are not UTF-8."""
    if not headers:
        return
    message.headers = header_values(headers)
    if not headers.isascii():
        try:
            headers.decode()
        except UnicodeDecodeError:
            message.headers_base64 = _not_utf8(headers)


def _not_utf8(headers: bytes) -> dict[str, list[str]]:
    """Return all values, in base64, of each header with a value that is not UTF-8."""
    values: dict[str, list[bytes]] = {}
    for name, value in header_items(headers):
        values.setdefault(text_of(name), []).append(value)
    return {
        name: [b64encode(value).decode() for value in each]
        for name, each in values.items()
        if any(text_of(value).encode() != value for value in each)
    }


def show_payload(shown: WithPayload, payload: bytes) -> None:
    """Set one member of a JSON message to its payload: `data` (JSON), `text` or `data_base64`."""
    shown.data = _json_value(payload)
    if shown.data is UNSET:
        try:
            shown.text = payload.decode()
        except UnicodeDecodeError:
            shown.data_base64 = b64encode(payload).decode()


def header_values(headers: bytes) -> dict[str, list[str]]:
    """Return the values of message headers by name, in their original case."""
    values: dict[str, list[str]] = {}
    for name, value in header_items(headers):
        key = text_of(name)
        values.setdefault(key, []).append(text_of(value))
    return values


def _json_value(payload: bytes) -> Raw | UnsetType:
    """Return the payload on one line if it is a JSON object or array, else UNSET."""
    if payload[:1] not in (b"{", b"["):
        return UNSET
    try:
        _raw.decode(payload)
        if not payload.isascii():
            payload.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return UNSET
    # Line breaks are blanks between tokens: within strings JSON escapes them.
    return Raw(payload.translate(_LINE_BREAKS))
