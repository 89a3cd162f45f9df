"""The columns of a read, and their types in Spark and Arrow.

The option `payload` decides the type of `data`: bytes, text, a parsed JSON value, or no column.
"""

from typing import TYPE_CHECKING, Any

from pyspark_jetstream.values import InvalidOption

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

TYPES = {
    "stream": "string",
    "subject": "string",
    "seq": "bigint",
    "timestamp": "timestamp",  # microseconds, the finest resolution of Spark
    "timestamp_ns": "bigint",  # nanoseconds since the epoch
    "headers": "map<string,array<string>>",
    "data": "binary",
    "size": "bigint",
    "header_block": "binary",  # the headers byte for byte, only if the option columns names it
    "is_later": "boolean",  # with asOf: true for a later message than that of the time
}
"""All columns of a read in order, with their types as DDL; `data` has the type of
`payload=binary`.
"""

_JSON = frozenset(
    ("boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string")
) | {"binary", "date", "timestamp", "timestamp_ntz", "void"}
"""Types of the members of JSON payloads, by their PySpark names."""


def columns_of(payload: str, *, as_of: bool = False) -> tuple[str, ...]:
    """Return the columns that a read can have.

    Args:
        payload: Option `payload`: `binary`, `string`, `json` or `none`.
        as_of: True if the query has the option `asOf`, which adds `is_later`.
    """
    absent = {"data": payload == "none", "is_later": not as_of}
    return tuple(name for name in TYPES if not absent.get(name, False))


def defaults(payload: str, *, as_of: bool = False) -> tuple[str, ...]:
    """Return the columns of a read that does not set the option `columns`.

    The arguments are those of `columns_of`.
    """
    return tuple(name for name in columns_of(payload, as_of=as_of) if name != "header_block")


def ddl(columns: tuple[str, ...], payload: str, json_ddl: str) -> str:
    """Return the columns of a read as DDL text for Spark.

    Args:
        columns: Names of the columns, in order.
        payload: Option `payload`: `binary`, `string`, `json` or `none`.
        json_ddl: DDL type of `data` if `payload` is `json`, else unused.
    """
    return ", ".join(
        f"{name} {_data_type(payload, json_ddl) if name == 'data' else TYPES[name]}"
        for name in columns
    )


def _data_type(payload: str, json_ddl: str) -> str:
    return {"string": "string", "json": json_ddl}.get(payload, "binary")


def to_arrow(schema: "StructType") -> "pa.Schema":
    """Convert a Spark schema to the Arrow schema that Spark expects for its rows."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before PySpark 4.2
        return to_arrow_schema(schema)


def check(schema: "StructType", columns: tuple[str, ...], payload: str) -> None:
    """Check a schema that the user gave: each column exists and has its type; any order is valid.

    Raises InvalidOption for a column that does not.

    Args:
        schema: The schema of the user.
        columns: Names of the existing columns.
        payload: Option `payload`: `binary`, `string`, `json` or `none`.
    """
    for field in schema.fields:
        if field.name not in columns:
            raise InvalidOption("schema", field.name, "some of " + ", ".join(columns))
        found = field.dataType.simpleString()
        if field.name == "data" and payload == "json":
            _check_json(field.dataType, found)
            continue
        expected = _data_type(payload, "") if field.name == "data" else TYPES[field.name]
        if found != expected:
            raise InvalidOption("schema", f"{field.name} {found}", f"{field.name} {expected}")


def _check_json(kind: "DataType", shown: str) -> None:
    """Check that JSON payloads can have the type `kind`. Raises InvalidOption if they cannot."""
    waiting: list[Any] = [kind]
    if kind.typeName() not in ("struct", "array", "map"):
        raise InvalidOption("schema", f"data {shown}", "data of a struct, an array or a map")
    while waiting:
        one = waiting.pop()
        match one.typeName():
            case "struct":
                waiting += [field.dataType for field in one.fields]
            case "array":
                waiting.append(one.elementType)
            case "map" if one.keyType.typeName() == "string":
                waiting.append(one.valueType)
            case name if name not in _JSON:
                raise InvalidOption("schema", f"data {shown}", f"no {one.simpleString()} in data")
