"""Reduction of a batch of messages to the latest one of each subject.

A delete marker of a key-value bucket counts as a message; its row is marked as deleted."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

READ = ("subject", "seq", "timestamp", "timestamp_ns", "headers", "data")


def latest(rows: "DataFrame", deletes: str) -> "DataFrame":
    """Return one row for each subject: its last message.

    The column `messages` is the number of the subject's messages in the batch. The column `deleted`
    is true if the last message has the header `KV-Operation: DEL` or `PURGE`, or is the marker that
    a server writes for an expired message (`Nats-Marker-Reason`).

    Args:
        rows: Messages with at least `subject`, `seq` and `headers`.
        deletes: `remove`, or `keep`: `deleted` is always false.
    """
    from pyspark.sql import functions as f

    others = [name for name in rows.columns if name != "subject"]
    newest = rows.groupBy("subject").agg(
        f.max_by(f.struct(*others), "seq").alias("newest"), f.count("*").alias("messages")
    )
    flat = newest.select(
        "subject", *(f.col(f"newest.{name}").alias(name) for name in others), "messages"
    )
    if deletes == "keep":
        return flat.withColumn("deleted", f.lit(False))
    operation = f.element_at(f.col("headers")["KV-Operation"], 1)
    marker = f.col("headers")["Nats-Marker-Reason"].isNotNull()
    gone = f.coalesce(operation.isin("DEL", "PURGE"), f.lit(False)) | f.coalesce(
        marker, f.lit(False)
    )
    return flat.withColumn("deleted", gone)


def as_table(rows: "DataFrame", flat: bool) -> "DataFrame":
    """Return rows in the form of a target table: the fields of a struct `data` become columns.

    Args:
        rows: Rows with `data`.
        flat: True to convert nested values to JSON text, for tables without such types.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    own = ("data", "headers", "messages")
    columns = [f.col(name) for name in rows.columns if name not in own]
    kind = rows.schema["data"].dataType
    if isinstance(kind, StructType):
        for field in kind.fields:
            value = f.col("data").getField(field.name)
            if flat and isinstance(field.dataType, ArrayType | MapType | StructType):
                value = f.to_json(value)
            name = f"data_{field.name}" if field.name in rows.columns else field.name
            columns.append(value.alias(name))
        return rows.select(*columns)
    return rows.select(*columns, "data")
