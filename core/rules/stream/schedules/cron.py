"""Cron patterns of six fields: second, minute, hour, day of month, month, day of week (ADR-51).

Around changes of daylight saving time the search proceeds as in nats-server, so that both find the
same instant: months and days by the calendar, hours and smaller units by elapsed time.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Protocol

HORIZON_YEARS = 5
"""Years to search for the next due time; a pattern without a match in them never fires."""

_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY = 86_400
# White space at which nats-server splits fields. Other characters that `str.split` splits
# at belong to a field.
_BLANKS = re.compile("[\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_INTEGER = re.compile(r"\+?[0-9]{1,18}")
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_WEEKDAYS = "sun mon tue wed thu fri sat"


class Zone(Protocol):
    """A time zone: the offset of local time from UTC."""

    def offset(self, instant: int) -> int:
        """Return the seconds to add to UTC at `instant`, in seconds since the Unix epoch."""
        ...


class Utc:
    """The time zone UTC, for patterns without a zone."""

    def offset(self, instant: int) -> int:
        return 0


UTC = Utc()


@dataclass(slots=True, frozen=True)
class _Bounds:
    low: int
    high: int
    names: Mapping[str, int]


def _names(text: str, first: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(text.split(), first)}


_FIELDS = (
    _Bounds(0, 59, {}),
    _Bounds(0, 59, {}),
    _Bounds(0, 23, {}),
    _Bounds(1, 31, {}),
    _Bounds(1, 12, _names(_MONTHS, 1)),
    _Bounds(0, 6, _names(_WEEKDAYS, 0)),
)


def _number(text: str, names: Mapping[str, int]) -> int:
    """Parse a number or a name such as `jan`. Raises ValueError for any other text."""
    named = names.get(text.lower())
    if named is not None:
        return named
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f"neither number nor name: {text!r}")
    return int(text)


def _part(text: str, bounds: _Bounds) -> tuple[range, bool]:
    """Parse one part of a cron field, which is a list separated by commas.

    Returns the numbers that it allows, and whether it is a plain star. Raises ValueError if it is
    malformed or out of range.
    """
    span, slash, step_text = text.partition("/")
    low, *more = span.split("-")
    if low in ("*", "?"):
        start, end, star = bounds.low, bounds.high, True
    else:
        star = False
        start = end = _number(low, bounds.names)
        if len(more) > 1:
            raise ValueError(f"more than one hyphen: {text!r}")
        if more:
            end = _number(more[0], bounds.names)
    step = 1
    if slash:
        step = _number(step_text, {})
        end = end if more else bounds.high
        star = star and step == 1
    if not (bounds.low <= start <= end <= bounds.high and step > 0):
        raise ValueError(f"out of range: {text!r}")
    return range(start, end + 1, step), star


def _field(text: str, bounds: _Bounds) -> tuple[frozenset[int], bool]:
    """Parse a cron field: a list of parts separated by commas, of which empty ones are ignored.

    Returns the numbers that it allows, and whether a part is a plain star. Raises ValueError if a
    part is malformed or out of range.
    """
    allowed: set[int] = set()
    star = False
    for part in filter(None, text.split(",")):
        numbers, is_star = _part(part, bounds)
        allowed.update(numbers)
        star = star or is_star
    return frozenset(allowed), star


class Cron:
    """A parsed cron pattern.

    Raises ValueError if the text is malformed, or a field allows no value.
    """

    def __init__(self, text: str) -> None:
        fields = [field for field in _BLANKS.split(text) if field]
        if len(fields) != len(_FIELDS):
            raise ValueError(f"not six fields: {text!r}")
        read = [_field(field, bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
        sets = [allowed for allowed, _ in read]
        self._seconds, self._minutes, self._hours, self._days, self._months, self._weekdays = sets
        if not (self._seconds and self._minutes and self._hours and self._months):
            raise ValueError(f"never: {text!r}")
        # Two restricted day fields are alternatives; if one is a star, the other one decides.
        self._needs_both = read[3][1] or read[5][1]

    def next(self, after: int, zone: Zone = UTC) -> int | None:
        """Return the first matching second after `after`; both in seconds since the Unix epoch.

        None: no second matches within `HORIZON_YEARS`.
        """
        walk = _Walk(after + 1, zone)
        limit = walk.local.year + HORIZON_YEARS
        while walk.local.year <= limit:
            if (
                walk.seek(lambda t: t.month in self._months, _MONTH)
                and walk.seek(self._fits_day, _DATE)
                and walk.seek(lambda t: t.hour in self._hours, _HOUR)
                and walk.seek(lambda t: t.minute in self._minutes, _MINUTE)
                and walk.seek(lambda t: t.second in self._seconds, _SECOND)
            ):
                return walk.instant
        return None

    def _fits_day(self, local: datetime) -> bool:
        by_date = local.day in self._days
        by_weekday = local.isoweekday() % 7 in self._weekdays
        return by_date and by_weekday if self._needs_both else by_date or by_weekday


class _Walk:
    """The position of a search for a due time: an instant, and the local time at that instant."""

    def __init__(self, instant: int, zone: Zone) -> None:
        self._zone = zone
        # Whether all units below the first unit that moved are at their first value.
        self._truncated = False
        self.go(instant)

    def go(self, instant: int) -> None:
        self.instant = instant
        self.local = _EPOCH + timedelta(seconds=instant + self._zone.offset(instant))

    def seek(self, fits: Callable[[datetime], bool], unit: "_Unit") -> bool:
        """Move forward by a unit of time until the local time matches (`fits` returns True).

        Returns False if the unit wrapped around, so that larger units must be checked again.
        """
        while not fits(self.local):
            if not self._truncated:
                self._truncated = True
                unit.begin(self)
            before = self.instant
            unit.step(self)
            if self.instant <= before:
                # A zone that skips a whole day: no calendar step leads across.
                self.go(before + 3600)
            if unit.is_first(self.local):
                return False
        return True

    def at(self, year: int, month: int, day: int, second: int) -> None:
        """Move to a local time; month and day may exceed their range.

        A local time that the zone skips is converted with the offset of the other side of the gap.
        """
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
        days = date(year, month, 1).toordinal() + day - 1 - _EPOCH_DAY
        shown = days * _DAY + second
        guess = shown - self._zone.offset(shown)
        self.go(shown - self._zone.offset(guess))


def _second_of_day(local: datetime) -> int:
    return local.hour * 3600 + local.minute * 60 + local.second


@dataclass(slots=True, frozen=True)
class _Unit:
    """A unit of time (such as an hour), as functions of the search for a due time.

    Attributes:
        begin: Moves to the beginning of the unit.
        step: Moves to the next unit.
        is_first: Returns whether a time is in the first unit of the next larger one.
    """

    begin: Callable[[_Walk], None]
    step: Callable[[_Walk], None]
    is_first: Callable[[datetime], bool]


def _to(walk: _Walk, months: int, days: int) -> None:
    local = walk.local
    walk.at(local.year, local.month + months, local.day + days, _second_of_day(local))


_MONTH = _Unit(
    lambda walk: walk.at(walk.local.year, walk.local.month, 1, 0),
    lambda walk: _to(walk, 1, 0),
    lambda local: local.month == 1,
)
_DATE = _Unit(
    lambda walk: walk.at(walk.local.year, walk.local.month, walk.local.day, 0),
    lambda walk: _to(walk, 0, 1),
    lambda local: local.day == 1,
)
_HOUR = _Unit(
    lambda walk: walk.at(walk.local.year, walk.local.month, walk.local.day, walk.local.hour * 3600),
    lambda walk: walk.go(walk.instant + 3600),
    lambda local: local.hour == 0,
)
_MINUTE = _Unit(
    lambda walk: walk.go(walk.instant - walk.instant % 60),
    lambda walk: walk.go(walk.instant + 60),
    lambda local: local.minute == 0,
)
_SECOND = _Unit(
    lambda walk: None,
    lambda walk: walk.go(walk.instant + 1),
    lambda local: local.second == 0,
)
