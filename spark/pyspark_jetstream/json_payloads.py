"""Payloads that are JSON objects as columns of a type, parsed by Arrow, a whole batch at a time.

Fields that the type does not have are left out, those that a payload does not have are null. A
payload that is no JSON, or does not fit the type, is null as a whole.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pajson

_KEY = "v"


def parse(payloads: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values of a column of text as a column of `kind`."""
    if not len(payloads):
        return pa.nulls(0, kind)
    parsed = _parse_all(payloads, kind)
    if parsed is not None:
        return parsed
    if len(payloads) == 1:
        return pa.nulls(1, kind)
    # Some payload is at fault: it is found by halving, so that the others are parsed together.
    half = len(payloads) // 2
    return pa.concat_arrays([parse(payloads[:half], kind), parse(payloads[half:], kind)])


def _parse_all(payloads: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """All values, or None when one of them cannot be parsed.

    Each payload becomes a line `{"v": payload}`. After the brace that closes it, JSON can only go
    on with another value on the top level, so that no payload can take part of the next one, and
    as many values as payloads are one value for each.
    """
    column = pc.if_else(payloads.is_valid(), payloads, "null")
    lines = pc.binary_join_element_wise(f'{{"{_KEY}":', column, "}\n", "")
    text = _contiguous(lines)
    try:
        table = pajson.read_json(
            pa.BufferReader(text),
            read_options=pajson.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pajson.ParseOptions(
                explicit_schema=pa.schema([(_KEY, kind)]),
                newlines_in_values=True,
                unexpected_field_behavior="ignore",
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(payloads):
        return None
    return table.column(_KEY).combine_chunks()


def _contiguous(lines: pa.Array) -> pa.Buffer:
    """The bytes of a column of text without nulls, one value after the other."""
    offsets, data = lines.buffers()[1:]
    ends = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, offsets], offset=lines.offset)
    return data.slice(ends[0].as_py(), ends[-1].as_py() - ends[0].as_py())
