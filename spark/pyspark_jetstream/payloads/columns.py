"""Parser of a column of JSON payloads: by Arrow where possible, else one by one in Python.

Both ways give the values of Spark's `from_json`. If Arrow cannot parse a batch, or would parse it
differently, the batch is halved until few payloads remain; those are parsed one by one.
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
"""Batches of at most this size are not halved: parsing them in Python costs no more."""
_UTC = ("UTC", "Z", "+00:00", "GMT", "UT")

_WITH_ZONE = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$"
_DAY_ALONE = r"^(\d{4}-\d\d-\d\d)$"
_CLOCK_ALONE = r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?)$"
_WITHOUT_ZONE = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d{1,6})?)?$"
_DAY = r"^\d{4}-\d\d-\d\d([T ].*)?$"
_ODD_INFINITY = r"[:\[,][ \t\r\n]*-?Inf[^i]"
"""Pattern of texts that Arrow parses as a number and Spark does not."""
_LONG_NUMBER = rf"[-+.0-9eE]{{{MAX_DIGITS}}}[-+.0-9eE]"
_END_OF_NAME = re.compile(rb'"[ \t\n\r]*:')
_QUOTE, _BACKSLASH = ord('"'), ord("\\")
_OPENING, _CLOSING = np.frombuffer(b"[{", np.uint8), np.frombuffer(b"]}", np.uint8)


class CorruptPayload(ValueError):
    """A payload does not fit its type, and the option `jsonMode` is FAILFAST.

    Args:
        place: Index of the payload in the column, from 0.
        reason: Description of the mismatch.
    """

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place, self.reason = place, reason


class _Otherwise(Exception):
    """Internal error: Arrow would parse a payload of the batch differently from Spark."""


class JsonColumns:
    """Parser of JSON payloads into a column of one Arrow type.

    Args:
        kind: The type: a struct, a list or a map.
        options: Options of parsing JSON.
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
        """Parse a column of payloads (bytes); null stays null.

        A payload that does not fit the type becomes a struct of nulls, or null for a list or map.
        Raises CorruptPayload instead in mode FAILFAST.
        """
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
        """Return a parsed value with its field `columnNameOfCorruptRecord` set, if the type has it.

        The field is the text of the payload if the payload does not fit the type, else null. In
        mode FAILFAST, raises CorruptPayload instead for a payload that does not fit.

        Args:
            value: The parsed value.
            reason: Reason why the payload does not fit the type; "" if it does.
            text: The text of the payload; None for a null payload.
            place: Index of the payload in its column, from 0.
        """
        if reason and self._options.fail_fast:
            raise CorruptPayload(place, reason)
        if self._corrupt >= 0 and value is not None:
            value[self._options.corrupt] = text if reason else None
        return value

    def _alone(self, value: Any, text: str | None, place: int) -> pa.Array:
        """Return a column of one value; a value that Arrow refuses counts as a corrupt payload."""
        try:
            return pa.array([value], self._kind)
        except Exception as error:
            nothing = self._marked(self._rows.nothing(), unexpected(error), text, place)
            return pa.array([nothing], self._kind)

    def _at_once(self, payloads: pa.Array) -> pa.Array | None:
        """Parse all payloads by Arrow; return None if Arrow fails or would differ from Spark."""
        if self._raw is None:
            return None
        try:
            texts = payloads.cast(pa.string())
            parsed = _parse_all(texts, self._raw)
            if parsed is None or parsed.null_count != texts.null_count:
                return None
            converted = _converted(parsed, self._parsed, self._options.zone in _UTC)
        except Exception:  # the parser of single payloads finds and names the faulty one
            return None
        if self._corrupt < 0:
            return converted
        fields = converted.flatten()
        fields.insert(self._corrupt, pa.nulls(len(converted), pa.string()))
        return _struct(fields, self._kind, converted)


