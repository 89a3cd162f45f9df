"""Subject transforms, one function after the other; the differential test compares many more."""

# Subject: streams, transforms

import pytest

from core.model.transform import CACHE_MAX, Transform


def _never() -> float:
    raise AssertionError("not random")


@pytest.mark.parametrize(
    ("src", "dest", "subject", "result"),
    [
        ("a.*.*", "b.$2.{{wildcard(1)}}", "a.x.y", "b.y.x"),
        ("a.>", "b.>", "a.x.y", "b.x.y"),
        ("a.*.>", "b.$1.c.>", "a.x.y.z", "b.x.c.y.z"),
        ("", "b.>", "x.y", "b.x.y"),
        ("a", "b", "a", "b"),
        ("*", "{{partition(10,1)}}.$1", "foo", "3.foo"),
        ("t.a", "d.{{partition(100000,1)}}", "t.a", "d.31362"),
        ("*", "{{split(1,-)}}", "-a-b--c-", "a.b.c"),
        ("*", "{{splitfromleft(1,3)}}", "12345", "123.45"),
        ("*", "{{splitfromleft(1,5)}}", "12345", "12345"),
        ("*", "{{splitfromright(1,3)}}", "12345", "12.345"),
        ("*", "{{slicefromleft(1,3)}}", "1234567890", "123.456.789.0"),
        ("*", "{{slicefromright(1,3)}}", "1234567890", "1.234.567.890"),
        ("*", "{{left(1,2)}}", "12345", "12"),
        ("*", "{{right(1,2)}}", "12345", "45"),
    ],
)
def test_functions(src: str, dest: str, subject: str, result: str) -> None:
    assert Transform(src, dest, _never).apply(subject.encode()) == result.encode()


def test_a_subject_that_does_not_match_stays() -> None:
    transform = Transform("a.*", "b.$1", _never)
    assert transform.apply(b"c.x") is None
    assert transform.apply_all([b"a.x", b"c.x", b"a.x"]) == [b"b.x", b"c.x", b"b.x"]


@pytest.mark.parametrize("subject", [b"a.*", b"a.>", b"a.x.>.y"])
def test_a_subject_that_holds_wildcards_stays(subject: bytes) -> None:
    transform = Transform("a.>", "b.>", _never)
    assert transform.apply(subject) is None
    assert transform.apply_all([subject, b"a.a*"]) == [subject, b"b.a*"]
    assert Transform(">", ">", _never).apply(subject) == subject


def test_the_cache_of_a_transform_is_bounded() -> None:
    transform = Transform("a.*", "b.$1", _never)
    for start in range(0, 5 * CACHE_MAX, CACHE_MAX // 2):
        subjects = [b"a.%d" % i for i in range(start, start + CACHE_MAX // 2)]
        assert transform.apply_all(subjects) == [b"b" + subject[1:] for subject in subjects]
        assert len(transform._cache) <= CACHE_MAX
