"""The tree of subscriptions against a plain list of pairs."""

# Subject: routing

from hypothesis import given
from hypothesis import strategies as st

from core.subjects.subject import matches
from core.subjects.sublist import Sublist

TOKEN = st.sampled_from([b"a", b"b", b"c", b"foo*"])
LITERAL = st.lists(TOKEN, min_size=1, max_size=4).map(b".".join)
FILTER = st.lists(TOKEN | st.just(b"*"), min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([b".".join(parts), b".".join([*parts, b">"]), b">"])
)


@given(st.lists(st.tuples(FILTER, st.booleans()), max_size=40), st.lists(LITERAL, max_size=20))
def test_it_finds_what_a_list_would_find(
    steps: list[tuple[bytes, bool]], literals: list[bytes]
) -> None:
    tree: Sublist[int] = Sublist()
    there: list[tuple[bytes, int]] = []
    for number, (pattern, is_removal) in enumerate(steps):
        if is_removal and there:
            gone = there.pop(number % len(there))
            assert tree.remove(*gone)
        else:
            tree.insert(pattern, number)
            there.append((pattern, number))

    assert tree.count == len(there)
    for literal in literals:
        found, _ = tree.match(literal)
        assert sorted(found) == sorted(n for p, n in there if matches(literal, p))


@given(st.lists(FILTER, max_size=20), LITERAL, LITERAL)
def test_subjects_with_the_same_head_agree_when_the_last_token_does_not_matter(
    patterns: list[bytes], one: bytes, other: bytes
) -> None:
    tree: Sublist[int] = Sublist()
    for number, pattern in enumerate(patterns):
        tree.insert(pattern, number)
    found, last_matters = tree.match(one)

    if not last_matters:
        neighbour = b".".join([*one.split(b".")[:-1], other.split(b".")[-1]])
        assert sorted(tree.match(neighbour)[0]) == sorted(found)


def test_removing_everything_leaves_an_empty_tree() -> None:
    tree: Sublist[int] = Sublist()
    patterns = [b"a.b.c", b"a.*", b"a.>", b">", b"a.b.c", b"*.*.*"]
    for number, pattern in enumerate(patterns):
        tree.insert(pattern, number)

    for number, pattern in enumerate(patterns):
        assert tree.remove(pattern, number)
        assert not tree.remove(pattern, number)

    assert tree.count == 0
    assert tree._root.is_empty()


def test_removing_what_was_never_there_is_harmless() -> None:
    tree: Sublist[str] = Sublist()
    tree.insert(b"a.b", "x")

    for pattern in (b"a", b"a.b.c", b"a.*", b"a.>", b">", b"a.b"):
        assert not tree.remove(pattern, "y")

    assert tree.match(b"a.b") == (["x"], True)


def test_many_items_under_one_filter() -> None:
    tree: Sublist[int] = Sublist()
    for number in range(1000):
        tree.insert(b"hot", number)

    for number in range(0, 1000, 2):
        assert tree.remove(b"hot", number)

    assert tree.match(b"hot")[0] == list(range(1, 1000, 2))


def test_an_empty_token_matches_nothing() -> None:
    tree: Sublist[str] = Sublist()
    tree.insert(b">", "all")

    for subject in (b"a..b", b".a", b"a.", b""):
        assert tree.match(subject) == ([], True)