def _raw(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that Arrow parses before conversion to `kind`; None if Arrow cannot parse
    it.
    """
    types = pa.types
    if types.is_struct(kind):
        fields = [(one.name, _raw(one.type)) for one in kind]
        # Arrow distinguishes duplicate members by name, so duplicate field names are excluded
        known = all(one is not None for _, one in fields)
        return pa.struct(fields) if known and len(dict(fields)) == len(fields) else None
    if types.is_list(kind):
        element = _raw(kind.value_type)
        return None if element is None else pa.list_(element)
    if types.is_map(kind) or types.is_null(kind):
        return None
    return pa.string() if types.is_temporal(kind) or types.is_binary(kind) else kind


def _parse_all(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Parse all payloads by Arrow; return None if one of them cannot be parsed.

    Each payload becomes a line `{"v": payload}`. After its closing brace, JSON can only continue
    with another top-level value. So no payload can extend into the next one, and an equal number of
    values and payloads proves one value for each payload.
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
    """Return True if a line may exceed Jackson's limits of nesting, numbers or names."""
    if pc.max(pc.binary_length(lines)).as_py() <= MAX_DIGITS:
        return False
    long = lines.filter(pc.greater(pc.binary_length(lines), MAX_DIGITS))
    if pc.any(pc.match_substring_regex(long, _LONG_NUMBER)).as_py():
        return True
    opened = pc.add(pc.count_substring(long, "["), pc.count_substring(long, "{"))
    for line in long.filter(pc.greater(opened, MAX_DEPTH)):
        steps = np.frombuffer(line.as_buffer(), np.uint8)
        # Brackets within strings count as well: such a line may be parsed one by one needlessly.
        ups = np.isin(steps, _OPENING).astype(np.int32) - np.isin(steps, _CLOSING)
        if ups.cumsum().max() > MAX_DEPTH:
            return True
    very_long = long.filter(pc.greater(pc.binary_length(long), MAX_NAME))
    return any(_has_long_name(line.as_buffer()) for line in very_long)


def _has_long_name(line: pa.Buffer) -> bool:
    """Return True if the name of a member may exceed Jackson's limit."""
    text = memoryview(line).tobytes()
    quotes = np.flatnonzero(np.frombuffer(text, np.uint8) == _QUOTE)
    # A quote after a backslash may be part of a string: it can end a name here, but begins none.
    begins = quotes[[not at or text[at - 1] != _BACKSLASH for at in quotes]]
    for match in _END_OF_NAME.finditer(text):
        place = int(np.searchsorted(begins, match.start()))
        if place and match.start() - int(begins[place - 1]) > MAX_NAME:
            return True
    return False


def _contiguous(lines: pa.Array) -> pa.Buffer:
    """Return the bytes of a text column without nulls, one value after the other."""
    offsets, data = lines.buffers()[1:]
    ends = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, offsets], offset=lines.offset)
    return data.slice(ends[0].as_py(), ends[-1].as_py() - ends[0].as_py())


def _struct(columns: list[pa.Array], kind: pa.DataType, like: pa.Array) -> pa.Array:
    """Combine columns (or none) into structs with the length and the nulls of `like`."""
    if columns:
        mask = like.is_null() if like.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)
    # `from_arrays` without columns makes an array without rows
    if not like.null_count:
        return pa.Array.from_buffers(kind, len(like), [None], 0, children=[])
    valid = like.is_valid()
    return pa.Array.from_buffers(
        kind, len(like), [valid.buffers()[1]], like.null_count, valid.offset, children=[]
    )


def _converted(values: pa.Array, kind: pa.DataType, is_utc: bool) -> pa.Array:
    """Convert raw values to a type. Raises _Otherwise if Spark has a rule of its own."""
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
            raise _Otherwise  # Spark parses -0 as 0, and -0.0 as -0.0
        return values
    if types.is_decimal(kind):
        values.validate(full=True)  # Arrow accepts more digits than the type has
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
