"""Conditions at the source and in Spark give, together, what the conditions say."""

# Subject: Spark rows

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support import spark

spark.require()

from pyspark.sql import datasource as pushed  # noqa: E402
from pyspark_jetstream import subjects  # noqa: E402
from pyspark_jetstream.pushdown import Narrowed, narrow  # noqa: E402

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SUBJECTS = ["a", "b", "a.a", "a.b", "b.a", "a.a.b", "a.*", "b.>", "a b"]
STREAMS = ("S", "T")


@dataclass(frozen=True)
class Row:
    stream: str
    subject: str
    seq: int
    timestamp_ns: int

    @property
    def timestamp(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.timestamp_ns // 1000)


ROW = st.builds(
    Row,
    st.sampled_from(STREAMS),
    st.sampled_from(SUBJECTS),
    st.integers(1, 20),
    st.integers(0, 10_000),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "stream": st.sampled_from([*STREAMS, "U"]),
    "subject": st.sampled_from([*SUBJECTS, "a.", "", "a.>", "*"]),
    "seq": st.integers(-1, 22),
    "timestamp_ns": st.integers(-1, 11_000),
    "timestamp": st.integers(-1, 11).map(lambda us: _EPOCH + timedelta(microseconds=us)),
}


def _comparison(kind: Any) -> st.SearchStrategy[Any]:
    def of(column: str) -> st.SearchStrategy[Any]:
        value = VALUES[column]
        if kind is pushed.In:
            value = st.lists(value, max_size=3).map(tuple)
        return value.map(lambda one: kind((column,), one))

    columns = ["subject"] if kind is pushed.StringStartsWith else sorted(VALUES)
    return st.sampled_from(columns).flatmap(of)


FILTER = st.one_of(
    *(
        _comparison(kind)
        for kind in (
            pushed.EqualTo,
            pushed.EqualNullSafe,
            pushed.GreaterThan,
            pushed.GreaterThanOrEqual,
            pushed.LessThan,
            pushed.LessThanOrEqual,
            pushed.In,
            pushed.StringStartsWith,
        )
    ),
    st.sampled_from(sorted(VALUES)).map(lambda column: pushed.IsNotNull((column,))),
    st.sampled_from(sorted(VALUES)).map(lambda column: pushed.IsNull((column,))),
    VALUES["seq"].map(lambda seq: pushed.Not(pushed.EqualTo(("seq",), seq))),
)
KNOWN = st.sampled_from([(), ("a.>",), ("a.*", "b"), ("*.a", "a"), ("a.a", "b.>")])


def holds(one: Any, row: Row) -> bool:
    """What a filter says of a row."""
    if isinstance(one, pushed.Not):
        return not holds(one.child, row)
    found = getattr(row, one.attribute[0])
    match type(one).__name__:
        case "EqualTo" | "EqualNullSafe":
            return bool(found == one.value)
        case "GreaterThan":
            return bool(found > one.value)
        case "GreaterThanOrEqual":
            return bool(found >= one.value)
        case "LessThan":
            return bool(found < one.value)
        case "LessThanOrEqual":
            return bool(found <= one.value)
        case "In":
            return found in one.value
        case "StringStartsWith":
            return str(found).startswith(one.value)
        case kind:
            return kind == "IsNotNull"


def is_left(what: Narrowed, row: Row) -> bool:
    """Whether the source gives a row."""
    return (
        row.stream in what.streams
        and what.first <= row.seq <= what.last
        and what.begin <= row.timestamp_ns < what.end
        and what.filters is not None
        and subjects.matches(what.filters, row.subject)
    )


@given(st.lists(ROW, max_size=30), st.lists(FILTER, max_size=4), KNOWN)
def test_nothing_is_lost_and_nothing_is_added(
    rows: list[Row], filters: list[Any], known: tuple[str, ...]
) -> None:
    everything = [row for row in rows if subjects.matches(known, row.subject)]

    what, rest = narrow(Narrowed(STREAMS, known), filters)

    left = [row for row in rows if is_left(what, row)]
    assert [row for row in left if all(holds(one, row) for one in rest)] == [
        row for row in everything if all(holds(one, row) for one in filters)
    ]


@given(st.lists(FILTER, max_size=4))
def test_filters_left_to_spark_are_those_it_gave(filters: list[Any]) -> None:
    _, rest = narrow(Narrowed(STREAMS, ()), filters)

    assert all(any(one is given_ for given_ in filters) for one in rest)
