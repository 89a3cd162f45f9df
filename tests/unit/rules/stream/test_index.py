"""The three forms of index against a dict of lists."""

# Subject: limits

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.rules.stream.state.subject_index import HistoryIndex, LastIndex, LogIndex, make_index

SUBJECTS = [b"a", b"b", b"c"]
Naive = dict[bytes, list[tuple[int, int]]]

batches = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=6)),
        st.tuples(st.just("remove"), st.lists(st.integers(0, 20), min_size=1, max_size=3)),
    ),
    max_size=12,
)


@pytest.mark.parametrize(
    ("limit", "form"),
    [(-1, LogIndex), (0, LogIndex), (1, LastIndex), (2, HistoryIndex), (64, HistoryIndex)],
)
def test_the_limit_chooses_the_form(limit: int, form: type) -> None:
    assert type(make_index(limit)) is form


@pytest.mark.parametrize("limit", [0, 1, 5])
@given(steps=batches)
def test_every_form_answers_as_a_dict_of_lists_would(
    limit: int, steps: list[tuple[str, list[Any]]]
) -> None:
    index = make_index(limit)
    naive: Naive = {}
    last = 0
    for what, values in steps:
        if what == "add":
            subjects: list[bytes] = values
            seqs: Sequence[int] = range(last + 1, last + len(subjects) + 1)
            last += len(subjects)
            if limit == 1:
                kept = dict(zip(subjects, seqs, strict=True))
                subjects, seqs = list(kept), list(kept.values())
                for subject in subjects:
                    naive.pop(subject, None)
            sizes = [seq * 10 for seq in seqs]
            index.add(seqs, subjects, sizes)
            for subject, seq, size in zip(subjects, seqs, sizes, strict=True):
                naive.setdefault(subject, []).append((seq, size))
        else:
            _remove(index, naive, values)
        _agree(index, naive)


def _remove(index: LogIndex | LastIndex | HistoryIndex, naive: Naive, places: list[int]) -> None:
    there = [(seq, s, size) for s, rows in naive.items() for seq, size in rows]
    gone = {there[place % len(there)] for place in places} if there else set()
    lost = {s for seq, s, _ in gone if naive[s][-1][0] == seq}
    for seq, subject, size in gone:
        naive[subject].remove((seq, size))
        if not naive[subject]:
            del naive[subject]
    index.remove_all(gone)
    if isinstance(index, LogIndex):
        for subject in lost & naive.keys():
            index.set_last(subject, naive[subject][-1][0])


def _agree(index: LogIndex | LastIndex | HistoryIndex, naive: Naive) -> None:
    assert len(index) == len(naive)
    assert sorted(index.items()) == sorted((s, len(r), r[-1][0]) for s, r in naive.items())
    for subject in [*SUBJECTS, b"none"]:
        rows = naive.get(subject, [])
        assert index.count(subject) == len(rows)
        assert index.last(subject) == (rows[-1][0] if rows else 0)
        if isinstance(index, LogIndex):
            assert index.of_subject(subject) == (None if rows else [])
            assert index.rows_of([subject]) == []
        else:
            assert index.of_subject(subject) == rows
            assert index.rows_of([subject]) == [(seq, subject, size) for seq, size in rows]
        assert all(index.is_live(subject, seq) for seq, _ in rows)


def test_a_message_that_was_replaced_is_not_live() -> None:
    for index in (LastIndex(), HistoryIndex()):
        index.add([1, 2], [b"a", b"b"], [10, 10])

        assert not index.is_live(b"a", 2)
        assert not index.is_live(b"c", 1)


def test_a_log_loads_counts_page_by_page() -> None:
    index = LogIndex()
    index.load([(b"a", 2, 5), (b"b", 1, 3)])
    index.load([(b"a", 3, 9)])

    assert sorted(index.items()) == [(b"a", 5, 9), (b"b", 1, 3)]


def test_removing_what_is_unknown_changes_nothing() -> None:
    for limit in (0, 1, 3):
        index = make_index(limit)
        index.add([4], [b"a"], [10])
        index.remove_all([(1, b"x", 10)])

        assert list(index.items()) == [(b"a", 1, 4)]


def test_large_sequences_and_sizes_fit() -> None:
    for limit in (0, 1, 3):
        index = make_index(limit)
        index.add([(1 << 43) + 1], [b"a"], [(32 << 20) + 4000])

        assert index.last(b"a") == (1 << 43) + 1
        assert index.rows_of([b"a"]) in ([], [((1 << 43) + 1, b"a", (32 << 20) + 4000)])


@pytest.mark.parametrize("index", [LastIndex(), HistoryIndex()], ids=["last", "history"])
def test_only_a_log_has_last_sequences(index: LastIndex | HistoryIndex) -> None:
    with pytest.raises(AssertionError):
        index.set_last(b"a", 1)
