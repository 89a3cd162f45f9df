"""Header blocks."""

# Subject: protocol

from hypothesis import given
from hypothesis import strategies as st

from core.protocol import headers

NAME = st.text("abcXYZ-", min_size=1, max_size=8).map(str.encode)
VALUE = st.text("abc :;=\r\n", max_size=10).map(str.encode)
BLOCK = b"NATS/1.0\r\nNats-Msg-Id: one\r\nX: 1\r\nx: 2\r\nX:3\r\nEmpty:\r\n\r\n"


def test_values_are_found_by_their_exact_name() -> None:
    assert headers.find(BLOCK, b"Nats-Msg-Id") == b"one"
    assert headers.find(BLOCK, b"nats-msg-id") is None
    assert headers.find(BLOCK, b"Msg-Id") is None
    assert headers.find(BLOCK, b"x") == b"2"
    assert headers.find(BLOCK, b"Empty") == b""
    assert headers.find(b"", b"X") is None


def test_the_first_of_equal_names_wins() -> None:
    assert headers.find(BLOCK, b"X") == b"1"


def test_a_block_without_its_end_does_not_confuse() -> None:
    assert headers.find(b"NATS/1.0\r\nX: 1", b"X") == b"1"
    assert headers.find(b"garbage", b"X") is None
    assert headers.parse(b"garbage") == []


def test_status_lines() -> None:
    assert headers.status(b"NATS/1.0 503\r\n\r\n") == (503, "")
    assert headers.status(b"NATS/1.0 408 Request Timeout\r\nA: b\r\n\r\n") == (
        408,
        "Request Timeout",
    )
    assert headers.status(headers.EMPTY) == (0, "")
    assert headers.status(b"NATS/1.0 x\r\n\r\n") == (0, "")
    assert headers.status(b"") == (0, "")
    assert headers.build((), 404, b"No Messages") == b"NATS/1.0 404 No Messages\r\n\r\n"


def test_lines_are_added_and_removed() -> None:
    more = headers.append(b"NATS/1.0\r\nA: b\r\n\r\n", [(b"C", b"d")])

    assert more == b"NATS/1.0\r\nA: b\r\nC: d\r\n\r\n"
    assert headers.append(b"", [(b"C", b"d")]) == b"NATS/1.0\r\nC: d\r\n\r\n"
    assert headers.remove(more, b"A") == b"NATS/1.0\r\nC: d\r\n\r\n"
    assert headers.remove(more, b"Z") == more
    assert headers.remove(headers.remove(more, b"A"), b"C") == b""
    assert headers.remove(BLOCK, b"X") == b"NATS/1.0\r\nNats-Msg-Id: one\r\nx: 2\r\nEmpty:\r\n\r\n"


@given(st.lists(st.tuples(NAME, VALUE), max_size=5))
def test_built_headers_are_parsed_again_and_cannot_break_out(
    pairs: list[tuple[bytes, bytes]],
) -> None:
    block = headers.build(pairs)

    flat = [(n, v.replace(b"\r", b" ").replace(b"\n", b" ").strip()) for n, v in pairs]
    assert headers.parse(block) == flat
    assert block.count(b"\r\n") == len(pairs) + 2
    for name, _ in pairs:
        first = next(v for n, v in flat if n == name)
        assert (headers.find(block, name) or b"").strip() == first
