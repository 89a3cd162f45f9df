"""Message ids that are equal when the same row is written again (no I/O).

An id is `<app>/<batch>/<partition>/<row>/<digest>`. If Spark repeats a batch, it produces the same
rows in the same partitions and order only if the query is deterministic; shuffles and random values
are not. So the id includes a digest of subject, headers and payload: a different row at the same
place has a different id, and deduplication never drops it. A row may be stored twice, but is never
lost.
"""

from base64 import urlsafe_b64encode
from hashlib import blake2b

from pyspark_jetstream.sink.rows import BEGIN

_NAME = b"Nats-Msg-Id: "
_DIGEST = 6
"""Length of a digest in bytes; it only distinguishes rows at the same place of a partition."""
_TEXT = 8
"""Length of a digest as text; it needs no padding, so one call encodes the digests of many rows."""


def with_ids(
    prefix: str, first: int, subjects: list[bytes], lines: list[bytes], payloads: list[bytes]
) -> list[bytes]:
    """Return the header block of each row, with a `Nats-Msg-Id` first unless the row has one.

    Args:
        prefix: Start of the ids: application, batch and partition, separated by slashes.
        first: Index of the first row in the partition, from 0.
        subjects: Subject of each row.
        lines: Header lines of each row without `NATS/1.0`; may be empty.
        payloads: Payload of each row.
    """
    begin = b"%b%b%b/" % (BEGIN, _NAME, prefix.encode())
    rows = zip(
        range(first, first + len(lines)), digests(subjects, lines, payloads), lines, strict=True
    )
    made = [b"%b%d/%b\r\n%b\r\n" % (begin, row, digest, line) for row, digest, line in rows]
    own = {line for line in set(lines) if _NAME in line}
    if not own:
        return made
    return [
        b"%b%b\r\n" % (BEGIN, line) if line in own else block
        for block, line in zip(made, lines, strict=True)
    ]


def digests(subjects: list[bytes], lines: list[bytes], payloads: list[bytes]) -> list[bytes]:
    """Return a digest of subject, header lines and payload of each row, as base64 text."""
    rows = map(b"\0".join, zip(subjects, lines, payloads, strict=True))
    made = b"".join([blake2b(row, digest_size=_DIGEST).digest() for row in rows])
    text = urlsafe_b64encode(made)
    return [text[at : at + _TEXT] for at in range(0, len(text), _TEXT)]
