"""Durations and sizes in a configuration."""

import re

from core.model.durations import UNITS
from core.units import NANOS_PER_SECOND, Seconds

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([^\d.]*)")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT_64 = 1 << 63
_UNITS = "KMGT"


def duration(text: str) -> Seconds:
    """Return the seconds of a text such as `1m30s`.

    Raises:
        ValueError: The text is no duration; the message is nats-server's.
    """
    rest, sign = text, 1
    if rest[:1] in ("-", "+"):
        rest, sign = rest[1:], -1 if rest[0] == "-" else 1
    if rest == "0":
        return Seconds(0.0)
    total, at = 0.0, 0
    while at < len(rest):
        found = _PART.match(rest, at)
        if found is None:
            break
        if not found[2]:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if found[2] not in UNITS:
            unit = _quoted(found[2])
            raise ValueError(f"time: unknown unit {unit} in duration {_quoted(text)}")
        total += float(found[1]) * UNITS[found[2]]
        at = found.end()
    if at == 0 or at < len(rest):
        raise ValueError(f"time: invalid duration {_quoted(text)}")
    return Seconds(sign * total / NANOS_PER_SECOND)


def _quoted(text: str) -> str:
    """Return a text in double quotes, as Go's package `time` quotes it."""
    shown = ""
    for byte in text.encode():
        letter = chr(byte)
        plain = f"\\{letter}" if letter in '"\\' else letter
        shown += plain if 32 <= byte < 128 else f"\\x{byte:02x}"
    return f'"{shown}"'


def size(text: str) -> int:
    """Return the bytes of a text such as `10G`; 0 for an empty one.

    Raises:
        ValueError: The text is no size; the message is nats-server's.
    """
    if not text:
        return 0
    digits, unit = text[:-1], text[-1]
    if not _INTEGER.fullmatch(digits):
        raise ValueError(f"strconv.ParseInt: parsing {_quoted(digits)}: invalid syntax")
    if not -_INT_64 <= int(digits) < _INT_64:
        raise ValueError(f"strconv.ParseInt: parsing {_quoted(digits)}: value out of range")
    if unit.upper() not in _UNITS:
        raise ValueError("sizes defined as strings must end in K, M, G, T")
    bytes_each: int = 1024 ** (_UNITS.index(unit.upper()) + 1)
    return int(digits) * bytes_each
