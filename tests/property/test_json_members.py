"""Lines and frames with a member twice: all of them are refused, and no others.

That is decided by counting colons, so what is written here is full of them and of escapes.
"""

# Subject: HTTP contract

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from gateway.messages.batch_lines import LineDecoder
from gateway.settings import Settings
from gateway.ws.codec import JSON_CODEC, BadFrame
from gateway.ws.frames import Publish

TEXTS = st.text(st.sampled_from(':"\\\\au3, {}é'), max_size=6)
VALUES = st.recursive(TEXTS | st.integers(0, 9), lambda each: st.lists(each, max_size=2))
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "headers": st.dictionaries(st.sampled_from(["A", "B:", "C"]), TEXTS | st.lists(TEXTS)),
    "msg_id": TEXTS,
    "expect": st.fixed_dictionaries({}, optional={"stream": TEXTS, "last_seq": st.just(0)}),
}
PAYLOADS: tuple[st.SearchStrategy[dict[str, Any]], ...] = (
    st.just({}),
    st.fixed_dictionaries({"data": VALUES | st.dictionaries(TEXTS, VALUES, max_size=3)}),
    st.fixed_dictionaries({"text": TEXTS}),
    st.fixed_dictionaries({"data_base64": st.sampled_from(["", "Ojo6", "YQ=="])}),
)


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, bool]:
    """A message in JSON, and whether it has a member twice."""
    value = {"subject": draw(st.sampled_from(["a", "a:b"])), **draw(st.one_of(*PAYLOADS))}
    value |= draw(st.fixed_dictionaries({}, optional=MEMBERS))
    pairs = [_pair(draw, name, each) for name, each in value.items()]
    is_twice = draw(st.booleans())
    if is_twice:
        name = draw(st.sampled_from(sorted(value)))
        inner = value[name]
        if name in ("headers", "expect") and inner and draw(st.booleans()):
            again = draw(st.sampled_from(sorted(inner)))
            body = [_pair(draw, key, each) for key, each in (*inner.items(), (again, inner[again]))]
            pairs[list(value).index(name)] = f'"{name}":{{{",".join(body)}}}'
        else:
            pairs.append(_pair(draw, name, inner))
    return "{" + ",".join(draw(st.permutations(pairs))) + "}", is_twice


def _pair(draw: st.DrawFn, name: str, value: Any) -> str:
    """A member, as it may be written: with blanks and escapes."""
    key = json.dumps(name)
    if draw(st.integers(0, 9)) == 0:
        key = f'"\\u{ord(name[0]):04x}{name[1:]}"'
    written = json.dumps(value, ensure_ascii=draw(st.booleans()))
    if draw(st.integers(0, 9)) == 0 and not isinstance(value, dict):
        written = written.replace(":", draw(st.sampled_from(["\\u003a", "\\u003A"])))
    return key + draw(st.sampled_from(["", " "])) + ":" + written


@given(st.lists(messages(), max_size=6))
def test_lines_with_a_member_twice_are_refused_and_no_others(
    members: list[tuple[str, bool]],
) -> None:
    lines = LineDecoder(Settings(), 1 << 20)
    part = lines.decode([text.encode() for text, _ in members])

    assert part.size == len(members)
    refused = {place: problem.detail for place, problem in part.refused.items()}
    for place, (text, is_twice) in enumerate(members):
        assert (refused.get(place) == "an object has a member twice") is is_twice, text


@given(st.lists(messages(), min_size=1, max_size=3), st.booleans())
def test_frames_with_a_member_twice_are_refused(members: list[tuple[str, bool]], one: bool) -> None:
    chosen = members[:1] if one else members
    frames = ['{"type":"pub",' + text[1:] for text, _ in chosen]
    text = frames[0] if one else "[" + ",".join(frames) + "]"

    if any(is_twice for _, is_twice in chosen):
        with pytest.raises(BadFrame, match="a member twice"):
            JSON_CODEC.decode(text)
    else:
        assert len(JSON_CODEC.decode(text)) == len(chosen)


def test_nested_data_is_passed_on_unchanged() -> None:
    data = '{"a":{"b":1,"b":2},"a":":"}'
    line = f'{{"subject":"a","data":{data},"msg_id":"\\u003a"}}'

    part = LineDecoder(Settings(), 1 << 20).decode([line.encode()])
    [frame] = JSON_CODEC.decode('{"type":"pub",' + line[1:])

    assert (part.refused, part.batch.payloads) == ({}, [data.encode()])
    assert isinstance(frame, Publish)
    assert frame.data == Raw(data.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"ping","id":1,"id":2}',
        '{"type":"sub","id":1,"sid":1,"stream":"S","credit":{"msgs":1,"msgs":2}}',
        '[{"type":"ping","id":1},{"type":"unsub","id":1,"sid":1,"sid":2}]',
    ],
)
def test_other_frames_with_a_member_twice_are_refused(text: str) -> None:
    with pytest.raises(BadFrame, match="a member twice"):
        JSON_CODEC.decode(text)
