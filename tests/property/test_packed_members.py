"""Frames of MessagePack with a member twice: all of them are refused, and no others.

That is decided by sizes, so what is written here has heads that are longer than they need to be,
members that say what is so without them, and maps of many members.
"""

# Subject: HTTP contract

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.ws.codec import CODECS, BadFrame
from gateway.ws.frames import PackedPublish

PACK = CODECS[1]
NAMES = st.sampled_from(["", "A", "B", "id", "x" * 40])
TEXTS = st.text(max_size=3) | st.just("y" * 300)
FRAMES = st.fixed_dictionaries(
    {"type": st.just("pub"), "subject": st.sampled_from(["", "a", "b" * 40])},
    optional={
        "id": st.sampled_from([0, 1, 200, 70_000, 1 << 40]),
        "data": st.binary(max_size=3) | st.just(b"z" * 70_000),
        "headers": st.dictionaries(NAMES, TEXTS | st.lists(TEXTS, max_size=2))
        | st.builds(lambda size: {str(n): "" for n in range(size)}, st.sampled_from([15, 16, 99])),
        "msg_id": st.none() | TEXTS,
        "expect": st.fixed_dictionaries({}, optional={"stream": TEXTS, "last_seq": st.just(0)}),
        "receipt": st.booleans(),
    },
)
Choose = Callable[[list[Any]], Any]


def _head(choose: Choose, count: int, fixed: tuple[int, int], *leads: int) -> bytes:
    """The head of a map, an array or a text: as short as can be, or longer."""
    sizes = [1 << power for power in range(3 - len(leads), 3)]
    given_members = [bytes((fixed[0] + count,))] if count < fixed[1] else []
    given_members += [
        bytes((lead,)) + count.to_bytes(size)
        for lead, size in zip(leads, sizes, strict=True)
        if count < 1 << 8 * size
    ]
    return bytes(choose(given_members))


def _packed(choose: Choose, value: Any) -> bytes:
    """A value in one of the forms that MessagePack has for it; a list of pairs is a map."""
    if isinstance(value, str):
        text = value.encode()
        return _head(choose, len(text), (0xA0, 32), 0xD9, 0xDA, 0xDB) + text
    if isinstance(value, dict | tuple):
        pairs = value.items() if isinstance(value, dict) else value
        members = [_packed(choose, name) + _packed(choose, each) for name, each in pairs]
        return _head(choose, len(members), (0x80, 16), 0xDE, 0xDF) + b"".join(members)
    if isinstance(value, list):
        parts = [_packed(choose, each) for each in value]
        return _head(choose, len(parts), (0x90, 16), 0xDC, 0xDD) + b"".join(parts)
    return msgspec.msgpack.encode(value)


@st.composite
def frames(draw: st.DrawFn) -> tuple[bytes, bool]:
    """A frame, and whether it has a member twice."""

    def choose(forms: list[Any]) -> Any:
        return draw(st.sampled_from(forms)) if is_long else forms[0]

    is_long = draw(st.integers(0, 3)) == 0
    value: Any = draw(FRAMES)
    is_twice = draw(st.booleans())
    if is_twice:
        inner = [name for name in ("headers", "expect") if value.get(name)]
        where = draw(st.sampled_from(["", *inner]))
        pairs = list((value[where] if where else value).items())
        pairs.append(draw(st.sampled_from(pairs)))
        twice = tuple(draw(st.permutations(pairs)))
        value = value | {where: twice} if where else twice
    return _packed(choose, value), is_twice


@given(st.lists(frames(), min_size=1, max_size=2), st.booleans())
def test_packed_frames_with_a_member_twice_are_refused_and_no_others(
    given_members: list[tuple[bytes, bool]], one: bool
) -> None:
    chosen = given_members[:1] if one else given_members
    data = b"".join(frame for frame, _ in chosen)
    whole = data if one else bytes((0x90 + len(chosen),)) + data

    if any(is_twice for _, is_twice in chosen):
        with pytest.raises(BadFrame, match=r"^an object has a member twice$"):
            PACK.decode(whole)
    else:
        assert len(PACK.decode(whole)) == len(chosen)


def test_a_payload_of_maps_is_passed_on_as_it_came() -> None:
    payload = _packed(lambda forms: forms[0], (("a", 1), ("a", 2)))
    frame = {"type": "pub", "subject": "a", "data": payload, "receipt": True}

    [found] = PACK.decode(msgspec.msgpack.encode(frame))

    assert isinstance(found, PackedPublish)
    assert found.data == payload


@pytest.mark.parametrize(
    "pairs",
    [
        (("type", "ping"), ("id", 1), ("id", 2)),
        (("type", "ping"), ("type", "ping"), ("id", 2)),
        (("type", "ack"), ("tokens", ["a"]), ("tokens", ["a", "b"])),
        (("type", "sub"), ("id", 1), ("sid", 1), ("credit", (("msgs", 1), ("msgs", 2)))),
        (("type", "sub"), ("id", 1), ("sid", 1), ("from", (("seq", 1), ("seq", 2)))),
        (("type", "sub"), ("id", 1), ("sid", 1), ("from", "all"), ("from", "new")),
    ],
)
def test_other_packed_frames_with_a_member_twice_are_refused(pairs: tuple[Any, ...]) -> None:
    with pytest.raises(BadFrame, match="a member twice"):
        PACK.decode(_packed(lambda forms: forms[0], pairs))
