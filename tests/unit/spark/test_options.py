"""The options of the jetstream format: what they become, and what is refused."""

# Subject: Spark rows

import re

import pytest

from tests.support import spark

spark.require()

from pyspark_jetstream.options import (  # noqa: E402
    KNOWN,
    WRITE,
    batch_options,
    schema_text,
    stream_options,
)
from pyspark_jetstream.positions import Place  # noqa: E402
from pyspark_jetstream.values import InvalidOption  # noqa: E402

LEAST = {"dsn": "postgresql://reader@/db", "stream": "ORDERS"}


def test_few_options_are_required() -> None:
    options = batch_options(LEAST)

    assert options.streams == ("ORDERS",)
    assert options.connection.transport == "sql"
    assert options.connection.account == "$G"
    assert options.start == {"": Place("earliest")}
    assert options.end == {"": Place("latest")}
    assert stream_options(LEAST).start == {"": Place("latest")}


@pytest.mark.parametrize(
    ("option", "value", "wording"),
    [
        ("startingPositions", "latest", "did you mean startingPosition"),
        ("startingPosition", "seq:", "option 'startingPosition' is 'seq:', expected one of"),
        ("startingPosition", "time:yesterday", "time:RFC3339"),
        ("startingPosition", '{"OTHER": 1}', "option 'startingPosition' is 'OTHER'"),
        ("endingPosition", "earliest", "expected one of latest, seq:N"),
        ("filterSubjects", "orders..new", "option 'filterSubjects' is 'orders..new'"),
        ("filterSubjects", "orders.>.new", "expected subjects such as"),
        ("columns", "seq,body", "option 'columns' is 'body', expected some of stream, subject"),
        ("payload", "xml", "one of binary, string, json, none"),
        ("payload", "json", "option 'jsonSchema' is not set, expected fields such as"),
        ("jsonSchema", "a int", "none without payload=json"),
        ("maxMessagesPerTrigger", "10", "to be left out here: it is an option of spark.readStream"),
        ("failOnDataLoss", "maybe", "one of true, false, strict"),
        ("minPartitions", "0", "a whole number of at least 1"),
    ],
)
def test_a_mistake_is_reported_with_what_was_expected(
    option: str, value: str, wording: str
) -> None:
    with pytest.raises(InvalidOption, match=wording.replace("(", r"\(")):
        batch_options({**LEAST, option: value})


@pytest.mark.parametrize("option", ["endingPosition", "asOf", "pushdown"])
def test_options_of_batches_are_refused_in_a_stream(option: str) -> None:
    with pytest.raises(InvalidOption, match=r"it is an option of spark\.read$"):
        stream_options({**LEAST, option: "latest"})


def test_a_stream_and_a_connection_are_needed() -> None:
    with pytest.raises(InvalidOption, match="option 'stream' is not set"):
        batch_options({"dsn": "postgresql:///db"})
    with pytest.raises(InvalidOption, match="option 'dsn or servers' is not set"):
        batch_options({"stream": "S"})


def test_a_filter_that_another_includes_is_left_out() -> None:
    found = batch_options({**LEAST, "filterSubjects": "a.b, a.>, a.*.c, b"})

    assert found.filters == ("a.>", "b")


def test_missing_sequences_look_like_subjects_that_do_not_match() -> None:
    with pytest.raises(InvalidOption, match="failOnDataLoss"):
        batch_options({**LEAST, "failOnDataLoss": "strict", "filterSubjects": "a.>"})


def test_positions_are_reported_per_stream_as_json() -> None:
    text = '{"A": 7, "B": "time:1970-01-01T00:00:01Z"}'
    found = batch_options({**LEAST, "stream": "A,B,C", "startingPosition": text})

    assert found.start == {"A": Place("seq", 7), "B": Place("time", 1_000_000_000)}


def test_the_schema_follows_payload_and_columns() -> None:
    assert schema_text({}).startswith("stream string, subject string, seq bigint, timestamp ")
    assert schema_text({"columns": "seq,DATA", "payload": "string"}) == "seq bigint, data string"
    assert "data" not in schema_text({"payload": "none"})
    parsed = schema_text({"payload": "json", "jsonSchema": "a int, b string", "columns": "data"})
    assert parsed == "data struct<a int, b string>"
    parsed = schema_text({"payload": "json", "jsonSchema": "array<int>", "columns": "data"})
    assert parsed == "data array<int>"


@pytest.mark.parametrize(
    ("text", "ddl"),
    [
        ("a int, b string", "struct<a int, b string>"),
        ("a: INT NOT NULL COMMENT 'it is', `b-c` String", "struct<a int, `b-c` string>"),
        ("struct<a: int, b: struct<>>", "struct<a int, b struct<>>"),
        ("array<map<string, decimal(10,2)>>", "array<map<string, decimal(10, 2)>>"),
        ("map string, array timestamp_ntz", "struct<map string, array timestamp_ntz>"),
        ("`é2` dec, _x numeric(3)", "struct<`é2` dec, _x numeric(3)>"),
    ],
)
def test_a_type_of_payloads_is_what_spark_parses(text: str, ddl: str) -> None:
    """`tests/spark/test_json_payloads.py` asks Spark about these, too."""
    found = schema_text({"payload": "json", "jsonSchema": text, "columns": "data"})

    assert found == f"data {ddl}"


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("bigint", "it is the type 'bigint' alone"),
        ("decimal(10,2)", "it is the type 'decimal(10,2)' alone"),
        ("a foo", "it has 'foo' as the type of field a"),
        ("a char(5)", "it has 'char' as the type of field a"),
        ("a interval", "it has 'interval' as the type of field a"),
        ("a-b int", "it has '-' as the type of field a"),
        ("7 int", "it has '7' for a field's name, which takes backticks"),
        ("é int", "it has 'é' for a field's name, which takes backticks"),
        ("a int b int", "it has 'b' where it should end"),
        ("a int,", "it ends early"),
        ("struct<a int", "it lacks '>' behind the field a"),
        ("array<int", "it lacks '>' behind array"),
        ("map<int, string>", "whose keys are not string"),
        ("map<string>", "lacks the type of the values"),
        ("a decimal(50, 2)", "it has decimal of 50 digits, 2 behind the point"),
        ("a decimal(x)", "without its digits, such as decimal(10, 2)"),
        ("a int, a int", "it has the field a twice"),
    ],
)
def test_an_invalid_type_of_payloads_is_named(text: str, wording: str) -> None:
    with pytest.raises(InvalidOption) as told:
        schema_text({"payload": "json", "jsonSchema": text})

    assert wording in str(told.value)


def test_the_readme_has_every_option() -> None:
    page = (spark.ROOT / "spark/README.md").read_text()
    table = page.partition("## Options")[2].partition("\n## ")[0].partition("| column |")[0]
    cells = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)

    named = {name for cell in cells for name in re.findall(r"`(\w[\w.]*)`", cell)}

    assert named == {*KNOWN, *WRITE}


def test_no_secret_is_in_what_options_print() -> None:
    found = batch_options({**LEAST, "dsn": "postgresql://reader:s3cret@/db"})

    assert "s3cret" not in repr(found)
