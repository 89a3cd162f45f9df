"""A payload that comes in several reads, at every cut."""

# Subject: protocol

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ProtocolError
from core.protocol.partial_payload import PartialPayload


@given(st.binary(max_size=20), st.binary(max_size=5), st.lists(st.integers(0, 30), max_size=6))
def test_any_cut_gives_the_payload_and_the_rest(
    payload: bytes, rest: bytes, cuts: list[int]
) -> None:
    data = payload + b"\r\n" + rest
    first = min(cuts, default=0)
    places = [*sorted(cut for cut in cuts if cut < len(payload) + 2), len(data)]
    partial = PartialPayload()
    partial.begin(data[: min(first, len(payload) + 1)], len(payload))
    places[0] = min(first, len(payload) + 1)
    found = None
    for start, stop in pairwise([*places, len(data)]):
        assert found is None
        found = partial.add(data[start:stop])
        if found is not None:
            assert (found[0], found[1] + data[stop:]) == (payload, rest)
            break
    assert found is not None
    assert partial.missing == 0


@pytest.mark.parametrize(
    ("start", "wrong"), [(b"abc", b"x"), (b"ab", b"cx"), (b"abc\r", b"x"), (b"ab", b"c\n\r")]
)
def test_a_payload_of_another_size_is_refused(start: bytes, wrong: bytes) -> None:
    partial = PartialPayload()
    partial.begin(start, 3)

    with pytest.raises(ProtocolError, match="payload not followed by CR LF"):
        partial.add(wrong)


def test_a_wrong_byte_is_refused_before_the_next_comes() -> None:
    partial = PartialPayload()

    with pytest.raises(ProtocolError):
        partial.begin(b"abcx", 3)
