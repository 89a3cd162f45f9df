"""Subjects: validity, matching, subsets, overlaps, compiled filters."""

# Subject: routing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.subjects import subject as subjects

TOKEN = st.sampled_from([b"a", b"b", b"ab", b"*x", b">y"])
LITERAL = st.lists(TOKEN, min_size=1, max_size=4).map(b".".join)


@st.composite
def filters(draw: st.DrawFn) -> bytes:
    parts = draw(st.lists(TOKEN | st.just(b"*"), min_size=0, max_size=4))
    if not parts or draw(st.booleans()):
        parts.append(b">")
    return b".".join(parts)


FILTER = filters() | LITERAL
ODD = TOKEN | st.sampled_from([b"*", b">"])
"""What a client may publish on: tokens that a filter takes for wildcards, too."""
ODD_LITERAL = st.lists(ODD, min_size=1, max_size=4).map(b".".join)


def naive_match(literal: list[bytes], pattern: list[bytes]) -> bool:
    """The definition, token by token."""
    if not pattern:
        return not literal
    if pattern == [b">"]:
        return bool(literal)
    if not literal:
        return False
    return pattern[0] in (b"*", literal[0]) and naive_match(literal[1:], pattern[1:])


@pytest.mark.parametrize(
    ("subject", "is_filter", "is_literal"),
    [
        (b"a", True, True),
        (b"a.b", True, True),
        (b"a.*", True, False),
        (b"a.>", True, False),
        (b">", True, False),
        (b"*", True, False),
        (b"foo*.b>r", True, True),
        (b"**", True, True),
        (b"a\x0bb", True, True),
        (b"\xff\x00", True, True),
        (b"", False, False),
        (b".a", False, False),
        (b"a.", False, False),
        (b"a..b", False, False),
        (b">.a", False, False),
        (b"a.>.b", False, False),
        (b"a b", False, False),
        (b"a\tb", False, False),
        (b"a\rb", False, False),
        (b"a\nb", False, False),
        (b"a\x0cb", False, False),
    ],
)
def test_validity(subject: bytes, is_filter: bool, is_literal: bool) -> None:
    assert subjects.is_valid_filter(subject) is is_filter
    assert subjects.is_valid_literal(subject) is is_literal


@given(LITERAL, FILTER)
def test_matches_agrees_with_the_definition(literal: bytes, pattern: bytes) -> None:
    expected = naive_match(literal.split(b"."), pattern.split(b"."))

    assert subjects.matches(literal, pattern) is expected


@pytest.mark.parametrize("broken", [b"a..b", b".a", b"a.", b""])
def test_an_empty_token_matches_nothing(broken: bytes) -> None:
    assert not subjects.matches(broken, b">")
    assert not subjects.matches(broken, b"*.*")


@given(FILTER, FILTER, st.lists(LITERAL, max_size=20))
def test_subset_and_overlap_hold_for_every_literal(
    one: bytes, other: bytes, literals: list[bytes]
) -> None:
    for literal in literals:
        in_one, in_other = subjects.matches(literal, one), subjects.matches(literal, other)
        if subjects.is_subset(one, other):
            assert in_other or not in_one
        if in_one and in_other:
            assert subjects.overlap(one, other)


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        (b"a.b", b"a.b", True),
        (b"a.b", b"a.*", True),
        (b"a.*", b"a.b", False),
        (b"a.*", b"a.>", True),
        (b"a.>", b"a.*", False),
        (b"a", b"a.>", False),
        (b"a.b.c", b"a.b", False),
        (b"a.b", b"a.b.c", False),
        (b">", b">", True),
        (b"*.>", b">", True),
        (b">", b"*.>", False),
    ],
)
def test_subset(inner: bytes, outer: bytes, expected: bool) -> None:
    assert subjects.is_subset(inner, outer) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (b"a.*", b"*.b", True),
        (b"a.>", b"*.b.c", True),
        (b"a", b"a.>", False),
        (b"a.b", b"a.c", False),
        (b"a.*.c", b"a.b", False),
        (b">", b"x.y.z", True),
        (b"same", b"same", True),
    ],
)
def test_overlap(one: bytes, other: bytes, expected: bool) -> None:
    assert subjects.overlap(one, other) is expected
    assert subjects.overlap(other, one) is expected


@given(st.lists(FILTER, max_size=4), LITERAL)
def test_compiled_filters_agree_with_matches(patterns: list[bytes], literal: bytes) -> None:
    test = subjects.compile_filters(patterns)

    expected = not patterns or any(subjects.matches(literal, pattern) for pattern in patterns)
    assert (test is None or bool(test(literal))) is expected


@given(FILTER, ODD_LITERAL)
def test_a_stream_is_read_on_by_what_is_within_a_filter(pattern: bytes, literal: bytes) -> None:
    test = subjects.compile_reading([pattern])

    assert (test is None or test(literal)) is subjects.is_subset(literal, pattern)


@given(st.lists(FILTER, min_size=2, max_size=3), ODD_LITERAL)
def test_several_filters_read_on_as_subscriptions_do(patterns: list[bytes], literal: bytes) -> None:
    test, other = subjects.compile_reading(patterns), subjects.compile_filters(patterns)

    assert (test is None) is (other is None)
    assert test is None or other is None or bool(test(literal)) is bool(other(literal))


def test_a_filter_for_everything_compiles_to_nothing() -> None:
    assert subjects.compile_filters([]) is None
    assert subjects.compile_filters([b"a", b">"]) is None


@given(FILTER)
def test_the_fixed_prefix_is_shared_by_all_matches(pattern: bytes) -> None:
    prefix = subjects.fixed_prefix(pattern)

    assert pattern.startswith(prefix)
    assert (prefix == pattern) is not subjects.has_wildcard(pattern)
