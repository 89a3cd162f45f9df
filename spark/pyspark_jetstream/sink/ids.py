"""Message ids that are the same whenever the same row is written again (pure).

An id is `<app>/<batch>/<partition>/<row>/<digest>`. Spark replays a batch with the same rows in the
same partitions and the same order as long as its plan is deterministic, which shuffles and random
values are not. Therefore a digest of what is stored is part of the id: a row that took the place of
another one has another id and is never taken for it. So a row may be stored twice, never lost.
"""

from base64 import urlsafe_b64encode
from hashlib import blake2b

from pyspark_jetstream.sink.rows import BEGIN

_NAME = b"Nats-Msg-Id: "
_DIGEST = 6
"""Bytes; the digest only has to differ from that of another row at the same place."""
_TEXT = 8
"""Characters of a digest: without padding, so that digests can be made text together."""


def with_ids(
    prefix: str, first: int, subjects: list[bytes], lines: list[bytes], payloads: list[bytes]
) -> list[bytes]:
    """Header blocks of consecutive rows with the ids in front; a row with an id keeps its own.

    Args:
        prefix: App, batch and partition with slashes between them.
        first: Which row of the partition the first one is, from 0 on.
        subjects: Of each row.
        lines: Header lines of each row without `NATS/1.0`, perhaps none.
        payloads: Of each row.
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
    """What tells each row from another one at its place."""
    rows = map(b"\0".join, zip(subjects, lines, payloads, strict=True))
    made = b"".join([blake2b(row, digest_size=_DIGEST).digest() for row in rows])
    text = urlsafe_b64encode(made)
    return [text[at : at + _TEXT] for at in range(0, len(text), _TEXT)]
