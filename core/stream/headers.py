"""The headers that a publish into a stream is judged by (ADR-4, JetStream header table).

Names are matched exactly: the reference server ignores `nats-msg-id`.
"""

MSG_ID = b"Nats-Msg-Id"
EXPECTED_STREAM = b"Nats-Expected-Stream"
EXPECTED_LAST_SEQ = b"Nats-Expected-Last-Sequence"
EXPECTED_LAST_SUBJECT_SEQ = b"Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_SUBJECT_SEQ_SUBJECT = b"Nats-Expected-Last-Subject-Sequence-Subject"
EXPECTED_LAST_MSG_ID = b"Nats-Expected-Last-Msg-Id"
ROLLUP = b"Nats-Rollup"
TTL = b"Nats-TTL"
STREAM_SOURCE = b"Nats-Stream-Source"
INCREMENT = b"Nats-Incr"
BATCH_ID = b"Nats-Batch-Id"
SCHEDULE = b"Nats-Schedule"

_LINE = b"NATS/1.0"
_REQUEST_INFO = b"Nats-Request-Info"


def publish_headers(block: bytes) -> dict[bytes, bytes]:
    """Return the `Nats-*` headers of a block, the first value of each name.

    Leading spaces of a value are dropped, nothing else is changed.
    """
    found: dict[bytes, bytes] = {}
    if b"Nats-" not in block:
        return found
    for line in block.split(b"\r\n"):
        if line.startswith(b"Nats-"):
            name, colon, value = line.partition(b":")
            if colon and name not in found:
                found[name] = value.lstrip(b" ")
    return found


def stored_block(block: bytes) -> bytes:
    """Return the block as a stream keeps it: no status line, no `Nats-Request-Info`.

    A block without header lines is dropped whole (empty result).
    """
    plain = block.startswith(b"NATS/1.0\r\n")
    if plain and _REQUEST_INFO not in block:
        return block if len(block) > 12 else b""
    lines = [
        line
        for line in block.split(b"\r\n")[1:]
        if line and not line.startswith(_REQUEST_INFO + b":")
    ]
    return b"\r\n".join([_LINE, *lines, b"", b""]) if lines else b""


def find(block: bytes, name: bytes) -> bytes | None:
    """Return the value of one header of a block, or None."""
    start = block.find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    return block[start : block.find(b"\r\n", start)].lstrip(b" ")
