"""JSON payloads: Arrow, where it reads them, gives what the reader of single payloads gives."""

# Subject: Spark rows

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

import pyarrow as pa
from pyspark_jetstream.options import JsonOptions
from pyspark_jetstream.payloads.columns import JsonColumns

from tests.support.json_inputs import TYPES, comparable

NAMES = sorted({name for kind in TYPES.values() if pa.types.is_struct(kind) for name in kind.names})
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-200, 300),
    st.floats(),
    st.text(max_size=5),
    st.datetimes().map(lambda moment: moment.isoformat()),
    st.sampled_from(
        ["2026-01-02T03:04:05.123456789Z", "2026-01-02 03:04:05+01:00", "2026-01-02", "YWJj", "7.5"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*NAMES, "a", "b", "x"]), inner, max_size=4),
    ),
    max_leaves=8,
)
WHOLE = st.one_of(
    st.dictionaries(st.sampled_from([*NAMES, "x"]), VALUES, max_size=5),
    st.lists(VALUES, max_size=3),
)
EDITS = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.sampled_from([*list('{}[]",:\\0-+.eE tInfNaN\n\t\x00'), "", "\\u00"]),
    ),
    max_size=2,
)


def payload(value: Any, edits: list[tuple[int, str]]) -> bytes:
    """A value as JSON, with some characters replaced."""
    text = json.dumps(value, ensure_ascii=False)
    for at, char in edits:
        at %= len(text) + 1
        text = text[:at] + char + text[at + 1 :]
    return text.encode("utf-8", "surrogatepass")


@given(
    st.sampled_from(sorted(TYPES)),
    st.lists(st.builds(payload, WHOLE, EDITS), min_size=1, max_size=6),
)
def test_no_answer_depends_on_what_reads_it(name: str, payloads: list[bytes]) -> None:
    columns = JsonColumns(TYPES[name], JsonOptions())
    rows = pa.array(payloads, pa.binary())

    together = columns.parse(rows)

    together.validate(full=True)
    assert comparable(together) == comparable(columns._one_by_one(rows, 0))
    for one, text in zip(rows, comparable(together), strict=True):
        alone = columns._at_once(pa.array([one.as_py()], pa.binary()))
        assert alone is None or comparable(alone) == [text]
