"""Spark's `from_json` is the judge of what the option `payload=json` reads.

`python -m tests.spark.test_json_payloads` records its answers for tests without Spark.
"""

# Subject: Spark rows

from typing import TYPE_CHECKING, Any

import pytest

from tests.support import spark as support

support.require()

import pyarrow as pa  # noqa: E402
from pyspark.sql.types import StructField, StructType  # noqa: E402
from pyspark_jetstream.options import schema_text  # noqa: E402
from pyspark_jetstream.schema import check  # noqa: E402

from tests.spark.feeds import Feed  # noqa: E402
from tests.support.json_inputs import TYPES, comparable, record, recorded  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def answers(spark: "SparkSession") -> dict[str, dict[bytes, str]]:
    """What `from_json` gives for each payload of the recording."""
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    found = {}
    for name, payloads in recorded().items():
        kind: Any = from_arrow_schema(pa.schema([("v", TYPES[name])]))["v"].dataType
        rows = [(place, bytearray(payload)) for place, payload in enumerate(payloads)]
        frame = spark.createDataFrame(rows, "place int, payload binary").coalesce(1)
        parsed = frame.select(
            "place", f.from_json(f.col("payload").cast("string"), kind).alias("v")
        )
        values = parsed.orderBy("place").toArrow().column("v").combine_chunks()
        found[name] = dict(zip(payloads, comparable(values), strict=True))
    return found


def test_the_recording_is_what_spark_answers(spark: "SparkSession") -> None:
    assert answers(spark) == recorded()


def test_a_query_reads_payloads_as_from_json_does(
    spark: "SparkSession", feed: Feed, options: dict[str, str]
) -> None:
    """Of a stream, through the whole source, with and without the field for corrupt payloads."""
    from pyspark.sql import functions as f

    payloads = [one for one in recorded()["corrupt"] if b"\xff" not in one]
    feed.publish([("a", payload, b"") for payload in payloads])
    schema = "id bigint, at timestamp, bad string"
    named = {"columnNameOfCorruptRecord": "bad"}
    read = spark.read.format("jetstream").options(**options)
    texts = read.option("payload", "string").load().orderBy("seq")
    expected = texts.select(f.from_json("data", schema, named).alias("data")).toArrow()

    parsed = read.options(payload="json", jsonSchema=schema, **named).load().orderBy("seq")

    found = parsed.select("data").toArrow()
    assert comparable(found.column(0).combine_chunks()) == comparable(
        expected.column(0).combine_chunks()
    )


@pytest.mark.parametrize("schema", ["_corrupt_record string", "struct<>", "x struct<>"])
def test_a_schema_without_a_field_to_read_loses_no_row(
    spark: "SparkSession", feed: Feed, options: dict[str, str], schema: str
) -> None:
    feed.publish([("a", b'{"x": {}}', b""), ("a", b'{"x": {"y": 2}}', b"")])
    read = spark.read.format("jetstream").options(**options, payload="json", jsonSchema=schema)

    assert read.option("columns", "data").load().count() == 2
    assert len(read.option("columns", "seq,data").load().collect()) == 2


def test_a_type_that_is_taken_is_one_of_spark(spark: "SparkSession") -> None:
    texts = [
        "a: INT NOT NULL COMMENT 'it is', `b-c` String",
        "struct<a: int, b: struct<>>",
        "array<map<string, decimal(10,2)>>",
        "map string, array timestamp_ntz",
        "`é2` dec, _x numeric(3)",
        "a byte, b short, c long, d real, e double, f date, g timestamp, h boolean, i binary",
        "j void",
    ]
    for text in texts:
        schema = schema_text({"payload": "json", "jsonSchema": text, "columns": "data"})
        kind = spark.createDataFrame([], schema).schema["data"].dataType
        check(StructType([StructField("data", kind)]), ("data",), "json")


def test_a_corrupt_payload_ends_a_query_that_is_to_fail_fast(
    spark: "SparkSession", feed: Feed, options: dict[str, str]
) -> None:
    feed.publish([("a", b'{"id": 1}', b""), ("a", b'{"id": "x"}', b"")])
    read = spark.read.format("jetstream").options(**options, payload="json", jsonSchema="id bigint")

    with pytest.raises(Exception, match=rf"{feed.name}.*sequence 2.*'id'.*FAILFAST"):
        read.option("jsonMode", "FAILFAST").load().collect()


if __name__ == "__main__":
    record(answers(support.session({})))
