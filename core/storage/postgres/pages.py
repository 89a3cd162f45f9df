"""Pages of messages: what a query finds, as one row of columns.

A row per message costs the driver an object for it and for each of its values. Here each column is
one value: numbers as PostgreSQL sends them, end to end, texts with line feeds between them (no
subject holds one), and headers and payloads end to end beside their lengths.
"""

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from crc32c import crc32c

from core.errors import Unavailable
from core.stream.segment import Segment

_COLUMNS = """
    count(*), string_agg(int8send(seq), ''), string_agg(int8send(ts), ''),
    string_agg(oidsend(crc), ''), string_agg(subject, E'\\n'),
    string_agg(int4send(octet_length(data)), ''), string_agg(data, ''),
    string_agg(int4send(coalesce(octet_length(hdr), -1)), ''), string_agg(hdr, '')
"""


def page_of(condition: str, shelf: int) -> str:
    """Return a query for the messages of a shelf that meet a condition, ascending."""
    rows = f"select * from jetgate_store.message_{shelf} where {condition}"
    return f"select {_COLUMNS} from ({rows}) as m"


def checksum(headers: bytes | None, payload: bytes) -> int:
    """CRC-32C (RFC 3720) of header block and payload, as readers verify it."""
    return crc32c(payload, crc32c(headers)) if headers else crc32c(payload)


def segment_of(page: Sequence[Any]) -> Segment | None:
    """Return the row of a page as a segment; None when it is empty.

    Raises Unavailable when a message does not match its checksum: damage is reported, never served.
    """
    count, seqs, times, crcs, subjects, sizes, data, header_sizes, headers = page
    if not count:
        return None
    payloads = _cut(data, _numbers("i", sizes))
    numbers, wanted = _numbers("q", seqs), _numbers("I", crcs)
    blocks: list[bytes | None] | None = None
    if headers is None:
        found = list(map(crc32c, payloads))
    else:
        lengths = _numbers("i", header_sizes)
        cut = iter(_cut(headers, [length for length in lengths if length >= 0]))
        blocks = [next(cut) if length >= 0 else None for length in lengths]
        found = list(map(checksum, blocks, payloads))
    if found != wanted:
        bad = next(s for s, a, b in zip(numbers, found, wanted, strict=True) if a != b)
        raise Unavailable(f"message at sequence {bad} does not match its checksum")
    text = subjects.encode()
    names = text.split(b"\n")
    nbytes = len(data) + len(text) - count + 1
    return Segment(numbers, _numbers("q", times), names, blocks, payloads, nbytes)


def joined(low: Segment, high: Segment) -> Segment:
    """Return two segments as one, the second behind the first."""
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
    """Return big-endian integers of one size (a code of `array`)."""
    found = array(kind, data)
    if sys.byteorder == "little":
        found.byteswap()
    return found.tolist()


def _cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    ends = list(accumulate(sizes))
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
