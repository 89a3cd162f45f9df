"""The columns of a stream in Spark, and their types in Arrow.

`data` is bytes, text, a parsed value or absent, by the option `payload`.
"""

from typing import TYPE_CHECKING

from pyspark_jetstream.values import InvalidOption

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

TYPES = {
    "stream": "string",
    "subject": "string",
    "seq": "bigint",
    "timestamp": "timestamp",  # microseconds, all that Spark has
    "timestamp_ns": "bigint",  # nanoseconds since the epoch
    "headers": "map<string,array<string>>",
    "data": "binary",
    "size": "bigint",
    "header_block": "binary",  # the headers byte by byte, only if the option columns names it
}
"""Every column in order, with its type as DDL; that of `data` is the one of `payload=binary`."""

_NESTED = ("struct<", "array<", "map<")


def columns_of(payload: str) -> tuple[str, ...]:
    """The columns there are with a kind of payload."""
    return tuple(name for name in TYPES if name != "data" or payload != "none")


def defaults(payload: str) -> tuple[str, ...]:
    """The columns of a query that does not choose."""
    return tuple(name for name in columns_of(payload) if name != "header_block")


def ddl(columns: tuple[str, ...], payload: str, json_schema: str) -> str:
    """The schema as DDL, which Spark parses; a mistake in `json_schema` is told by it."""
    return ", ".join(
        f"{name} {_data_type(payload, json_schema) if name == 'data' else TYPES[name]}"
        for name in columns
    )


def _data_type(payload: str, json_schema: str) -> str:
    if payload == "string":
        return "string"
    if payload != "json":
        return "binary"
    nested = json_schema.lower().replace(" ", "").startswith(_NESTED)
    return json_schema if nested else f"struct<{json_schema}>"


def to_arrow(schema: "StructType") -> "pa.Schema":
    """The Arrow schema that Spark expects of the rows of a schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before PySpark 4.2
        return to_arrow_schema(schema)


def check(schema: "StructType", columns: tuple[str, ...], payload: str) -> None:
    """Refuse a schema that a user gave and that is not made of these columns.

    Some of the columns in another order are fine. Raises InvalidOption.
    """
    for field in schema.fields:
        if field.name not in columns:
            raise InvalidOption("schema", field.name, "some of " + ", ".join(columns))
        found = field.dataType.simpleString()
        if field.name == "data" and payload == "json":
            continue
        expected = _data_type(payload, "") if field.name == "data" else TYPES[field.name]
        if found != expected:
            raise InvalidOption("schema", f"{field.name} {found}", f"{field.name} {expected}")
