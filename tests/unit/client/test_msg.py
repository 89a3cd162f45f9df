"""Header blocks from a client's side."""

# Subject: gateway client

import pytest

from core.client import header_block, header_items, status_of


def test_a_block_survives_being_read_and_written() -> None:
    items = [(b"A", b"1"), (b"a", b""), (b"A", b"x: y"), (b"U", "é".encode())]

    assert header_items(header_block(items)) == items
    assert header_block([]) == b""


@pytest.mark.parametrize("item", [(b"", b"x"), (b"a:b", b"x"), (b"a", b"x\r\ny"), (b"a\0", b"x")])
def test_characters_that_would_break_a_line_are_refused(item: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        header_block([item])


@pytest.mark.parametrize(
    ("block", "status"),
    [
        (b"NATS/1.0 503\r\n\r\n", (503, "")),
        (b"NATS/1.0 408 Request Timeout\r\nA: b\r\n\r\n", (408, "Request Timeout")),
        (b"NATS/1.0\r\nA: 503\r\n\r\n", (0, "")),
        (b"", (0, "")),
        (b"NATS/1.0 abc\r\n\r\n", (0, "")),
    ],
)
def test_the_status_is_read(block: bytes, status: tuple[int, str]) -> None:
    assert status_of(block) == status
