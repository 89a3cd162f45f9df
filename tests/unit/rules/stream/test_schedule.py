"""When schedules come due: every form, against what the reference server answered, and naively."""

# Subject: schedules

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import ApiError
from core.rules.stream.schedules.cron import Cron
from core.rules.stream.schedules.schedule import Schedule, parse_schedule
from core.units import NANOS_PER_SECOND

RECORDED = Path(__file__).with_name("recorded_patterns.tsv")
"""Time, zone, pattern and the next time, as the reference server finds it."""

NOON = 1_767_268_800 * NANOS_PER_SECOND  # 2026-01-01T12:00:00Z, a Thursday


def read(pattern: str, zone: str | None = None) -> Schedule:
    schedule = parse_schedule(pattern.encode(), zone.encode() if zone else None)
    assert schedule is not None, "it is a schedule"
    return schedule


def refused(pattern: str, zone: str | None = None) -> int:
    with pytest.raises(ApiError) as caught:
        parse_schedule(pattern.encode(), None if zone is None else zone.encode())
    return caught.value.err_code


def following(pattern: str, after: int, zone: str | None = None) -> str:
    """The next time of a pattern as an output tells it."""
    schedule = read(pattern, zone)
    due = schedule.first(after)
    return "error" if due is None else schedule.shown(due).decode()


def answered(pattern: str, after: int, zone: str | None) -> str:
    """The same as the reference server says it, patterns that are none included."""
    try:
        return following(pattern, after, zone)
    except ApiError:
        return "error"


def test_patterns_agree_with_what_was_recorded() -> None:
    rows = [line.split("\t") for line in RECORDED.read_text().splitlines()]
    assert len(rows) == 300

    for after, zone, pattern, wanted in rows:
        assert answered(pattern, int(after), zone or None) == wanted, (after, zone, pattern)


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("@yearly", "2027-01-01T00:00:00Z"), ("@annually", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-02-01T00:00:00Z"), ("@weekly", "2026-01-04T00:00:00Z"),
        ("@daily", "2026-01-02T00:00:00Z"), ("@midnight", "2026-01-02T00:00:00Z"),
        ("@hourly", "2026-01-01T13:00:00Z"), ("@every 90s", "2026-01-01T12:01:30Z"),
        ("@every 1.5s", "2026-01-01T12:00:01.5Z"),
        ("@at 2030-05-06T07:08:09.25+02:00", "2030-05-06T05:08:09.25Z"),
        ("0 0 0 13 * fri", "2026-01-02T00:00:00Z"), ("0 0 0 13 * *", "2026-01-13T00:00:00Z"),
        ("0 0 0 29 feb ?", "2028-02-29T00:00:00Z"),
    ],
)  # fmt: skip
def test_forms(pattern: str, wanted: str) -> None:
    assert following(pattern, NOON) == wanted


def test_an_interval_counts_from_the_nearest_second() -> None:
    every = read("@every 5s")

    assert every.first(NOON + NANOS_PER_SECOND // 2) == NOON + 6 * NANOS_PER_SECOND
    assert every.first(NOON + NANOS_PER_SECOND // 2 - 1) == NOON + 5 * NANOS_PER_SECOND


@pytest.mark.parametrize("pattern", ["@every 10s", "*/10 * * * * *"])
def test_missed_times_are_left_out(pattern: str) -> None:
    schedule = read(pattern)
    due = NOON + 10 * NANOS_PER_SECOND

    assert schedule.following(due, due + NANOS_PER_SECOND) == due + 10 * NANOS_PER_SECOND
    assert schedule.following(due, due + 3600 * NANOS_PER_SECOND) == due + 3610 * NANOS_PER_SECOND


def test_a_pattern_without_a_time_in_five_years() -> None:
    assert read("0 0 0 30 2 *").first(NOON) is None
    assert read("0 0 0 29 2 *").first(NOON) is not None
    with pytest.raises(ValueError, match="never"):
        Cron(", * * * * *")


def test_zones() -> None:
    assert following("0 0 9 * * *", NOON, "Asia/Kathmandu") == "2026-01-02T09:00:00+05:45"
    assert following("0 0 9 * * *", NOON, "UTC") == "2026-01-02T09:00:00Z"
    assert following("0 0 9 * * *", NOON, "Europe/London") == "2026-01-02T09:00:00Z"
    assert following("0 0 0 1 1 *", NOON, "Local").startswith("2027-01-01T00:00:00")
    assert refused("@daily", "Nowhere/City") == refused("@daily", "") == 10223
    assert (
        refused("@daily", "../UTC") == refused("@daily", "a\0b") == refused("", "Europe") == 10223
    )
    assert refused("@every 1h", "UTC") == refused("@at 2030-01-01T00:00:00Z", "UTC") == 10189


def test_a_day_that_a_zone_left_out_ends_no_search() -> None:
    after = 1_325_020_587 * NANOS_PER_SECOND  # Samoa had no 30 December 2011.

    assert following("0 0 0 * 8 0", after, "Pacific/Apia").startswith("2012-08-05T")


def test_a_time_beyond_64_bits_is_past_and_the_zero_time_is_none() -> None:
    far = read("@at 9999-12-31T23:59:59Z").at

    assert far is not None
    assert far < 0
    assert parse_schedule(b"@at 0001-01-01T00:00:00Z", None) is None
    assert parse_schedule(b"", None) is None


NUMBERS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def field(place: int) -> st.SearchStrategy[tuple[str, frozenset[int], bool]]:
    """A field as text, what it allows, and whether it has a star."""
    low, high = NUMBERS[place]
    number = st.integers(low, high)
    star = st.just(("*", frozenset(range(low, high + 1)), True))
    span = st.tuples(number, number, st.integers(1, 7)).map(
        lambda t: (
            f"{min(t[:2])}-{max(t[:2])}/{t[2]}",
            frozenset(range(min(t[:2]), max(t[:2]) + 1, t[2])),
            False,
        )
    )
    some = st.sets(number, min_size=1, max_size=3).map(
        lambda s: (",".join(map(str, sorted(s))), frozenset(s), False)
    )
    return star | span | some


@settings(max_examples=40, deadline=None)
@given(st.tuples(*map(field, range(1, 6))), st.integers(1_000_000_000, 2_000_000_000))
def test_patterns_agree_with_a_search_minute_by_minute(
    fields: tuple[tuple[str, frozenset[int], bool], ...], after: int
) -> None:
    minutes, hours, days, months, weekdays = [allowed for _, allowed, _ in fields]
    any_day = fields[2][2] or fields[4][2]
    found = Cron("0 " + " ".join(text for text, _, _ in fields)).next(after)

    moment = datetime.fromtimestamp(after - after % 60 + 60, UTC)
    end = moment + timedelta(days=400)
    while moment < end:
        by_date, by_weekday = moment.day in days, moment.isoweekday() % 7 in weekdays
        if moment.month not in months or not (
            (by_date and by_weekday) if any_day else (by_date or by_weekday)
        ):
            moment = moment.replace(hour=0, minute=0) + timedelta(days=1)
        elif moment.hour not in hours:
            moment = moment.replace(minute=0) + timedelta(hours=1)
        elif moment.minute not in minutes:
            moment += timedelta(minutes=1)
        else:
            assert found == moment.timestamp()
            return
    assert found is None or found >= end.timestamp()
