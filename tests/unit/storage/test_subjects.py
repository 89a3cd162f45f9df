"""Subjects as text: each byte string has a text of its own that filters match as they match it."""

# Subject: storage

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.storage.postgres.subjects import (
    DIGEST_PREFIX,
    INDEXED_MAX,
    bytes_of,
    columns_of,
    indexed_text,
    key_of,
    subjects_of,
    text_of,
)
from core.subjects.subject import matches

# All that the protocol lets through: blanks and line ends separate the words of a line.
_BYTES = st.binary(min_size=1, max_size=12).map(lambda raw: re.sub(rb"[ \t\r\n\f]", b".", raw))
_SUBJECTS = _BYTES | st.text("aé.\ufffd\u200c", min_size=1, max_size=6).map(str.encode)
_LONG = b"s." + "é".encode() * (INDEXED_MAX // 2)


@given(st.lists(_SUBJECTS, max_size=6))
@example([b"plain.one", b"plain.two"])
@example([b"a.\0", b"a.00", b"\xff", b"ff"])
@example([_LONG, b"a", _LONG[:-2]])
def test_subjects_come_back_from_their_columns(subjects: list[bytes]) -> None:
    texts, long = columns_of(subjects)

    whole = [b or a for a, b in zip(texts, long or [None] * len(texts), strict=True)]
    assert [bytes_of(text) for text in whole] == subjects
    if whole:
        assert subjects_of("\n".join(whole).encode(), len(whole)) == subjects
    assert texts == list(map(key_of, subjects))
    assert all(len(text.encode()) <= INDEXED_MAX and "\0" not in text for text in texts)
    assert len(set(texts)) == len(set(subjects))


@given(_SUBJECTS, _SUBJECTS)
@example(b"a.\xff", b"a.*")
@example(b"a.\xff.b", b"a.>")
@example(b"a.\0.b", b"*.\0.>")
def test_a_filter_matches_the_text_as_it_matches_the_subject(subject: bytes, name: bytes) -> None:
    for pattern in (name, b"*." + name, name + b".*", name + b".>"):
        found = matches(text_of(subject).encode(), text_of(pattern).encode())
        assert found == matches(subject, pattern)


@pytest.mark.parametrize("size", [INDEXED_MAX - 1, INDEXED_MAX, INDEXED_MAX + 1, 65535])
@pytest.mark.parametrize("char", ["x", "é", "\U0001f600"])
def test_index_keys_are_short_and_differ_from_every_text(size: int, char: str) -> None:
    text = char * (size // len(char.encode()))
    kept = indexed_text(text)

    is_long = len(text.encode()) > INDEXED_MAX
    assert (kept != text) == is_long
    assert (DIGEST_PREFIX in kept) == kept.startswith(DIGEST_PREFIX) == is_long
    assert DIGEST_PREFIX not in text_of(b"\xff  \xff\0")
