r"""A received message, and functions that read and build header blocks.

Header blocks stay bytes until they are parsed: `NATS/1.0[ status[ text]]\r\n`, then
`Name: value\r\n` lines and an empty line.
"""

from collections.abc import Iterable

import msgspec

_VERSION = b"NATS/1.0"


class Msg(msgspec.Struct, gc=False, eq=False):
    """A received message; an absent reply or header block is empty bytes.

    The garbage collector ignores these objects, since there may be very many: they cannot be part
    of a reference cycle.
    """

    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes

    @property
    def size(self) -> int:
        """Total size of subject, header block and payload, in bytes."""
        return len(self.subject) + len(self.headers) + len(self.payload)

    def __repr__(self) -> str:
        return f"Msg({self.subject!r}, {len(self.payload)} bytes)"


def status_of(headers: bytes) -> tuple[int, str]:
    """Return the status code and text of a header block; code 0 if it has no status."""
    if len(headers) < 12 or headers[8:9] != b" ":
        return 0, ""
    line = headers[9 : headers.find(b"\r\n")].strip()
    code, _, text = line.partition(b" ")
    return (int(code), text.strip().decode(errors="replace")) if code.isdigit() else (0, "")


def header_items(headers: bytes) -> list[tuple[bytes, bytes]]:
    """Return names and values of the headers in a block, in order, with duplicates.

    Values are without surrounding blanks and tabs.
    """
    items: list[tuple[bytes, bytes]] = []
    for line in headers.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            items.append((name, value.strip(b" \t")))
    return items


def header_block(items: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a header block with the given names and values; empty bytes if there are none.

    Raises ValueError if a name is empty or contains `:`, or if a name or value contains CR, LF or
    NUL.
    """
    parts = [_VERSION]
    for name, value in items:
        if not name or any(c in name for c in b":\r\n\0") or any(c in value for c in b"\r\n\0"):
            raise ValueError(f"header {name!r} cannot be written")
        parts.append(name + b": " + value)
    return b"\r\n".join(parts) + b"\r\n\r\n" if len(parts) > 1 else b""
