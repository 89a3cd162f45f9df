"""Offsets, splits, shares and filters of the jetstream format, whatever they are made of."""

# Subject: Spark rows

import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tests.support import spark

spark.require()

from pyspark_jetstream import subjects  # noqa: E402
from pyspark_jetstream.options import SplitOptions, batch_options, stream_options  # noqa: E402
from pyspark_jetstream.positions import Position, from_json, to_json  # noqa: E402
from pyspark_jetstream.splits import Span, estimate, even, shares, split_span  # noqa: E402
from pyspark_jetstream.transport.base import Head, bound_by_head  # noqa: E402
from pyspark_jetstream.values import InvalidOption, Values  # noqa: E402

NUMBER = st.integers(0, 2**62)
SUBJECT = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(".".join)
STORED = st.lists(st.sampled_from(["a", "b", "*", ">", ">a"]), min_size=1, max_size=4).map(".".join)
"""A subject that a client may have published on."""
FILTER = (
    st.lists(st.sampled_from(["a", "b", "*", ">"]), min_size=1, max_size=4)
    .map(".".join)
    .filter(subjects.is_filter)
)


@given(
    st.dictionaries(
        st.text(min_size=1),
        st.builds(Position, NUMBER, NUMBER, NUMBER, st.one_of(st.none(), NUMBER)),
    )
)
def test_an_offset_is_what_was_written(offset: dict[str, Position]) -> None:
    assert from_json(to_json(offset)) == offset


@given(
    st.integers(1, 1000),
    st.integers(-1, 1000),
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.builds(
        SplitOptions,
        st.integers(1, 8),
        st.one_of(st.none(), st.integers(1, 50)),
        st.integers(1, 500),
    ),
)
def test_splits_cover_a_span_once_in_order(
    first: int, length: int, messages: int, size: int, options: SplitOptions
) -> None:
    span = Span(first, first + length - 1)

    parts = split_span(span, messages, size, options)

    covered = [seq for part in parts for seq in range(part.first, part.last + 1)]
    assert covered == list(range(span.first, span.last + 1))
    assert all(len(part) for part in parts)
    if parts:
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        enough = max(options.min_partitions, -(-size // options.max_bytes))
        if options.max_messages is not None:
            enough = max(enough, -(-messages // options.max_messages))
        assert len(parts) == min(len(span), enough)


@given(st.integers(0, 100), st.integers(1, 200))
def test_runs_are_even(length: int, parts: int) -> None:
    runs = even(length, parts)

    assert [one for run in runs for one in range(*run)] == list(range(length))


@given(st.integers(0, 1000), st.lists(st.integers(0, 500), max_size=6))
def test_shares_add_up_and_none_exceeds_what_waits(total: int, waiting: list[int]) -> None:
    found = shares(total, waiting)

    assert sum(found) == (total if sum(waiting) else 0)
    exact = [total * one / max(1, sum(waiting)) for one in waiting]
    assert all(abs(one - want) < 1 for one, want in zip(found, exact, strict=True))
    if sum(waiting) >= total:
        assert all(0 <= one <= most for one, most in zip(found, waiting, strict=True))


@given(st.integers(1, 100), st.integers(0, 100), st.integers(0, 100), st.integers(0, 9999))
def test_a_whole_stream_is_estimated_exactly(
    first: int, length: int, messages: int, size: int
) -> None:
    head = Head("S", 1, first, first + length - 1, min(messages, length), size, 0)

    found = estimate(head, Span(head.first_seq, head.last_seq))

    assert found == ((head.messages, head.bytes) if length else (0, 0))


@given(
    st.sets(st.integers(1, 60)),
    st.integers(0, 60),
    st.integers(0, 60),
    st.one_of(st.none(), st.integers(1, 20)),
)
def test_a_bound_by_the_head_holds_no_more_messages_than_asked(
    stored: set[int], after: int, more: int, rows: int | None
) -> None:
    first = min(stored, default=61)
    head = Head("S", 1, first, 60, len(stored), 10 * len(stored), 0)
    last = min(60, after + more)

    bound = bound_by_head(head, after, last, rows, None)

    assert bound <= max(last, after)
    inside = [seq for seq in stored if after < seq <= bound]
    assert rows is None or len(inside) <= rows
    if any(after < seq <= last for seq in stored):
        assert bound > after


def _matches(tokens: list[str], words: list[str]) -> bool:
    """What a filter means, word by word."""
    if not tokens or not words:
        return tokens == words
    if tokens[0] == ">":
        return True
    is_one = tokens[0] == words[0] or (tokens[0] == "*" and words[0] != ">")
    return is_one and _matches(tokens[1:], words[1:])


@given(FILTER, STORED)
def test_a_filter_matches_by_its_tokens(filter_: str, subject: str) -> None:
    expected = _matches(filter_.split("."), subject.split("."))

    assert subjects.matches((filter_,), subject) == expected
    assert bool(re.search(subjects.regex(filter_), subject)) == expected
    if expected:
        assert subject.startswith(subjects.prefix(filter_))


@given(FILTER, FILTER, SUBJECT)
def test_inclusion_and_separation_are_those_of_subjects(one: str, other: str, subject: str) -> None:
    both = subjects.matches((one,), subject), subjects.matches((other,), subject)

    if subjects.includes(one, other):
        assert both[0] or not both[1]
    if subjects.apart(one, other):
        assert both != (True, True)


@given(st.lists(FILTER, max_size=4), SUBJECT)
def test_leaving_out_included_filters_changes_nothing(filters: list[str], subject: str) -> None:
    kept = subjects.checked(tuple(dict.fromkeys(filters)), "filterSubjects")

    assert subjects.matches(kept, subject) == subjects.matches(tuple(filters), subject)


def _refused(read: Callable[[dict[str, str]], object], options: dict[str, str]) -> str:
    """The option that is at fault; empty when all are understood."""
    try:
        read(options)
    except InvalidOption as refused:
        return refused.name
    return ""


@given(
    st.dictionaries(
        st.sampled_from(["stream", "filterSubjects", "startingPosition", "columns", "timeout"]),
        st.text(max_size=20),
    )
)
def test_options_are_understood_or_refused_by_name(options: dict[str, str]) -> None:
    for read in (batch_options, stream_options):
        assert _refused(read, {"dsn": "postgresql:///db", **options}) in {"", "stream", *options}


@given(st.integers(1, 2**40))
def test_a_size_in_bytes_is_itself(size: int) -> None:
    assert Values({"a": str(size)}).size("a") == size
    assert Values({"a": f"{size}KiB"}).size("a") == size * 1024
