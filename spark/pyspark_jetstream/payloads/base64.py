"""Decoder of base64 text in JSON, by the rules of the JSON parser Jackson (no I/O)."""

import re
from base64 import b64decode

_QUADS = re.compile(
    r"(?:[\x00- ]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\x00- ]*"
)
_DIGIT = re.compile(r"[A-Za-z0-9+/]")


def base64_bytes(text: str) -> bytes | None:
    """Decode base64 text; return None if it is malformed.

    Padding is required, and allowed at the end of any group of four. Blanks are allowed between
    groups.
    """
    if not _QUADS.fullmatch(text):
        return None
    packed = re.sub(r"[\x00- ]", "", text)
    if "=" not in packed[:-2]:
        return b64decode(packed)
    return b"".join(b64decode(packed[at : at + 4]) for at in range(0, len(packed), 4))


def goes_on(group: str, char: str) -> bool:
    """Return True if `char` may follow the characters `group` of an incomplete group of four."""
    if group.endswith("=") or char == "=":
        return char == "=" and len(group) >= 2
    return _DIGIT.fullmatch(char) is not None
