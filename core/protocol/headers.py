"""Parses and builds NATS header blocks (ADR-4). A block is kept as the bytes that were received.

The form is `NATS/1.0[ status[ description]]CRLF`, `Name: value CRLF`..., CRLF. Names are compared
exactly and case-sensitively, as nats-server does for its own headers; the first of several equal
names wins. Leading blanks of a value do not belong to it.
"""

from collections.abc import Iterable

LINE = b"NATS/1.0"
EMPTY = b"NATS/1.0\r\n\r\n"
BATCH_ID = b"Nats-Batch-Id"
BATCH_AUTHOR = b"Nats-Batch-Author"
"""Name of the header with the id of the connection that sent a message of an atomic batch.

Servers add it for each other and for streams only (`core.pubsub.authored`). A stream never stores
it, and no subscriber receives it.
"""


def find(block: bytes, name: bytes) -> bytes | None:
    """Return the first value of the header `name` in a block; None if it has no such header."""
    start = _value_start(block, name, 0)
    return None if start < 0 else _value(block, start)


def parse(block: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of a block as (name, value) pairs; lines without a colon are left out."""
    pairs: list[tuple[bytes, bytes]] = []
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon and name:
            pairs.append((name, value.strip()))
    return pairs


def status(block: bytes) -> tuple[int, str]:
    """Return code and description of the status line of a block; (0, "") if it has no status."""
    if not block.startswith(LINE):
        return 0, ""
    code, _, text = block[len(LINE) : block.find(b"\r\n")].strip().partition(b" ")
    return (int(code), text.strip().decode("utf-8", "replace")) if code.isdigit() else (0, "")


def build(pairs: Iterable[tuple[bytes, bytes]], code: int = 0, text: bytes = b"") -> bytes:
    """Return a header block with (name, value) pairs, and a status if `code` is not 0.

    Line ends inside a name or value become spaces, so that neither can add a header.
    """
    parts = [status_line(code, text) if code else b"NATS/1.0\r\n"]
    for name, value in pairs:
        parts.append(b"%b: %b\r\n" % (_one_line(name), _one_line(value)))
    parts.append(b"\r\n")
    return b"".join(parts)


def status_line(code: int, text: bytes = b"") -> bytes:
    """Return the first line of a header block with a status, such as `NATS/1.0 503`, and its CR
    LF.
    """
    return b"NATS/1.0 %d %b\r\n" % (code, text) if text else b"NATS/1.0 %d\r\n" % code


def append(block: bytes, pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a block with (name, value) pairs added at its end.

    An empty `block` starts a new one.
    """
    if not block:
        return build(pairs)
    parts = [block[:-2] if block.endswith(b"\r\n") else block + b"\r\n"]
    for name, value in pairs:
        parts.append(b"%b: %b\r\n" % (_one_line(name), _one_line(value)))
    parts.append(b"\r\n")
    return b"".join(parts)


def remove(block: bytes, name: bytes) -> bytes:
    """Return a block without the header `name`; b"" if no header remains."""
    key = b"\r\n" + name + b":"
    start = block.find(key)
    if start < 0:
        return block
    while start >= 0:
        stop = block.find(b"\r\n", start + 2)
        block = block[:start] + (block[stop:] if stop >= 0 else b"")
        start = block.find(key)
    return b"" if block == EMPTY else block


def _value_start(block: bytes, name: bytes, position: int) -> int:
    key = b"\r\n" + name + b":"
    start = block.find(key, position)
    return start + len(key) if start >= 0 else -1


def _value(block: bytes, start: int) -> bytes:
    stop = block.find(b"\r\n", start)
    return block[start : stop if stop >= 0 else len(block)].lstrip(b" ")


def _one_line(text: bytes) -> bytes:
    return (
        text.replace(b"\r", b" ").replace(b"\n", b" ") if b"\r" in text or b"\n" in text else text
    )
