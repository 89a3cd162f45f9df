"""Times to live and markers as header blocks say them."""

# Subject: expiry

import pytest

from core.errors import ApiError
from core.rules.stream.config.validation import check_create
from core.rules.stream.ttl import (
    MAX_AGE,
    NEVER,
    PURGE,
    REMOVE,
    is_marker,
    marker_block,
    marker_reasons_of,
    parse_ttl,
    raised,
    ttl_of,
)
from tests.unit.rules.stream.support import SECOND, block, config


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"1", 1),
        (b"1.5s", 1),
        (b"1m30.9s", 90),
        (b"+5s", 5),
        (b"1000000\xc2\xb5s", 1),
        (b"nEvEr", NEVER),
        (b"00", 0),
        (b"18446744073709551617", 1),
        (b"18446744073709551616", 0),
    ],
)
def test_seconds_of_a_value(value: bytes, seconds: int) -> None:
    assert parse_ttl(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        b"0",
        b"0s",
        b"999ms",
        b"-1",
        b"-1s",
        b"5.5",
        b"1d",
        b"7 ",
        b"never ",
        b"\xff",
        b"9" * 5000,
        b"9223372036854775808",
        b"2562048h",
        "\uff11".encode(),
    ],
)
def test_a_bad_value_has_no_seconds(value: bytes) -> None:
    assert parse_ttl(value) is None


def test_a_stored_block_without_a_sound_value_has_no_time_to_live() -> None:
    assert ttl_of(block(X="y")) == ttl_of(block(Nats_TTL="soon")) == 0


def test_a_short_time_is_raised_and_stands_last() -> None:
    short = block(A="1", Nats_TTL="1s", B="2")

    assert raised(short, 2) == b"NATS/1.0\r\nA: 1\r\nB: 2\r\nNats-TTL: 2\r\n\r\n"


@pytest.mark.parametrize("value", ["2", "1h", "never", "00", "soon"])
def test_a_ttl_that_is_long_enough_or_malformed_stays_as_sent(value: str) -> None:
    sent = block(Nats_TTL=value, B="2")

    assert raised(sent, 2) == sent


def test_a_marker_has_its_reason_and_ttl_and_replaces_its_subject() -> None:
    made = marker_block(MAX_AGE, 90_900_000_000)

    assert made == block(Nats_Marker_Reason="MaxAge", Nats_TTL="1m30s", Nats_Rollup="sub")
    assert is_marker(made)


@pytest.mark.parametrize(
    ("headers", "marks"),
    [
        ({"KV_Operation": "PURGE"}, True),
        ({"KV_Operation": "DEL"}, False),
        ({"Nats_Marker_Reason": "anything"}, True),
        ({"Nats_Marker_Reason": ""}, False),
    ],
)
def test_headers_of_markers(headers: dict[str, str], marks: bool) -> None:
    assert is_marker(block(**headers)) is marks


@pytest.mark.parametrize(
    ("value", "reasons"),
    [("Remove", {REMOVE}), ("Purge", {PURGE}), ("Purge, Remove", {REMOVE, PURGE})],
)
def test_reasons_that_metadata_asks_for(value: str, reasons: set[bytes]) -> None:
    assert marker_reasons_of(config(metadata={"jetgate.markers": value})) == reasons


@pytest.mark.parametrize(
    ("value", "ttl", "text"),
    [
        ("remove", SECOND, "jetgate.markers is neither Remove nor Purge nor both: remove"),
        ("", SECOND, "jetgate.markers is neither Remove nor Purge nor both: "),
        ("Purge,MaxAge", 0, "jetgate.markers is neither Remove nor Purge nor both: Purge,MaxAge"),
        ("Purge", 0, "jetgate.markers needs a subject delete marker TTL"),
    ],
)
def test_a_stream_that_cannot_write_the_markers_it_asks_for_is_refused(
    value: str, ttl: int, text: str
) -> None:
    asked = config(
        subjects=("s",), metadata={"jetgate.markers": value}, subject_delete_marker_ttl=ttl
    )

    with pytest.raises(ApiError) as refused:
        check_create(asked, {}, name="S")

    assert (refused.value.err_code, refused.value.description) == (10052, text)
