"""The `Nats-*` headers that affect a publish into a stream (ADR-4, JetStream header table).

Names are matched exactly: `nats-msg-id` is ignored, as in nats-server.
"""

import re

from core.goinput import parse_uint, parse_wrapped
from core.protocol import headers as protocol

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
COUNTER_SOURCES = b"Nats-Counter-Sources"
BATCH_ID = protocol.BATCH_ID
BATCH_AUTHOR = protocol.BATCH_AUTHOR
BATCH_SEQ = b"Nats-Batch-Sequence"
BATCH_COMMIT = b"Nats-Batch-Commit"
REQUIRED_LEVEL = b"Nats-Required-Api-Level"
SCHEDULE = b"Nats-Schedule"
SCHEDULE_TARGET = b"Nats-Schedule-Target"
SCHEDULE_SOURCE = b"Nats-Schedule-Source"
SCHEDULE_TTL = b"Nats-Schedule-TTL"
SCHEDULE_TIME_ZONE = b"Nats-Schedule-Time-Zone"
SCHEDULE_ROLLUP = b"Nats-Schedule-Rollup"
SCHEDULER = b"Nats-Scheduler"
SCHEDULE_NEXT = b"Nats-Schedule-Next"

# Largest header block in bytes that can be stored.
MAX_BLOCK = 65535
REQUEST_INFO = b"Nats-Request-Info"
# The beginning of a block with at least one header and no status.
BARE_BLOCK = b"NATS/1.0\r\n"

_LINE = b"NATS/1.0"


_LONE_ID = BARE_BLOCK + MSG_ID + b":"
_ID_AT = len(_LONE_ID)
_NAMES_AT = len(_LINE)
_INCREMENT = re.compile(rb"[+-]?[0-9]+")


def has_publish_headers(block: bytes) -> bool:
    """Return whether a header block has any `Nats-*` header."""
    # `find` instead of `in`: `in` first tries to interpret the needle as a number, and is four
    # times slower.
    return block.find(b"\r\nNats-") >= 0


def publish_headers(block: bytes) -> dict[bytes, bytes]:
    """Return the `Nats-*` headers of a header block, the first value of each name.

    Leading spaces of a value are dropped. The first line is never a header.
    """
    found: dict[bytes, bytes] = {}
    if not has_publish_headers(block):
        return found
    for line in block.split(b"\r\n")[1:]:
        if line.startswith(b"Nats-"):
            name, colon, value = line.partition(b":")
            if colon and name not in found:
                found[name] = value.lstrip(b" ")
    return found


def expecting(stream: str) -> bytes:
    """Return a header block with `Nats-Expected-Stream` for this stream as its only header."""
    return b"%b%b: %b\r\n\r\n" % (BARE_BLOCK, EXPECTED_STREAM, stream.encode())


def lone_msg_id(block: bytes, expected: bytes) -> bytes:
    """Return the message id of a header block that has no other header; otherwise b"".

    `Nats-Expected-Stream` may follow the id: `expected` is the result of `expecting` for the
    stream.
    """
    if block.startswith(_LONE_ID):
        end = block.find(b"\r\n", _ID_AT)
        if end == len(block) - 4 or block[end:] == expected[_NAMES_AT:]:
            return block[_ID_AT:end].lstrip(b" ")
    return b""


def stored_block(block: bytes) -> bytes:
    """Return a header block as a stream stores it: without status and `Nats-Request-Info`.

    A block without any header left becomes b"".
    """
    plain = block.startswith(BARE_BLOCK)
    if plain and block.find(REQUEST_INFO) < 0:
        return block if len(block) >= len(b"NATS/1.0\r\n\r\n") else b""
    lines = [
        line
        for line in block.split(b"\r\n")[1:]
        if line and not line.startswith(REQUEST_INFO + b":")
    ]
    return b"\r\n".join([_LINE, *lines, b"", b""]) if lines else b""


def find(block: bytes, name: bytes) -> bytes | None:
    """Return the value of one header of a header block, or None if it has no such header."""
    start = block.find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    return block[start : block.find(b"\r\n", start)].lstrip(b" ")


def with_header(block: bytes, name: bytes, value: bytes) -> bytes:
    """Return a header block with the first header of that name changed, or the header added."""
    start = block.find(b"\r\n" + name + b":")
    if start < 0:
        return b"%b%b: %b\r\n\r\n" % (block[:-2], name, value)
    start += len(name) + 3
    if block[start : start + 1] == b" ":
        start += 1
    return block[:start] + value + block[block.find(b"\r", start) :]


def is_increment(value: bytes) -> bool:
    """Return whether a `Nats-Incr` value is an integer (ADR-49)."""
    return _INCREMENT.fullmatch(value) is not None


def expected_sequence(value: bytes) -> int:
    """Return the value of an expected-sequence header; -1, which matches none, if malformed."""
    number = parse_wrapped(value)
    return -1 if number is None else number


def number(value: bytes) -> int:
    """Return the value of a sequence header (-1: not a number)."""
    number = parse_uint(value)
    return -1 if number is None else number
