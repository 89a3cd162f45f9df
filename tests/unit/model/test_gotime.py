"""Times and durations in the forms of Go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.gotime import format_duration, format_time, parse_time
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
