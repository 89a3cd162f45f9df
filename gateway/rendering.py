"""Messages as JSON."""

from base64 import b64encode

import msgspec
from msgspec import UNSET, Raw

from core.client import Msg, header_items
from core.model.gotime import format_time
from core.model.message import StoredMsg
from gateway.models import Message
from gateway.tokens import AckTokens, read_delivery

_encoder = msgspec.json.Encoder()
_raw = msgspec.json.Decoder(Raw)
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


def stored(stream: str, msg: StoredMsg) -> bytes:
    """The JSON of a message read from a stream."""
    message = Message(stream, msg.subject, msg.seq, format_time(msg.time))
    _fill(message, msg.hdrs, msg.data)
    return _encoder.encode(message)


def delivered(msg: Msg, tokens: AckTokens) -> bytes:
    """The JSON of a fetched message."""
    delivery = read_delivery(msg.reply)
    message = Message(
        delivery.stream,
        msg.subject.decode(errors="replace"),
        delivery.stream_seq,
        format_time(delivery.time),
        consumer_seq=delivery.consumer_seq,
        delivered=delivery.delivered,
        pending=delivery.pending,
        token=tokens.seal(msg.reply),
    )
    _fill(message, msg.headers, msg.payload)
    return _encoder.encode(message)


def _fill(message: Message, headers: bytes, payload: bytes) -> None:
    if headers:
        values: dict[str, list[str]] = {}
        for name, value in header_items(headers):
            key = name.decode(errors="replace")
            values.setdefault(key, []).append(value.decode(errors="replace"))
        message.headers = values
    message.data = _json_value(payload)
    if message.data is UNSET:
        try:
            message.text = payload.decode()
        except UnicodeDecodeError:
            message.data_base64 = b64encode(payload).decode()


def _json_value(payload: bytes) -> Raw | msgspec.UnsetType:
    """The payload to embed when it is a JSON object or array, on one line."""
    if payload[:1] not in (b"{", b"["):
        return UNSET
    try:
        _raw.decode(payload)
        if not payload.isascii():
            payload.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return UNSET
    # Line breaks can only be blanks between tokens: inside strings JSON has them escaped.
    return Raw(payload.translate(_LINE_BREAKS))
