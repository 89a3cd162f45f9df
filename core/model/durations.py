"""Parsing of durations in Go's text form, as clients write them: `1.5s`, `300ms`, `2h45m0s`."""

import re

from core.units import NANOS_PER_SECOND

UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": NANOS_PER_SECOND,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
"""Nanoseconds of each unit; the micro sign may be either of two Unicode characters."""

_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MAX = (1 << 63) - 1


def parse_duration(text: str) -> int:
    """Parse a Go duration (`300ms`, `-1.5h`, `2h45m`); return nanoseconds.

    Raises:
        ValueError: The text is not a duration, or exceeds 64 bits (about 292 years).
    """
    sign, rest = 1, text
    if rest[:1] in ("+", "-"):
        sign, rest = (-1 if rest[0] == "-" else 1), rest[1:]
    if rest == "0":
        return 0
    total, at = 0, 0
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            raise ValueError(f"not a duration: {text!r}")
        unit = UNITS[part[3]]
        total += int(part[1] or 0) * unit
        if part[2]:
            total += _fraction(part[2], unit)
        at = part.end()
    if not rest or total > _MAX + (sign < 0):
        raise ValueError(f"not a duration: {text!r}")
    return sign * total


def _fraction(digits: str, unit: int) -> int:
    """Return a fraction of a unit in nanoseconds, rounded as in Go.

    `digits` are those after the decimal point; digits beyond 63 bits are ignored.
    """
    value, scale = 0, 1.0
    for digit in digits:
        more = value * 10 + int(digit)
        if more > _MAX:
            break
        value, scale = more, scale * 10
    return int(float(value) * (float(unit) / scale))
