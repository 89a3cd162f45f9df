"""When a schedule comes due: once, at an interval, or by a cron pattern in a time zone (ADR-51).

Times are nanoseconds since the Unix epoch. Nothing here reads a clock.
"""

import re
from dataclasses import dataclass
from datetime import UTC as UTC_TIME
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from core.model.api_errors import api_error
from core.model.durations import parse_duration
from core.stream.cron import UTC, Cron, Zone

SECOND = 1_000_000_000

_NAMED = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_AT, _EVERY = "@at ", "@every "
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
# The calendar repeats after so many years and days; Python's has neither a year 0 nor 10000.
_CYCLE = 400
_CYCLE_DAYS = 146_097
_LEAST, _WRAP = -(1 << 63), 1 << 64
_LAST = (1 << 63) - 1
# The time that stands for none.
_ZERO = -62_135_596_800 * SECOND


class _Named:
    """A zone of the time zone database."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone

    def offset(self, instant: int) -> int:
        ahead = datetime.fromtimestamp(instant, self._zone).utcoffset()
        assert ahead is not None, "every zone has an offset at any time"
        return int(ahead.total_seconds())


class _Local:
    """The zone of the machine."""

    def offset(self, instant: int) -> int:
        ahead = datetime.fromtimestamp(instant, UTC_TIME).astimezone().utcoffset()
        assert ahead is not None, "local time has an offset at any time"
        return int(ahead.total_seconds())


@lru_cache(256)
def find_zone(name: str) -> Zone:
    """Return a zone by its IANA name.

    Raises ApiError JSMessageSchedulesTimeZoneInvalid.
    """
    if name == "UTC":
        return UTC
    if name == "Local":
        return _Local()
    try:
        return _Named(ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        raise api_error("JSMessageSchedulesTimeZoneInvalid") from None


def parse_instant(text: str) -> int | None:
    """Read an RFC 3339 time as the reference does: leniently (None: it is none)."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    ahead = 0
    if found[8]:
        if int(found[9]) > 24 or int(found[10]) > 60:
            return None
        ahead = (int(found[9]) * 3600 + int(found[10]) * 60) * (1 if found[8] == "+" else -1)
    try:
        day_number = date(year % _CYCLE + _CYCLE, month, day).toordinal()
    except ValueError:
        return None
    days = day_number + (year // _CYCLE - 1) * _CYCLE_DAYS - _EPOCH_DAY
    if hour > 23 or minute > 59 or second > 59:
        return None
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second - ahead
    return seconds * SECOND + int((found[7] or "")[:9].ljust(9, "0"))


def _rounded(instant: int) -> int:
    return (instant + SECOND // 2) // SECOND * SECOND


@dataclass(slots=True, frozen=True)
class Schedule:
    """A schedule that was read; one of `at`, `every` and `cron` says when.

    Args:
        at: The one time, as 64 bits hold it.
        every: The interval.
        cron: The pattern.
        zone: Where the pattern's times are local times.
    """

    at: int | None = None
    every: int = 0
    cron: Cron | None = None
    zone: Zone = UTC

    @property
    def repeats(self) -> bool:
        """Whether it comes due more than once."""
        return self.at is None

    def first(self, stored: int) -> int | None:
        """Return when a schedule comes due that was stored at a time (None: never)."""
        if self.at is not None:
            return self.at
        return self._behind(stored)

    def following(self, due: int, now: int) -> int | None:
        """Return when it comes due after it did; what was missed until now is left out."""
        after = self._behind(due)
        if after is not None and after < now:
            return self._behind(_rounded(now))
        return after

    def _behind(self, instant: int) -> int | None:
        if self.every:
            return min(_rounded(instant) + self.every, _LAST)
        assert self.cron is not None, "a schedule that repeats has an interval or a pattern"
        found = self.cron.next(instant // SECOND, self.zone)
        return None if found is None else found * SECOND

    def shown(self, due: int) -> bytes:
        """Return a time as outputs name it: in the schedule's zone."""
        ahead = self.zone.offset(due // SECOND)
        local = datetime.fromtimestamp(due // SECOND, UTC_TIME) + timedelta(seconds=ahead)
        text = local.strftime("%Y-%m-%dT%H:%M:%S")
        if due % SECOND:
            text += f".{due % SECOND:09}".rstrip("0")
        if not ahead // 60:
            return f"{text}Z".encode()
        hours, minutes = divmod(abs(ahead) // 60, 60)
        return f"{text}{'-' if ahead < 0 else '+'}{hours:02}:{minutes:02}".encode()


@lru_cache(4096)
def parse_schedule(pattern: bytes, zone_name: bytes | None) -> Schedule | None:
    """Read the value of `Nats-Schedule` beside that of `Nats-Schedule-Time-Zone` (None: absent).

    Returns None for a value that is no schedule at all: the message is one like any other.
    Raises ApiError JSMessageSchedulesTimeZoneInvalid, JSMessageSchedulesPatternInvalid.
    """
    text = pattern.decode("utf-8", "replace")
    zone = None if zone_name is None else find_zone(zone_name.decode("utf-8", "replace"))
    if not text:
        return None
    if text.startswith((_AT, _EVERY)):
        if zone is not None:
            raise api_error("JSMessageSchedulesPatternInvalid")
        return _once(text) if text.startswith(_AT) else _interval(text)
    try:
        cron = Cron(_NAMED.get(text, text))
    except ValueError:
        raise api_error("JSMessageSchedulesPatternInvalid") from None
    return Schedule(cron=cron, zone=zone or UTC)


def _once(text: str) -> Schedule | None:
    instant = parse_instant(text[len(_AT) :])
    if instant is None:
        raise api_error("JSMessageSchedulesPatternInvalid")
    if instant == _ZERO:
        return None
    # Times that 64 bits do not hold wrap around, so what lies too far ahead comes due at once.
    return Schedule(at=(instant - _LEAST) % _WRAP + _LEAST)


def _interval(text: str) -> Schedule:
    try:
        every = parse_duration(text[len(_EVERY) :])
    except ValueError:
        every = 0
    if every < SECOND:
        raise api_error("JSMessageSchedulesPatternInvalid")
    return Schedule(every=every)
