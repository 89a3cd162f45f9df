"""Names, subjects, durations."""

# Subject: HTTP

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.protocol.words import words
from gateway.formats.validation import (
    duration,
    filter_subject,
    name,
    percent_decoded,
    publish_subject,
)
from gateway.http.problems import Problem
from gateway.settings import Settings

SETTINGS = Settings(ack_key=b"k" * 32)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        ("0s", 0),
        ("1.5s", 1_500_000_000),
        ("2m30s", 150_000_000_000),
        ("500ms", 500_000_000),
        ("3us", 3000),
        (".5s", 500_000_000),
    ],
)
def test_durations(value: int | str, expected: int) -> None:
    assert duration(value, "x") == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "s",
        "5",
        "-1s",
        "1 s",
        "1s2",
        "1d",
        "1e3s",
        "１s",
        "1_0s",
        "9" * 30 + "s",
        -1,
        2**63,
        "9" * 70,
    ],
)
def test_other_durations_are_refused(value: int | str) -> None:
    with pytest.raises(Problem):
        duration(value, "x")


@given(st.text(max_size=60))
def test_a_subject_that_passes_cannot_leave_its_line(text: str) -> None:
    try:
        subject = publish_subject(text, SETTINGS)
    except Problem:
        return
    assert words(b"PUB %b 0\r" % subject) == [b"PUB", subject, b"0"]
    assert b"" not in subject.split(b".")
    assert not any(byte in b" \t\r\n" for byte in subject)
    assert {b"*", b">"}.isdisjoint(subject.split(b"."))


@given(st.text(max_size=60))
def test_a_name_that_passes_is_one_literal_token(text: str) -> None:
    try:
        passed = name(text, "stream")
    except Problem:
        return
    assert not set(passed) & set(" \t\r\n.*>/\\\0")


@given(st.binary(max_size=60))
def test_decoding_is_total_and_happens_once(raw: bytes) -> None:
    try:
        text = percent_decoded(raw, "x")
    except Problem:
        return
    if b"%" not in raw:
        assert text.encode() == raw


def test_percent_signs_are_decoded_once() -> None:
    assert percent_decoded(b"%2541%2e", "x") == "%41."


@pytest.mark.parametrize(
    "subject",
    [
        "$KV.b.k",
        "$O.b.M.n",
        "a",
        "a.>b",
        "a*b",
        "é.ü",
        "\u0645\u06cc\u200c",
        "a\u200db",
        ".".join("t" * 2000),
        "\x01\x0b",
        "a\0.\0",
    ],
)
def test_subjects_that_may_be_published(subject: str) -> None:
    assert publish_subject(subject, SETTINGS) == subject.encode()


@pytest.mark.parametrize("subject", ["*", ">", "a.*.b", "a.>", "$KV.b.>"])
def test_filters_may_have_wildcards(subject: str) -> None:
    assert filter_subject(subject, SETTINGS) == subject


@pytest.mark.parametrize("subject", [">.a", "a.>.b", "", "a b", "a..b"])
def test_filters_have_a_form(subject: str) -> None:
    with pytest.raises(Problem):
        filter_subject(subject, SETTINGS)
