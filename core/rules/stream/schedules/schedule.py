"""The due times of a schedule: once, at an interval, or by a cron pattern in a zone (ADR-51).

Times are nanoseconds since the Unix epoch, passed by the caller.
"""

from dataclasses import dataclass
from datetime import UTC as UTC_TIME
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from core.model.api_errors import api_error
from core.model.durations import parse_duration
from core.model.gotime import parse_time, unix_nanos
from core.model.wire import ZERO_TIME
from core.rules.stream.schedules.cron import UTC, Cron, Zone
from core.units import NANOS_PER_SECOND

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
_LAST = (1 << 63) - 1


class _Named:
    """A zone of the time zone database."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone

    def offset(self, instant: int) -> int:
        ahead = datetime.fromtimestamp(instant, self._zone).utcoffset()
        assert ahead is not None, "every zone has an offset at any time"
        return int(ahead.total_seconds())


class _Local:
    """The time zone that the operating system is configured for."""

    def offset(self, instant: int) -> int:
        ahead = datetime.fromtimestamp(instant, UTC_TIME).astimezone().utcoffset()
        assert ahead is not None, "local time has an offset at any time"
        return int(ahead.total_seconds())


@lru_cache(256)
def find_zone(name: str) -> Zone:
    """Return a time zone by its IANA name, "UTC" or "Local".

    Raises ApiError JSMessageSchedulesTimeZoneInvalid if there is no such zone.
    """
    if name == "UTC":
        return UTC
    if name == "Local":
        return _Local()
    try:
        return _Named(ZoneInfo(name))
    except (KeyError, ValueError, OSError):
        raise api_error("JSMessageSchedulesTimeZoneInvalid") from None


def _rounded(instant: int) -> int:
    return (instant + NANOS_PER_SECOND // 2) // NANOS_PER_SECOND * NANOS_PER_SECOND


@dataclass(slots=True, frozen=True)
class Schedule:
    """A parsed schedule; exactly one of `at`, `every` and `cron` is set.

    Attributes:
        at: The single due time, as a signed 64-bit number of nanoseconds since the Unix epoch.
        every: The interval in nanoseconds (0: not set).
        cron: The cron pattern.
        zone: The zone of the pattern's local times.
    """

    at: int | None = None
    every: int = 0
    cron: Cron | None = None
    zone: Zone = UTC

    @property
    def repeats(self) -> bool:
        """True when the schedule fires more than once."""
        return self.at is None

    def first(self, stored: int) -> int | None:
        """Return the first due time of a schedule that was stored at `stored` (None: never).

        Both are in nanoseconds since the Unix epoch.
        """
        if self.at is not None:
            return self.at
        return self._behind(stored)

    def following(self, due: int, now: int) -> int | None:
        """Return the first due time after `due` that is not before `now` (None: never).

        All times are nanoseconds since the Unix epoch.
        """
        after = self._behind(due)
        if after is not None and after < now:
            return self._behind(_rounded(now))
        return after

    def _behind(self, instant: int) -> int | None:
        if self.every:
            return min(_rounded(instant) + self.every, _LAST)
        assert self.cron is not None, "a schedule that repeats has an interval or a pattern"
        found = self.cron.next(instant // NANOS_PER_SECOND, self.zone)
        return None if found is None else found * NANOS_PER_SECOND

    def shown(self, due: int) -> bytes:
        """Return a due time for the header of the schedule's messages: RFC 3339, in its zone.

        `due` is in nanoseconds since the Unix epoch.
        """
        ahead = self.zone.offset(due // NANOS_PER_SECOND)
        local = datetime.fromtimestamp(due // NANOS_PER_SECOND, UTC_TIME) + timedelta(seconds=ahead)
        text = local.strftime("%Y-%m-%dT%H:%M:%S")
        if due % NANOS_PER_SECOND:
            text += f".{due % NANOS_PER_SECOND:09}".rstrip("0")
        if not ahead // 60:
            return f"{text}Z".encode()
        hours, minutes = divmod(abs(ahead) // 60, 60)
        return f"{text}{'-' if ahead < 0 else '+'}{hours:02}:{minutes:02}".encode()


@lru_cache(4096)
def parse_schedule(pattern: bytes, zone_name: bytes | None) -> Schedule | None:
    """Parse the values of `Nats-Schedule` and `Nats-Schedule-Time-Zone` (None: absent).

    Returns None if the value is not a schedule: then the message is an ordinary one. Raises
    ApiError JSMessageSchedulesTimeZoneInvalid or JSMessageSchedulesPatternInvalid if a value is
    invalid.
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
    try:
        instant = parse_time(text[len(_AT) :])
    except ValueError:
        raise api_error("JSMessageSchedulesPatternInvalid") from None
    if instant == ZERO_TIME:
        return None
    # A time beyond 64 bits is due at once.
    return Schedule(at=unix_nanos(instant))


def _interval(text: str) -> Schedule:
    try:
        every = parse_duration(text[len(_EVERY) :])
    except ValueError:
        every = 0
    if every < NANOS_PER_SECOND:
        raise api_error("JSMessageSchedulesPatternInvalid")
    return Schedule(every=every)
