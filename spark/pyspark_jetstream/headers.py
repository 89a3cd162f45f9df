r"""Conversion of NATS header blocks to maps from header name to values, for whole Arrow columns.

A block is `NATS/1.0\r\nName: value\r\n...\r\n\r\n`. Names keep their case. A repeated name has all
its values, in order. White space around a value is removed.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_LINE = "\r\n"


def as_maps(blocks: pa.Array, kind: pa.MapType) -> pa.Array:
    """Convert a column of header blocks to a column of maps; null stays null.

    Args:
        blocks: Binary column of header blocks.
        kind: Arrow type of the result, a map from text to lists of text.
    """
    if blocks.null_count == len(blocks):
        return pa.nulls(len(blocks), kind)
    try:
        lines = pc.split_pattern(blocks.cast(pa.string()), _LINE)
    except pa.ArrowInvalid:  # not UTF-8
        return _one_by_one(blocks, kind)
    maps = _vectorized(lines, kind)
    return _one_by_one(blocks, kind) if maps is None else maps


def _vectorized(lines: pa.ListArray, kind: pa.MapType) -> pa.Array | None:
    """Convert the lines of each block to maps; return None if a name occurs twice in a block."""
    row = pc.list_parent_indices(lines)
    line = pc.list_flatten(lines)
    colon = pc.find_substring(line, ":")
    is_pair = pc.greater(colon, 0)  # excludes the first line, empty lines and malformed ones
    row, line = row.filter(is_pair), line.filter(is_pair)
    pair = pc.split_pattern(line, ":", max_splits=1)
    name = pc.list_element(pair, 0)
    value = pc.utf8_trim(pc.list_element(pair, 1), " \t")
    rows = np.asarray(row)
    if _repeats(rows, name):
        return None
    begins = pa.array(np.searchsorted(rows, np.arange(len(lines) + 1)), pa.int32())
    offsets = pc.if_else(lines.is_valid(), begins[:-1], None)
    offsets = pa.concat_arrays([offsets, begins[-1:]])
    lists = pa.ListArray.from_arrays(np.arange(len(value) + 1, dtype=np.int32), value)
    return pa.MapArray.from_arrays(offsets, name, lists).cast(kind)


def _repeats(rows: "np.ndarray[Any, np.dtype[np.int64]]", name: pa.Array) -> bool:
    """Return True if a header name occurs twice in the same row."""
    names = name.dictionary_encode()
    keys = rows.astype(np.int64) * max(1, len(names.dictionary)) + np.asarray(names.indices)
    keys.sort()
    return bool((keys[1:] == keys[:-1]).any())


def _one_by_one(blocks: pa.Array, kind: pa.MapType) -> pa.Array:
    return pa.array([None if one is None else pairs(one) for one in blocks.to_pylist()], kind)


def pairs(block: bytes) -> list[tuple[str, list[str]]]:
    """Return the names in one header block, each with its values, in order.

    Bytes that are not UTF-8 become U+FFFD.
    """
    found: dict[str, list[str]] = {}
    for line in block.decode(errors="replace").split(_LINE):
        name, colon, value = line.partition(":")
        if name and colon:
            found.setdefault(name, []).append(value.strip(" \t"))
    return list(found.items())
