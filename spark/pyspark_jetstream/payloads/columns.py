"""Payloads as a column of a type: whole batches by Arrow, single ones in Python where it differs.

What both give is what Spark's `from_json` gives. A batch that Arrow does not take, or would take
otherwise, is halved until the payloads at fault are few; these are read one by one.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pajson

from pyspark_jetstream.options import JsonOptions
from pyspark_jetstream.payloads.base64 import base64_bytes
from pyspark_jetstream.payloads.rows import RowReader, unexpected
from pyspark_jetstream.payloads.tokens import MAX_DEPTH, MAX_DIGITS, MAX_NAME

_KEY = "v"
_FEW = 64
"""So few payloads are not halved any more: to call Arrow takes as long as to read some of them."""
_UTC = ("UTC", "Z", "+00:00", "GMT", "UT")

_WITH_ZONE = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"
_DAY_ALONE = r"^(\d{4}-\d\d-\d\d)$"
_CLOCK_ALONE = r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?)$"
_WITHOUT_ZONE = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d{1,6})?)?$"
_DAY = r"^\d{4}-\d\d-\d\d([T ].*)?$"
_ODD_INFINITY = r"[:\[,][ \t\r\n]*-?Inf[^i]"
"""What Arrow reads as a number and Spark does not."""
_LONG_NUMBER = rf"[-+.0-9eE]{{{MAX_DIGITS}}}[-+.0-9eE]"
_END_OF_NAME = re.compile(rb'"[ \t\n\r]*:')
_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_OPENED, _CLOSED = np.frombuffer(b"[{", np.uint8), np.frombuffer(b"]}", np.uint8)


class CorruptPayload(ValueError):
    """A payload is no JSON of the type, and the mode is FAILFAST.

    Args:
        place: Which payload, from 0 on.
        reason: What is wrong with it.
    """

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place, self.reason = place, reason


class _Otherwise(Exception):
    """Arrow would read something of these payloads otherwise than Spark."""


class JsonColumns:
    """Reads payloads as a column.

    Args:
        kind: The type: a struct, a list or a map.
        options: How payloads are read.
    """

    def __init__(self, kind: pa.DataType, options: JsonOptions) -> None:
        self._kind, self._options = kind, options
        self._corrupt = -1
        self._parsed = kind
        if pa.types.is_struct(kind):
            self._corrupt = kind.get_field_index(options.corrupt)
            if self._corrupt >= 0:
                self._parsed = pa.struct([one for one in kind if one.name != options.corrupt])
        self._rows = RowReader(self._parsed, options.zone)
        self._raw = _raw(self._parsed)

    def parse(self, payloads: pa.Array) -> pa.Array:
        """The values of a column of bytes. Raises CorruptPayload in the mode FAILFAST."""
        return self._parse(payloads, 0)

    def _parse(self, payloads: pa.Array, first: int) -> pa.Array:
        if not len(payloads):
            return pa.nulls(0, self._kind)
        parsed = self._at_once(payloads)
        if parsed is not None:
            return parsed
        if len(payloads) <= _FEW or self._raw is None:
            return self._one_by_one(payloads, first)
        half = len(payloads) // 2
        return pa.concat_arrays(
            [self._parse(payloads[:half], first), self._parse(payloads[half:], first + half)]
        )

    def _one_by_one(self, payloads: pa.Array, first: int) -> pa.Array:
        texts = [
            None if payload is None else payload.decode("utf-8", "replace")
            for payload in payloads.to_pylist()
        ]
        values: list[Any] = []
        for place, text in enumerate(texts, first):
            value, reason = (None, "") if text is None else self._rows.read(text)
            values.append(self._marked(value, reason, text, place))
        try:
            return pa.array(values, self._kind)
        except Exception:
            rows = enumerate(zip(values, texts, strict=True), first)
            return pa.concat_arrays([self._alone(*row, place) for place, row in rows])

    def _marked(self, value: Any, reason: str, text: str | None, place: int) -> Any:
        """A value with the field for corrupt payloads. Raises CorruptPayload in mode FAILFAST."""
        if reason and self._options.fail_fast:
            raise CorruptPayload(place, reason)
        if self._corrupt >= 0 and value is not None:
            value[self._options.corrupt] = text if reason else None
        return value

    def _alone(self, value: Any, text: str | None, place: int) -> pa.Array:
        """A column of one value; a value that Arrow does not take is a corrupt payload."""
        try:
            return pa.array([value], self._kind)
        except Exception as error:
            nothing = self._marked(self._rows.nothing(), unexpected(error), text, place)
            return pa.array([nothing], self._kind)

    def _at_once(self, payloads: pa.Array) -> pa.Array | None:
        """All values by Arrow; None when it gives none, or others than Spark."""
        if self._raw is None:
            return None
        try:
            texts = payloads.cast(pa.string())
            parsed = _parse_all(texts, self._raw)
            if parsed is None or parsed.null_count != texts.null_count:
                return None
            converted = _converted(parsed, self._parsed, self._options.zone in _UTC)
        except Exception:  # the reader of single payloads finds the one at fault, and names it
            return None
        if self._corrupt < 0:
            return converted
        fields = converted.flatten()
        fields.insert(self._corrupt, pa.nulls(len(converted), pa.string()))
        return _struct(fields, self._kind, converted)


def _raw(kind: pa.DataType) -> pa.DataType | None:
    """The type that Arrow reads, to be converted afterwards; None where it reads none such."""
    types = pa.types
    if types.is_struct(kind):
        fields = [(one.name, _raw(one.type)) for one in kind]
        # Arrow tells members that are there twice by their name.
        known = all(one is not None for _, one in fields)
        return pa.struct(fields) if known and len(dict(fields)) == len(fields) else None
    if types.is_list(kind):
        element = _raw(kind.value_type)
        return None if element is None else pa.list_(element)
    if types.is_map(kind) or types.is_null(kind):
        return None
    return pa.string() if types.is_temporal(kind) or types.is_binary(kind) else kind


def _parse_all(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """All values, or None when one of them cannot be parsed.

    Each payload becomes a line `{"v": payload}`. After the brace that closes it, JSON can only go
    on with another value on the top level, so that no payload can take part of the next one, and
    as many values as payloads are one value for each.
    """
    column = pc.if_else(texts.is_valid(), texts, "null")
    lines = pc.binary_join_element_wise(f'{{"{_KEY}":', column, "}\n", "")
    if _has_limits_of_jackson(lines):
        return None
    data = _contiguous(lines)
    if (
        b"Inf" in memoryview(data).tobytes()
        and pc.any(pc.match_substring_regex(lines, _ODD_INFINITY)).as_py()
    ):
        return None
    table = pajson.read_json(
        pa.BufferReader(data),
        read_options=pajson.ReadOptions(use_threads=False, block_size=data.size + 1),
        parse_options=pajson.ParseOptions(
            explicit_schema=pa.schema([(_KEY, kind)]),
            newlines_in_values=True,
            unexpected_field_behavior="ignore",
        ),
    )
    if table.num_rows != len(texts):
        return None
    return table.column(_KEY).combine_chunks()


def _has_limits_of_jackson(lines: pa.Array) -> bool:
    """Whether a line may have more levels, a longer number or a longer name than Jackson takes."""
    if pc.max(pc.binary_length(lines)).as_py() <= MAX_DIGITS:
        return False
    long = lines.filter(pc.greater(pc.binary_length(lines), MAX_DIGITS))
    if pc.any(pc.match_substring_regex(long, _LONG_NUMBER)).as_py():
        return True
    opened = pc.add(pc.count_substring(long, "["), pc.count_substring(long, "{"))
    for line in long.filter(pc.greater(opened, MAX_DEPTH)):
        steps = np.frombuffer(line.as_buffer(), np.uint8)
        # Brackets within texts count as well: such a line may be read one by one for nothing.
        ups = np.isin(steps, _OPENED).astype(np.int32) - np.isin(steps, _CLOSED)
        if ups.cumsum().max() > MAX_DEPTH:
            return True
    very_long = long.filter(pc.greater(pc.binary_length(long), MAX_NAME))
    return any(_has_long_name(line.as_buffer()) for line in very_long)


def _has_long_name(line: pa.Buffer) -> bool:
    """Whether the name of a member may be longer than Jackson takes."""
    text = memoryview(line).tobytes()
    quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == _QUOTE)
    # A quote behind a backslash may be part of a text: it ends a name here, and begins none.
    begins = quotes[[not at or text[at - 1] != _BACKSLASH for at in quotes]]
    for match in _END_OF_NAME.finditer(text):
        place = int(np.searchsorted(begins, match.start()))
        if place and match.start() - int(begins[place - 1]) > MAX_NAME:
            return True
    return False


def _contiguous(lines: pa.Array) -> pa.Buffer:
    """The bytes of a column of text without nulls, one value after the other."""
    offsets, data = lines.buffers()[1:]
    ends = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, offsets], offset=lines.offset)
    return data.slice(ends[0].as_py(), ends[-1].as_py() - ends[0].as_py())


def _struct(columns: list[pa.Array], kind: pa.DataType, like: pa.Array) -> pa.Array:
    """Columns as structs, as many and null where those of `like` are; there may be no columns."""
    if columns:
        mask = like.is_null() if like.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
    # Without columns `from_arrays` makes a column without rows.
    if not like.null_count:
        return pa.Array.from_buffers(kind, len(like), [None], 0, children=[])
    valid = like.is_valid()
    return pa.Array.from_buffers(
        kind, len(like), [valid.buffers()[1]], like.null_count, valid.offset, children=[]
    )


def _converted(values: pa.Array, kind: pa.DataType, is_utc: bool) -> pa.Array:
    """Raw values as those of a type. Raises _Otherwise where Spark has a rule of its own."""
    types = pa.types
    if types.is_struct(kind):
        columns = [
            _converted(values.field(place), one.type, is_utc) for place, one in enumerate(kind)
        ]
        return _struct(columns, kind, values)
    if types.is_list(kind):
        elements = _converted(values.values, kind.value_type, is_utc)
        mask = values.is_null() if values.null_count else None
        return pa.ListArray.from_arrays(values.offsets, elements, type=kind, mask=mask)
    if types.is_floating(kind):
        numbers = values.fill_null(1).to_numpy(zero_copy_only=False)
        if np.any((numbers == 0) & np.signbit(numbers)):
            raise _Otherwise  # -0 is 0 to Spark, -0.0 is not
        return values
    if types.is_decimal(kind):
        values.validate(full=True)  # Arrow takes more digits than the type has
        return values
    if types.is_binary(kind):
        found = [None if text is None else base64_bytes(text) for text in values.to_pylist()]
        if found.count(None) != values.null_count:
            raise _Otherwise
        return pa.array(found, kind)
    if types.is_date(kind):
        return _all_like(values, _DAY, pc.utf8_slice_codeunits(values, 0, 10)).cast(kind)
    if types.is_timestamp(kind):
        return _timestamps(values, kind, is_utc)
    return values


def _timestamps(values: pa.Array, kind: pa.DataType, is_utc: bool) -> pa.Array:
    cut = pc.replace_substring_regex(values, r"(\.\d{6})\d+", r"\1")
    naive = pa.timestamp("us")
    if kind.tz is None:
        return _all_like(cut, _WITHOUT_ZONE, cut).cast(naive)
    if not pc.all(pc.match_substring_regex(cut, _WITH_ZONE), min_count=0).as_py() and is_utc:
        cut = pc.replace_substring_regex(cut, _DAY_ALONE, r"\1T00:00:00Z")
        cut = pc.replace_substring_regex(cut, _CLOCK_ALONE, r"\1Z")
    return _all_like(cut, _WITH_ZONE, cut).cast(kind)


def _all_like(values: pa.Array, pattern: str, result: pa.Array) -> pa.Array:
    if not pc.all(pc.match_substring_regex(values, pattern), min_count=0).as_py():
        raise _Otherwise
    return result
