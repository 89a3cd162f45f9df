"""Header blocks as a stream reads and keeps them."""

# Subject: publish

import pytest

from core.rules.stream.headers import expecting, find, lone_msg_id, publish_headers, stored_block


def test_only_headers_of_nats_are_read() -> None:
    found = publish_headers(b"NATS/1.0\r\nA: b\r\nNats-Msg-Id: i\r\nX-Nats-TTL: 1\r\n\r\n")

    assert found == {b"Nats-Msg-Id": b"i"}


def test_of_two_values_the_first_counts() -> None:
    found = publish_headers(b"NATS/1.0\r\nNats-Msg-Id: i\r\nNats-Msg-Id: j\r\n\r\n")

    assert found == {b"Nats-Msg-Id": b"i"}


def test_leading_spaces_of_a_value_are_dropped_and_nothing_else() -> None:
    found = publish_headers(b"NATS/1.0\r\nNats-A:   x y \r\nNats-B:\tz\r\nNats-C:p\r\n\r\n")

    assert found == {b"Nats-A": b"x y ", b"Nats-B": b"\tz", b"Nats-C": b"p"}


def test_a_bare_line_feed_is_part_of_a_value() -> None:
    assert publish_headers(b"NATS/1.0\r\nNats-A: x\ny\r\n\r\n") == {b"Nats-A": b"x\ny"}


def test_a_name_with_a_blank_is_another_name() -> None:
    assert b"Nats-Msg-Id" not in publish_headers(b"NATS/1.0\r\nNats-Msg-Id : i\r\n\r\n")


@pytest.mark.parametrize(
    "block",
    [b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: Nats-B: c\r\n\r\n", b"NATS/1.0\r\nNats-A\r\n\r\n", b""],
)
def test_a_block_without_headers_of_nats_has_none(block: bytes) -> None:
    assert publish_headers(block) == {}


@pytest.mark.parametrize(
    ("block", "msg_id"),
    [
        (b"NATS/1.0\r\nNats-Msg-Id: i\r\n\r\n", b"i"),
        (b"NATS/1.0\r\nNats-Msg-Id:i\r\n\r\n", b"i"),
        (b"NATS/1.0\r\nNats-Msg-Id:\r\n\r\n", b""),
        (b"NATS/1.0\r\nNats-Msg-Id: i\r\nA: b\r\n\r\n", b""),
        (b"NATS/1.0\r\nA: b\r\nNats-Msg-Id: i\r\n\r\n", b""),
        (b"NATS/1.0 503\r\nNats-Msg-Id: i\r\n\r\n", b""),
        (b"NATS/1.0\r\nNats-Msg-Id: i\r\nNats-Expected-Stream: S\r\n\r\n", b"i"),
        (b"NATS/1.0\r\nNats-Msg-Id: i\r\nNats-Expected-Stream: T\r\n\r\n", b""),
        (b"NATS/1.0\r\nNats-Msg-Id: i\r\nNats-Expected-Stream: S\r\nA: b\r\n\r\n", b""),
        (b"NATS/1.0\r\nNats-Expected-Stream: S\r\nNats-Msg-Id: i\r\n\r\n", b""),
    ],
)
def test_an_id_alone_or_with_its_stream_is_recognised(block: bytes, msg_id: bytes) -> None:
    assert lone_msg_id(block, expecting("S")) == msg_id


@pytest.mark.parametrize(
    ("block", "stored"),
    [
        (b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\n\r\n"),
        (b"NATS/1.0\r\n", b""),
        (b"NATS/1.0 503\r\n\r\n", b""),
        (b"NATS/1.0 100 Idle\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (b"NATS/1.0\r\nNats-Request-Info: x\r\n\r\n", b""),
        (b"NATS/1.0\r\nNats-Request-Info: x\r\nA: b\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"),
        (
            b"NATS/1.0\r\nA:  b \r\nNats-Msg-Id: i\r\nA: c\r\n\r\n",
            b"NATS/1.0\r\nA:  b \r\nNats-Msg-Id: i\r\nA: c\r\n\r\n",
        ),
    ],
)
def test_a_block_is_kept_without_status_and_request_info(block: bytes, stored: bytes) -> None:
    assert stored_block(block) == stored


def test_one_header_is_found_by_its_name() -> None:
    block = b"NATS/1.0\r\nA: b\r\nNats-Msg-Id:  i\r\n\r\n"

    assert find(block, b"Nats-Msg-Id") == b"i"
    assert find(block, b"Nats-Msg") is None


def test_the_first_line_is_no_header() -> None:
    """As in nats-server, whatever stands there."""
    assert publish_headers(b"Nats-Rollup: all\r\nNats-Msg-Id: x\r\n\r\n") == {b"Nats-Msg-Id": b"x"}
