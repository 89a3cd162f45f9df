"""Raw rows as rows of the schema: headers, times, text, JSON."""

# Subject: Spark rows

import pytest

from tests.support import spark

spark.require()

import pyarrow as pa  # noqa: E402
from pyspark.sql.types import (  # noqa: E402
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from pyspark_jetstream import headers, schema  # noqa: E402
from pyspark_jetstream.options import JsonOptions  # noqa: E402
from pyspark_jetstream.rows import RowShaper, text  # noqa: E402
from pyspark_jetstream.transport.base import RAW_SCHEMA, Wanted  # noqa: E402
from pyspark_jetstream.transport.errors import JetStreamError  # noqa: E402
from pyspark_jetstream.values import InvalidOption  # noqa: E402

TEXT_LISTS = MapType(StringType(), ArrayType(StringType()))
ALL = StructType(
    [
        StructField("stream", StringType()),
        StructField("subject", StringType()),
        StructField("seq", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestamp_ns", LongType()),
        StructField("headers", TEXT_LISTS),
        StructField("data", BinaryType()),
        StructField("size", LongType()),
    ]
)
MAPS = schema.to_arrow(ALL).field("headers").type


def raw(**columns: list[object]) -> pa.RecordBatch:
    length = max(len(one) for one in columns.values())
    return pa.RecordBatch.from_arrays(
        [pa.array(columns.get(field.name, [None] * length), field.type) for field in RAW_SCHEMA],
        schema=RAW_SCHEMA,
    )


def shaped(kind: StructType, rows: pa.RecordBatch, payload: str = "binary") -> pa.RecordBatch:
    return RowShaper("S", schema.to_arrow(kind), payload).shape(rows)


def test_a_row_has_every_column_of_the_schema() -> None:
    block = b"NATS/1.0\r\nA: 1\r\n\r\n"
    rows = raw(seq=[7], subject=["a.b"], ts=[1_999], headers=[block], data=[b"x"], size=[1])

    batch = shaped(ALL, rows)

    assert batch.schema == schema.to_arrow(ALL)
    (row,) = batch.to_pylist()
    assert row["timestamp"].microsecond == 1  # cut, not rounded
    assert {**row, "timestamp": 0} == {
        "stream": "S",
        "subject": "a.b",
        "seq": 7,
        "timestamp": 0,
        "timestamp_ns": 1_999,
        "headers": [("A", ["1"])],
        "data": b"x",
        "size": 1,
    }


def test_bytes_and_numbers_are_passed_on_without_a_copy() -> None:
    rows = raw(seq=[1, 2], subject=["a", "b"], data=[b"x" * 100, b"y"])
    kind = StructType([ALL["data"], ALL["seq"], ALL["subject"]])

    batch = shaped(kind, rows)

    for name in kind.fieldNames():
        before, after = rows.column(name).buffers(), batch.column(name).buffers()
        assert [one and one.address for one in before] == [one and one.address for one in after]


def test_columns_that_are_not_asked_for_are_not_wanted() -> None:
    shaper = RowShaper("S", schema.to_arrow(StructType([ALL["seq"], ALL["headers"]])), "binary")

    assert shaper.wanted == Wanted(headers=True, data=False, subject=False, ts=False, size=False)


def maps(*blocks: bytes | None) -> list[list[tuple[str, list[str]]] | None]:
    found = headers.as_maps(pa.array(blocks, pa.binary()), MAPS)
    found.validate(full=True)
    assert found.type == MAPS
    values: list[list[tuple[str, list[str]]] | None] = found.to_pylist()
    return values


def test_headers_are_maps_from_names_to_values() -> None:
    assert maps(
        None,
        b"NATS/1.0\r\nA: 1\r\nb:2 3 \r\n\r\n",
        b"NATS/1.0\r\n\r\n",
        b"NATS/1.0\r\nUrl: http://x:1/\r\nEmpty:\r\n\r\n",
    ) == [
        None,
        [("A", ["1"]), ("b", ["2 3"])],
        [],
        [("Url", ["http://x:1/"]), ("Empty", [""])],
    ]


def test_a_header_that_is_there_twice_has_both_values() -> None:
    assert maps(b"NATS/1.0\r\nA: 1\r\nB: 2\r\nA: 3\r\n\r\n", None) == [
        [("A", ["1", "3"]), ("B", ["2"])],
        None,
    ]


def test_headers_that_are_not_utf8_can_be_read() -> None:
    assert maps(b"NATS/1.0\r\nA: \xff\r\n\r\n") == [[("A", ["\ufffd"])]]


def test_no_headers_at_all_are_nulls() -> None:
    assert maps(None, None) == [None, None]


def test_a_slice_of_a_batch_has_its_own_headers() -> None:
    blocks = pa.array([b"NATS/1.0\r\nA: %d\r\n\r\n" % one for one in range(5)], pa.binary())

    found = headers.as_maps(blocks[3:], MAPS)

    assert found.to_pylist() == [[("A", ["3"])], [("A", ["4"])]]


def test_text_that_is_not_utf8_is_null() -> None:
    found = text(pa.array([b"gr\xc3\xbcn", b"gr\xfcn", None, b""], pa.binary()))

    assert found.to_pylist() == ["grün", None, None, ""]


def test_a_corrupt_payload_is_reported_by_its_sequence() -> None:
    kind = StructType([StructField("data", StructType([StructField("a", LongType())]))])
    rows = raw(seq=[4, 9], data=[b'{"a": 1}', b'{"a": "x"}'])
    assert shaped(kind, rows, "json").column("data").to_pylist() == [{"a": 1}, {"a": None}]

    shaper = RowShaper("S", schema.to_arrow(kind), "json", JsonOptions(fail_fast=True))
    with pytest.raises(JetStreamError, match=r"stream 'S', sequence 9: .*member 'a'"):
        shaper.shape(rows)


def test_a_schema_of_the_user_is_made_of_the_columns() -> None:
    columns = schema.columns_of("binary")
    schema.check(StructType([ALL["seq"], ALL["data"]]), columns, "binary")

    with pytest.raises(InvalidOption, match="'seq string', expected seq bigint"):
        schema.check(StructType([StructField("seq", StringType())]), columns, "binary")
    with pytest.raises(InvalidOption, match="expected some of stream"):
        schema.check(StructType([StructField("body", StringType())]), columns, "binary")
