"""Payloads of messages: their encoding for requests, and their decoding from JSON responses."""

import json
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

Payload = bytes | str | Mapping[str, Any] | list[Any] | int | float | bool | None
"""Bytes are sent unchanged, text in UTF-8, anything else as JSON."""

_decoder = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")


def encoded(payload: Payload) -> tuple[bytes, str]:
    """Return the bytes of a payload and its media type; the type is "" for bytes and text."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload), ""
    if isinstance(payload, str):
        return payload.encode(), ""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return text.encode(), "application/json"


def members(text: str) -> tuple[dict[str, Any], bytes]:
    """Parse a JSON object that has a payload. Returns its members and the payload.

    JSON in `data` keeps its exact bytes: digits, blanks and the order of names.
    """
    if '"data":' not in text:
        shown = json.loads(text)
        return shown, _plain(shown)
    shown, payload = {}, None
    at = _skip(text, 0) + 1
    while text[at := _skip(text, at)] != "}":
        name, at = _decoder.raw_decode(text, at)
        begin = _skip(text, _skip(text, at) + 1)
        shown[name], at = _decoder.raw_decode(text, begin)
        if name == "data":
            payload = text[begin:at].encode()
        at = _skip(text, at)
        at += text[at] == ","
    return shown, _plain(shown) if payload is None else payload


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None, "blanks may be none"
    return found.end()


def _plain(shown: Mapping[str, Any]) -> bytes:
    if "text" in shown:
        return str(shown["text"]).encode()
    return b64decode(shown.get("data_base64", ""))


@dataclass(frozen=True)
class Message:
    """A message of a stream; `time` is the time at which it was stored, in RFC 3339."""

    stream: str
    subject: str
    seq: int
    time: str
    headers: dict[str, list[str]]
    payload: bytes

    def text(self) -> str:
        """Decode the payload as UTF-8. Raises UnicodeDecodeError if it is not."""
        return self.payload.decode()

    def json(self) -> Any:
        """Parse the payload as JSON. Raises ValueError if it is not."""
        return json.loads(self.payload)

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse the JSON of a message."""
        shown, payload = members(text)
        return cls(**origin(shown), payload=payload)


def origin(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message in JSON, except the payload."""
    return {
        "stream": shown["stream"],
        "subject": shown["subject"],
        "seq": shown["seq"],
        "time": shown["time"],
        "headers": shown.get("headers", {}),
    }
