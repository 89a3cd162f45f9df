"""Parser of times and dates in JSON payloads, by the rules of Spark's casts (no I/O).

A time is cut to microseconds. Years have four to six digits, in dates up to seven. Parts after the
year may be omitted from the right, and two-digit numbers may have one digit.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MICROS = 1_000_000
_DAY = 86_400
_GREGORIAN = -141_427
"""The first day of the Gregorian calendar, 15 October 1582, in days since the epoch."""
_LONG, _INT = 1 << 63, 1 << 31
_NUMBER = re.compile(r"[+-]?\d{1,4000}")
_DATE = r"([+-]?\d{4,%d})(?:-(\d{1,2})(?:-(\d{1,2})%s)?)?"
_CLOCK = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?(.*)"
_TIMESTAMP = re.compile(_DATE % (6, rf"(?:[T ]{_CLOCK})?"), re.ASCII)
_TODAY = re.compile(
    r"T?(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?(.*)|T(\d{1,2})()()()(.*)", re.ASCII
)
_DAYS = re.compile(_DATE % (7, "(?:[T ].*)?"), re.ASCII | re.DOTALL)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2})(?::?(\d{2}))?)?", re.ASCII)
_SHORT_OFFSETS = {"EST": "-05:00", "MST": "-07:00", "HST": "-10:00"}
_SHORT_ZONES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Java's short names of zones (`ZoneId.SHORT_IDS`)."""
_TRIMMED = "".join(map(chr, range(0x21))) + "\x7f"


def timestamp(text: str, zone: str) -> int | None:
    """Parse a time and return microseconds since the epoch; None if the text is not a time.

    Args:
        text: Text such as `2026-01-02T03:04:05.123456789Z`.
        zone: Time zone that applies if the text has none.
    """
    found = _fields(text.strip(_TRIMMED), zone)
    if found is None:
        return None
    micros, named = found
    moment = _utc(micros, named.strip() or zone)
    return moment if moment is None or -_LONG <= moment < _LONG else None


def local(text: str) -> int | None:
    """Parse a time without a zone; return its microseconds since 1970-01-01T00:00 in the same zone.

    Returns None if the text is not a time, or has a zone.
    """
    text = text.strip(_TRIMMED)
    if _TIMESTAMP.fullmatch(text) is None:
        return None
    found = _fields(text, "UTC")
    if found is None or found[1].strip():
        return None
    return found[0] if -_LONG <= found[0] < _LONG else None


def date(text: str) -> int | None:
    """Parse a date and return days since the epoch; None if the text is not a date.

    As in Spark, a whole number is a number of days since the epoch.
    """
    match = _DAYS.fullmatch(text.strip(_TRIMMED))
    if match is not None:
        days = _days(int(match[1]), int(match[2] or 1), int(match[3] or 1))
        if days is not None and -_INT <= days < _INT:
            return days
    # Java accepts the digits of every script in the Basic Multilingual Plane.
    if _NUMBER.fullmatch(text) and max(text) <= "\uffff" and -_INT <= int(text) < _INT:
        return _rebased(int(text))
    return None


def is_zone(name: str) -> bool:
    """Return True if `name` is a time zone: an offset such as `+02:00`, or `Europe/Berlin`."""
    return _offset(name) is not None or _region(name) is not None


def _fields(text: str, zone: str) -> tuple[int, str] | None:
    """Return the time as microseconds without regard to its zone, and the zone in the text or
    "".
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is not None:
        days = _days(int(match[1]), int(match[2] or 1), int(match[3] or 1))
        clock = match.groups()[3:]
    else:  # a time of the current day
        match = _TODAY.fullmatch(text)
        if match is None:
            return None
        clock = match.groups()[:5] if match[1] is not None else match.groups()[5:]
        region = _region(zone)
        today = datetime.now(region or UTC).date()
        days = _days(today.year, today.month, today.day)
    hours, minutes, seconds = (int(part or 0) for part in clock[:3])
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = int((clock[3] or "")[:6].ljust(6, "0"))
    wall = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return wall * MICROS + micros, clock[4] or ""


def _days(year: int, month: int, day: int) -> int | None:
    """Return the days since the epoch of a proleptic Gregorian date; None if it does not exist."""
    try:
        # The calendar repeats after 400 years, which are 146,097 days.
        cycle, inside = divmod(year, 400)
        days = datetime(inside + 400, month, day, tzinfo=UTC).toordinal()
    except ValueError:
        return None
    return days - 719_163 + (cycle - 1) * 146_097


def _rebased(days: int) -> int:
    """Convert Spark's number of days to days of the Gregorian calendar.

    Before 15 October 1582, Spark counts days of Julian dates.
    """
    if days >= _GREGORIAN:
        return days
    shifted = days + 2_472_670
    years = (4 * shifted + 3) // 1461
    rest = shifted - 1461 * years // 4
    month = (5 * rest + 2) // 153
    first = _days(years - 4800 + month // 10, month + 3 - 12 * (month // 10), 1)
    assert first is not None, "every month has a first day"
    return first + rest - (153 * month + 2) // 5


def _utc(micros: int, zone: str) -> int | None:
    """Convert microseconds of a local time to UTC; None for an unknown zone."""
    offset = _offset(zone)
    if offset is not None:
        return micros - offset * MICROS
    region = _region(zone)
    if region is None:
        return None
    return micros - _region_offset(micros // MICROS, region) * MICROS


def _region_offset(wall: int, region: ZoneInfo) -> int:
    """Return the seconds that a region is ahead of UTC at a local time.

    `wall` is that time, in seconds since 1970-01-01T00:00 in the region.

    A time that occurs twice is the first of both; a skipped time has the offset before the gap.
    """
    # Rules repeat at least every 400 years; outside this range the first or last rule applies.
    year = 146_097 * _DAY
    while wall < -62_000_000_000:
        wall += year
    while wall > 253_000_000_000:
        wall -= year
    moment = datetime(1970, 1, 1) + timedelta(seconds=wall)
    found = moment.replace(tzinfo=region).utcoffset()
    assert found is not None, "a region has an offset"
    return round(found.total_seconds())


@lru_cache(256)
def _offset(zone: str) -> int | None:
    """Return a fixed offset from UTC in seconds, at most 18 hours; None for other text."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(_SHORT_OFFSETS.get(zone, zone))
    if match is None:
        return None
    minutes, rest = int(match[3] or 0), int(match[4] or 0)
    seconds = int(match[2]) * 3600 + minutes * 60 + rest
    if seconds > 18 * 3600 or minutes > 59 or rest > 59:
        return None
    return -seconds if match[1] == "-" else seconds


@lru_cache(256)
def _region(zone: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(_SHORT_ZONES.get(zone, zone))
    except (OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError
        return None
    except KeyError:
        return None
