"""Times (RFC 3339) and durations in Go's text forms, to and from nanoseconds."""

import re
from contextlib import suppress
from datetime import date
from functools import lru_cache

from core.units import NANOS_PER_SECOND

_EPOCH_DAY = date(1970, 1, 1).toordinal()
# The calendar repeats after this many years and days; Python's has neither a year 0 nor 10000.
_CYCLE, _CYCLE_DAYS = 400, 146_097
_FIRST_DAY = date(1, 1, 1).toordinal() - 366 - _EPOCH_DAY
_YEARS_END = date.max.toordinal() + 1 - _EPOCH_DAY
_DAY_SECONDS = 86_400
_LAYOUT = '"2006-01-02T15:04:05Z07:00"'
_PARTS = tuple(
    (element, re.compile(form))
    for element, form in (
        ("2006", "[0-9]{4}"),
        ("-", "-"),
        ("01", "[0-9]{2}"),
        ("-", "-"),
        ("02", "[0-9]{2}"),
        ("T", "T"),
        ("15", "[0-9]{1,2}"),
        (":", ":"),
        ("04", "[0-9]{2}"),
        (":", ":"),
        ("05", r"[0-9]{2}(?:[.,][0-9]+)?"),
        ("Z07:00", "Z|[+-][0-9]{2}:[0-9]{2}"),
    )
)
_RANGES = {
    "01": ("month", 1, 12),
    "15": ("hour", 0, 23),
    "04": ("minute", 0, 59),
    "05": ("second", 0, 59),
}
"""The elements of a time whose range is checked at once; the day depends on the month."""


class UnwritableTime(ValueError):
    """Raised for a time that RFC 3339 cannot express; the text is Go's."""


class ZonedTime(int):
    """A time, in nanoseconds since the Unix epoch, that was written in a zone other than UTC.

    Attributes:
        ahead: Offset of the zone from UTC, in seconds; positive: east.
    """

    ahead: int

    @classmethod
    def of(cls, nanos: int, ahead: int) -> "ZonedTime":
        """Return a time in nanoseconds since the Unix epoch, with a zone offset in seconds."""
        made = cls(nanos)
        made.ahead = ahead
        return made


def format_time(nanos: int) -> str:
    """Format nanoseconds since the Unix epoch as RFC 3339 in UTC.

    The fraction has no trailing zeros. Raises UnwritableTime for a year outside 0 to 9999.
    """
    seconds, fraction = divmod(nanos, NANOS_PER_SECOND)
    text = _second_text(seconds)
    return f"{text}.{fraction:09}".rstrip("0") + "Z" if fraction else text + "Z"


def format_zoned(nanos: int) -> str:
    """Format a time as RFC 3339 in the zone of a `ZonedTime`, or else in UTC.

    Raises UnwritableTime for a year outside 0 to 9999, or a zone offset of a day or more.
    """
    ahead = nanos.ahead if isinstance(nanos, ZonedTime) else 0
    if abs(ahead) >= _DAY_SECONDS:
        raise UnwritableTime("timezone hour outside of range [0,23]")
    text = format_time(int(nanos) + ahead * NANOS_PER_SECOND)
    if not ahead:
        return text
    hours, minutes = divmod(abs(ahead) // 60, 60)
    return f"{text[:-1]}{'-' if ahead < 0 else '+'}{hours:02}:{minutes:02}"


def in_utc(nanos: int) -> int:
    """Return a time as a plain number, in nanoseconds since the Unix epoch, without its zone."""
    return int(nanos)


def unix_nanos(nanos: int) -> int:
    """Return a time as a signed 64-bit number of nanoseconds since the Unix epoch.

    A time out of range wraps around, as in Go.
    """
    return (int(nanos) + (1 << 63)) % (1 << 64) - (1 << 63)


@lru_cache(1024)
def _second_text(seconds: int) -> str:
    days, rest = divmod(seconds, _DAY_SECONDS)
    if not _FIRST_DAY <= days < _YEARS_END:
        raise UnwritableTime("year outside of range [0,9999]")
    if days < _FIRST_DAY + 366:
        later = date.fromordinal(days + _CYCLE_DAYS + _EPOCH_DAY)
        day = f"{later.year - _CYCLE:04}{later.isoformat()[4:]}"
    else:
        day = date.fromordinal(days + _EPOCH_DAY).isoformat()
    return f"{day}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def parse_time(text: str) -> int:
    """Parse an RFC 3339 time; return nanoseconds since the Unix epoch.

    Returns a `ZonedTime` for a zone other than UTC. Raises ValueError with Go's text if the time is
    invalid.
    """
    # The usual form of times from servers: many share a second that was parsed before.
    if text[19:20] == "." and text[-1] == "Z" and text.isascii():
        fraction = text[20:-1]
        if fraction.isdigit():
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
                f"parsing time {_quoted(text)} as {_LAYOUT}:"
                f' cannot parse {_quoted(rest)} as "{element}"'
            )
        values.append(found.group())
        rest = rest[found.end() :]
        if element in _RANGES:
            name, low, high = _RANGES[element]
            if not low <= int(values[-1][:2]) <= high:
                raise _out_of_range(text, name)
    ahead = _ahead(text, values[11])
    if rest:
        raise ValueError(f"parsing time {_quoted(text)}: extra text: {_quoted(rest)}")
    year, month, day, hour, minute = (int(values[i]) for i in (0, 2, 4, 6, 8))
    try:
        days = date(year % _CYCLE + _CYCLE, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise _out_of_range(text, "day") from None
    days += (year // _CYCLE - 1) * _CYCLE_DAYS
    whole, fraction = values[10][:2], values[10][3:]
    seconds = days * _DAY_SECONDS + hour * 3600 + minute * 60 + int(whole) - ahead
    nanos = seconds * NANOS_PER_SECOND + int(fraction[:9].ljust(9, "0"))
    return ZonedTime.of(nanos, ahead) if ahead else nanos


def _ahead(text: str, zone: str) -> int:
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    # Go accepts offsets of 24 hours and 60 minutes, because they occur in practice.
    if minutes > 60:
        raise _out_of_range(text, "time zone offset minute")
    if hours > 24:
        raise _out_of_range(text, "time zone offset hour")
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def _out_of_range(text: str, name: str) -> ValueError:
    return ValueError(f"parsing time {_quoted(text)}: {name} out of range")


def _quoted(text: str) -> str:
    """Return a text in quotes as Go's errors about times do, with bytes beyond ASCII escaped."""
    out = []
    for byte in text.encode("utf-8", "surrogatepass"):
        if byte in b'"\\':
            out.append("\\" + chr(byte))
        else:
            out.append(chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}")
    return '"' + "".join(out) + '"'


def format_duration(nanos: int) -> str:
    """Format a duration in nanoseconds as Go does: `1.5s`, `2m0s`, `100ms`, `1h0m0s`."""
    sign = "-" if nanos < 0 else ""
    nanos = abs(nanos)
    if nanos < NANOS_PER_SECOND:
        for unit, size in (("ms", 1_000_000), ("µs", 1_000), ("ns", 1)):
            if nanos >= size:
                return f"{sign}{_decimal(nanos, size)}{unit}"
        return "0s"
    minutes, rest = divmod(nanos, 60 * NANOS_PER_SECOND)
    text = f"{_decimal(rest, NANOS_PER_SECOND)}s"
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
