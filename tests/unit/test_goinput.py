"""Numbers and blanks in the input of clients, by Go's rules."""

# Subject: API

import pytest

from core.goinput import folded, parse_int, parse_uint, parse_wrapped, trim_space


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        (b"0", 0), (b"007", 7), (b"0" * 30 + b"1", 1), (b"18446744073709551615", 2**64 - 1),
        (b"18446744073709551616", None), (b"9" * 5000, None), (b"", None), (b"+1", None),
        (b" 1", None), (b"1_0", None), ("１".encode(), None), (b"-0", None),
    ],
)  # fmt: skip
def test_unsigned_numbers(digits: bytes, value: int | None) -> None:
    assert parse_uint(digits) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("+1", 1), ("-0", 0), ("-007", -7), ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None), ("-9223372036854775808", -(2**63)), ("", None), ("+", None),
        ("1_0", None), (" 1", None), ("１", None), ("²", None), ("+-1", None), ("9" * 5000, None),
    ],
)  # fmt: skip
def test_signed_numbers(text: str, value: int | None) -> None:
    assert parse_int(text) == value


def test_overflowing_numbers_wrap_around() -> None:
    assert parse_wrapped(b"18446744073709551617") == 1
    assert parse_wrapped(b"0" * 100) == 0
    assert parse_wrapped(b"9" * 5000) is None
    assert parse_wrapped(b"") is parse_wrapped("１".encode()) is None


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        (b"\t\n\x0b\x0c\r x \n", b"x"), ("\xa0\x85x\u2028\u3000".encode(), b"x"),
        (b"\x1cx\x1f", b"\x1cx\x1f"), ("\u200bx".encode(), "\u200bx".encode()),
        (b"\xffx \xa0", b"\xffx \xa0"), (b"", b""), (" \u2003".encode(), b""),
    ],
)  # fmt: skip
def test_blanks_of_unicode_are_trimmed(text: bytes, trimmed: bytes) -> None:
    assert trim_space(text) == trimmed


def test_names_of_members_are_compared_as_go_does() -> None:
    assert folded("BATCH") == "batch"
    assert folded("acK_po\u017ft\u212a") == "ack_postk"
