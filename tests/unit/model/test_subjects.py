"""Rules about subjects in configurations, against a naive enumeration."""

# Subject: streams

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.model.mapping import MappingError, check_mapping
from core.model.subjects import (
    PAIRWISE_MAX,
    SubjectTrie,
    any_collision,
    any_within_another,
    collide,
    first_collision,
    is_literal,
    is_subset,
    is_valid_subject,
)

TOKENS = ("a", "b", "*", ">")
LITERALS = [".".join(t) for n in (1, 2, 3) for t in product("ab", repeat=n)]
PATTERNS = [
    pattern
    for n in (1, 2, 3)
    for pattern in (".".join(t) for t in product(TOKENS, repeat=n))
    if is_valid_subject(pattern)
]


def _matches(subject: str, pattern: str) -> bool:
    tokens, wanted = subject.split("."), pattern.split(".")
    for index, want in enumerate(wanted):
        if want == ">":
            return len(tokens) > index
        if index >= len(tokens) or want not in ("*", tokens[index]):
            return False
    return len(tokens) == len(wanted)


def test_two_patterns_collide_when_some_subject_matches_both() -> None:
    longer = [*LITERALS, "a.a.a.a", "b.b.b.b", "a.b.a.b"]
    for one, other in product(PATTERNS, repeat=2):
        together = any(_matches(s, one) and _matches(s, other) for s in longer)
        if together:
            assert collide(one, other), (one, other)
        if not collide(one, other):
            assert not together, (one, other)


def test_a_subset_matches_nothing_else() -> None:
    for one, other in product(PATTERNS, repeat=2):
        if is_subset(one, other):
            assert all(_matches(s, other) for s in LITERALS if _matches(s, one)), (one, other)


patterns = st.lists(st.sampled_from(PATTERNS), max_size=12)


@given(patterns, st.sampled_from(PATTERNS))
def test_many_patterns_answer_as_each_of_them_would(many: list[str], one: str) -> None:
    tree = SubjectTrie([*many, "a.gone"])
    tree.remove("a.gone")

    assert tree.collides(one) == any(collide(one, other) for other in many)
    assert tree.covers(one) == any(is_subset(one, other) for other in many)


@given(patterns)
def test_long_lists_are_judged_as_short_ones(many: list[str]) -> None:
    padding = [f"x{i}.y.z.end" for i in range(PAIRWISE_MAX)]
    many = [pattern for pattern in many if pattern[0] in "ab"]

    assert first_collision(padding + many) == _shifted(first_collision(many), PAIRWISE_MAX)
    assert any_within_another(padding + many) == any_within_another(many)
    assert any_collision(padding + many, ["a.b"]) == any_collision(many, ["a.b"])


def _shifted(pair: tuple[int, int] | None, by: int) -> tuple[int, int] | None:
    return None if pair is None else (pair[0] + by, pair[1] + by)


@pytest.mark.parametrize(
    "subject", ["", ".", "a.", ".a", "a..b", ">.a", "a b", "a\t", "a.>.b", " "]
)
def test_malformed_subjects_are_invalid(subject: str) -> None:
    assert not is_valid_subject(subject)


@pytest.mark.parametrize("subject", ["a*", "*a", "a.b>", "a*.b"])
def test_a_wildcard_inside_a_token_is_no_wildcard(subject: str) -> None:
    assert is_valid_subject(subject)
    assert is_literal(subject)


@pytest.mark.parametrize(
    ("src", "dest", "text"),
    [
        ("a.*", "b.$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        ("a", "b.$1", "invalid mapping destination: wildcard index out of range in $1"),
        ("a.*", "b.{{nope(1)}}", "invalid mapping destination: unknown function in {{nope(1)}}"),
        ("a.>", "b", "invalid subject"),
    ],
)
def test_bad_mappings_are_explained(src: str, dest: str, text: str) -> None:
    with pytest.raises(MappingError) as caught:
        check_mapping(src, dest)

    assert str(caught.value) == text
