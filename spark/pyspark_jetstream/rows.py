"""Conversion of Arrow batches that a transport reads to rows of the query's schema.

Whole columns are converted, and copied only if necessary. Numbers, subjects and binary payloads are
unchanged. Text that is not UTF-8 becomes null; JSON is parsed with the rules of `from_json`.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_jetstream import headers
from pyspark_jetstream.options import JsonOptions
from pyspark_jetstream.payloads.columns import CorruptPayload, JsonColumns
from pyspark_jetstream.transport.base import Wanted
from pyspark_jetstream.transport.errors import JetStreamError


class RowShaper:
    """Converter of a transport's batches of one stream to batches of the query's schema.

    Args:
        stream: Name of the stream, for the column `stream`.
        schema: The Arrow schema that Spark expects; its names are columns of `schema.TYPES`.
        payload: Option `payload`: `binary`, `string`, `json` or `none`.
        json: Options of parsing JSON payloads; None for the defaults.
    """

    def __init__(
        self, stream: str, schema: pa.Schema, payload: str, json: JsonOptions | None = None
    ) -> None:
        self._stream = stream
        self._schema = schema
        self._payload = payload
        self._json: JsonColumns | None = None
        if payload == "json" and "data" in schema.names:
            self._json = JsonColumns(schema.field("data").type, json or JsonOptions())

    @property
    def wanted(self) -> Wanted:
        """The parts of a message that the schema needs; the transport reads only these."""
        names = self._schema.names
        return Wanted(
            headers="headers" in names or "header_block" in names,
            data="data" in names,
            subject="subject" in names,
            ts="timestamp" in names or "timestamp_ns" in names,
            size="size" in names,
        )

    def shape(self, rows: pa.RecordBatch, up_to: int = 0) -> pa.RecordBatch:
        """Return a batch with the columns of the schema.

        Args:
            rows: A batch that the transport read.
            up_to: The last sequence of the state that `asOf` names; the column `is_later` is true
                for messages with higher sequences.
        """
        columns = [
            pc.greater(rows.column("seq"), up_to)
            if field.name == "is_later"
            else self._column(field, rows)
            for field in self._schema
        ]
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows.num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, field: pa.Field, rows: pa.RecordBatch) -> pa.Array:
        match field.name:
            case "stream":
                return _constant_column(self._stream, rows.num_rows)
            case "timestamp":
                # The cast to nanoseconds is free; the second cast cuts to microseconds.
                exact = rows.column("ts").cast(pa.timestamp("ns", "UTC"))
                return exact.cast(field.type, safe=False)
            case "timestamp_ns":
                return rows.column("ts")
            case "headers":
                return headers.as_maps(rows.column("headers"), field.type)
            case "header_block":
                return rows.column("headers")
            case "data" if self._payload == "string":
                return text(rows.column("data"))
            case "data" if self._json is not None:
                return self._parsed(self._json, rows)
            case name:
                return rows.column(name)

    def _parsed(self, json: JsonColumns, rows: pa.RecordBatch) -> pa.Array:
        """Parse JSON payloads. In mode FAILFAST, raises JetStreamError with the sequence of a bad
        payload.
        """
        try:
            return json.parse(rows.column("data"))
        except CorruptPayload as error:
            seq = rows.column("seq")[error.place].as_py()
            raise JetStreamError(
                f"stream {self._stream!r}, sequence {seq}: the payload is no JSON of the schema: "
                f"{error.reason} (jsonMode=FAILFAST)"
            ) from None


def _constant_column(value: str, count: int) -> pa.Array:
    """Return a column that repeats one text.

    `pa.scalar` would import pandas, which takes longer than most tasks.
    """
    data = value.encode()
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    one = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(data)])
    return pa.repeat(one[0], count)


def text(column: pa.Array) -> pa.Array:
    """Convert a column of bytes to text; a value that is not UTF-8 becomes null."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text_or_none(one) for one in column.to_pylist()], pa.string())


def _text_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
