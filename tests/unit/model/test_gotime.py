"""Times and durations in the forms of Go."""

# Subject: streams, API

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.gotime import (
    UnwritableTime,
    ZonedTime,
    format_duration,
    format_time,
    format_zoned,
    parse_time,
    unix_nanos,
)
from core.model.wire import ZERO_TIME

SECOND = 1_000_000_000


@given(st.integers(ZERO_TIME, 253_402_300_799 * SECOND))
def test_a_written_time_is_read_back(nanos: int) -> None:
    assert parse_time(format_time(nanos)) == nanos


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (ZERO_TIME, "0001-01-01T00:00:00Z"),
        (1_500_000_000, "1970-01-01T00:00:01.5Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
    ],
)
def test_trailing_zeros_of_a_fraction_are_cut(nanos: int, text: str) -> None:
    assert format_time(nanos) == text


def test_an_offset_is_taken_into_account() -> None:
    assert parse_time("2024-01-01T02:00:00+02:00") == parse_time("2024-01-01T00:00:00Z")
    assert parse_time("2023-12-31T22:30:00-01:30") == parse_time("2024-01-01T00:00:00Z")


def test_digits_beyond_nanoseconds_are_dropped() -> None:
    assert parse_time("1970-01-01T00:00:00.1234567899Z") == 123_456_789


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (100 * 1_000_000, "100ms"),
        (SECOND, "1s"),
        (90 * SECOND, "1m30s"),
        (3600 * SECOND, "1h0m0s"),
        (-1_500_000_000, "-1.5s"),
    ],
)
def test_durations_are_written_as_go_does(nanos: int, text: str) -> None:
    assert format_duration(nanos) == text


@given(
    st.integers(-62_135_000_000, 253_402_000_000),
    st.integers(-1439, 1439),
    st.integers(0, 999_999_999),
)
def test_a_time_is_shown_in_the_zone_it_was_written_in(
    seconds: int, minutes: int, fraction: int
) -> None:
    written = format_zoned(ZonedTime.of(seconds * SECOND + fraction, minutes * 60))

    assert parse_time(written) == seconds * SECOND + fraction
    assert format_zoned(parse_time(written)) == written
    assert format_time(parse_time(written)).endswith("Z")


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T1:00:00Z", 3600 * SECOND),
        ("1970-01-01T00:00:00,0000000019Z", 1),
        ("0000-01-01T00:00:00Z", -62_167_219_200 * SECOND),
        ("9999-12-31T23:59:59Z", 253_402_300_799 * SECOND),
        ("1970-01-02T00:00:00+24:00", 0),
    ],
)
def test_times_that_go_accepts(text: str, nanos: int) -> None:
    assert parse_time(text) == nanos


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01T24:00:00Z", "1970-01-01T00:60:00Z", "1970-01-01T00:00:60Z", "x", "",
        "1970-02-29T00:00:00Z", "1970-01-01T00:00:00+25:00", "1970-01-01t00:00:00z",
        "１９７０-01-01T00:00:00Z", "1970-01-01T00:00:00.１Z", "1970-01-01T00:00:00+0１:00",
    ],
)  # fmt: skip
def test_times_that_go_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="parsing time"):
        parse_time(text)


@pytest.mark.parametrize(
    "text", ["1970-01-02T00:00:00+24:00", "9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00"]
)
def test_a_time_that_cannot_be_written_in_utc_or_its_zone(text: str) -> None:
    with pytest.raises(UnwritableTime):
        format_zoned(parse_time(text)) + format_time(int(parse_time(text)))


def test_times_beyond_64_bits_wrap_around() -> None:
    assert unix_nanos(parse_time("2300-01-01T00:00:00Z")) < 0
    assert unix_nanos(parse_time("1600-01-01T00:00:00Z")) > 0
    assert unix_nanos(-1) == -1
