"""Parser of durations and sizes in a configuration file."""

import re

from core.model.durations import UNITS
from core.units import NANOS_PER_SECOND, Seconds

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([^\d.]*)")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT_64 = 1 << 63
_UNITS = "KMGT"


def duration(text: str) -> Seconds:
    """Parse a duration such as `1m30s`; return it in seconds.

    Raises:
        ValueError: The text is not a duration; the error text is nats-server's.
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
    """Quote a text as Go's package `time` does."""
    shown = ""
    for byte in text.encode():
        letter = chr(byte)
        plain = f"\\{letter}" if letter in '"\\' else letter
        shown += plain if 32 <= byte < 128 else f"\\x{byte:02x}"
    return f'"{shown}"'


def size(text: str) -> int:
    """Parse a size such as `10G` (units are powers of 1024); return it in bytes, 0 if it is empty.

    Raises:
        ValueError: The text is not a size; the error text is nats-server's.
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
