"""Queries that return many messages as one row (a page), with one value per column of the table.

With a row per message, the driver would create an object for each row and each value. Here each
column is one value: numbers concatenated in PostgreSQL's binary format, subjects joined by line
feeds (which none contains), headers and payloads concatenated, with their lengths in other columns.
"""

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from crc32c import crc32c

from core.errors import Unavailable
from core.model.segment import Segment
from core.storage.postgres.subjects import WHOLE, subjects_of

_COLUMNS = f"""
    count(*), string_agg(int8send(seq), ''), string_agg(int8send(ts), ''),
    string_agg(oidsend(crc), ''), string_agg({WHOLE}, E'\\n'),
    string_agg(int4send(octet_length(data)), ''), string_agg(data, ''),
    string_agg(int4send(coalesce(octet_length(hdr), -1)), ''), string_agg(hdr, '')
"""


def page_of(condition: str, partition: int) -> str:
    """Return an SQL query for messages of a partition, all in one row.

    `condition` is an SQL condition, which may end in ORDER BY and LIMIT.
    """
    rows = f"select * from jetgate_store.message_{partition} where {condition}"
    return f"select {_COLUMNS} from ({rows}) as m"


def checksum(headers: bytes | None, payload: bytes) -> int:
    """Return the CRC-32C (RFC 3720) of header block and payload."""
    return crc32c(payload, crc32c(headers)) if headers else crc32c(payload)


def segment_of(page: Sequence[Any]) -> Segment | None:
    """Decode the row of a query of `page_of` into messages; return None if it has none.

    Raises Unavailable if a message does not match its checksum.
    """
    count, seqs, times, crcs, subjects, sizes, data, header_sizes, headers = page
    if not count:
        return None
    payloads = _slices(data, _numbers("i", sizes))
    numbers, wanted = _numbers("q", seqs), _numbers("I", crcs)
    blocks: list[bytes | None] | None = None
    if headers is None:
        found = list(map(crc32c, payloads))
    else:
        lengths = _numbers("i", header_sizes)
        cut = iter(_slices(headers, [length for length in lengths if length >= 0]))
        blocks = [next(cut) if length >= 0 else None for length in lengths]
        found = list(map(checksum, blocks, payloads))
    if found != wanted:
        bad = next(s for s, a, b in zip(numbers, found, wanted, strict=True) if a != b)
        raise Unavailable(f"message at sequence {bad} does not match its checksum")
    text = subjects.encode()
    names = subjects_of(text, count)
    nbytes = len(data) + len(text) - count + 1
    return Segment(numbers, _numbers("q", times), names, blocks, payloads, nbytes)


def joined(low: Segment, high: Segment) -> Segment:
    """Return the messages of two segments as one: first those of `low`, then those of `high`."""
    headers: list[bytes | None] | None = None
    if low.headers is not None or high.headers is not None:
        headers = [*(low.headers or [None] * len(low)), *(high.headers or [None] * len(high))]
    return Segment(
        [*low.seqs, *high.seqs],
        [*low.times, *high.times],
        low.subjects + high.subjects,
        headers,
        low.payloads + high.payloads,
        low.nbytes + high.nbytes,
    )


def _numbers(kind: str, data: bytes) -> list[int]:
    """Decode concatenated big-endian integers; `kind` is a type code of `array`."""
    found = array(kind, data)
    if sys.byteorder == "little":
        found.byteswap()
    return found.tolist()


def _slices(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    ends = list(accumulate(sizes))
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
