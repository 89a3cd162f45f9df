"""Times (RFC 3339) and durations in Go's text forms, to and from nanoseconds."""

import calendar
import re
from contextlib import suppress
from datetime import date
from functools import lru_cache

_SECOND = 1_000_000_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_LAYOUT = '"2006-01-02T15:04:05Z07:00"'
_PARTS = (
    ("2006", re.compile(r"\d{4}")),
    ("-", re.compile("-")),
    ("01", re.compile(r"\d{2}")),
    ("-", re.compile("-")),
    ("02", re.compile(r"\d{2}")),
    ("T", re.compile("T")),
    ("15", re.compile(r"\d{2}")),
    (":", re.compile(":")),
    ("04", re.compile(r"\d{2}")),
    (":", re.compile(":")),
    ("05", re.compile(r"\d{2}(?:[.,]\d+)?")),
    ("Z07:00", re.compile(r"Z|[+-]\d{2}:\d{2}")),
)


def format_time(nanos: int) -> str:
    """Format nanoseconds since the Unix epoch in UTC, without trailing zeros of the fraction."""
    seconds, fraction = divmod(nanos, _SECOND)
    text = _second_text(seconds)
    return f"{text}.{fraction:09}".rstrip("0") + "Z" if fraction else text + "Z"


@lru_cache(1024)
def _second_text(seconds: int) -> str:
    days, rest = divmod(seconds, 86_400)
    day = date.fromordinal(days + _EPOCH_DAY)
    return f"{day.isoformat()}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def parse_time(text: str) -> int:
    """Read an RFC 3339 time as nanoseconds since the Unix epoch.

    Raises ValueError with the text Go would give. Year 0 is read as year 1.
    """
    # Times as servers write them: many are of a second that was read before.
    if text[19:20] == "." and text[-1] == "Z" and (fraction := text[20:-1]).isdecimal():
        with suppress(ValueError):
            return _whole_seconds(text[:19]) + int(fraction[:9].ljust(9, "0"))
    return _parse(text)


@lru_cache(1024)
def _whole_seconds(text: str) -> int:
    return _parse(text + "Z")


def _parse(text: str) -> int:
    values: list[str] = []
    rest = text
    for element, pattern in _PARTS:
        found = pattern.match(rest)
        if found is None:
            raise ValueError(
                f'parsing time "{text}" as {_LAYOUT}: cannot parse "{rest}" as "{element}"'
            )
        values.append(found.group())
        rest = rest[found.end() :]
    if rest:
        raise ValueError(f'parsing time "{text}": extra text: "{rest}"')
    year, month, day, hour, minute = (int(values[i]) for i in (0, 2, 4, 6, 8))
    whole, _, fraction = values[10].replace(",", ".").partition(".")
    _check_ranges(text, year, month, day, hour, minute, int(whole))
    days = date(max(year, 1), month, day).toordinal() - _EPOCH_DAY
    seconds = days * 86_400 + hour * 3600 + minute * 60 + int(whole) - _offset(values[11])
    return seconds * _SECOND + int(fraction[:9].ljust(9, "0"))


def _check_ranges(
    text: str, year: int, month: int, day: int, hour: int, minute: int, second: int
) -> None:
    limits = (
        ("month", 1 <= month <= 12),
        ("day", 1 <= month <= 12 and 1 <= day <= calendar.monthrange(max(year, 4), month)[1]),
        ("hour", hour < 24),
        ("minute", minute < 60),
        ("second", second < 60),
    )
    for name, good in limits:
        if not good:
            raise ValueError(f'parsing time "{text}": {name} out of range')


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)


def format_duration(nanos: int) -> str:
    """Format nanoseconds as Go prints a duration: `1.5s`, `2m0s`, `100ms`, `1h0m0s`."""
    sign = "-" if nanos < 0 else ""
    nanos = abs(nanos)
    if nanos < _SECOND:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if nanos >= size:
                return f"{sign}{_decimal(nanos, size)}{unit}"
        return "0s"
    minutes, rest = divmod(nanos, 60 * _SECOND)
    text = f"{_decimal(rest, _SECOND)}s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
    return sign + text


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    if not fraction:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{fraction:0{digits}}".rstrip("0")
