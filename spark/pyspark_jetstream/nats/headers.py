"""Header blocks of the protocol: `NATS/1.0`, lines of `Name: value`, an empty line (pure)."""

from dataclasses import dataclass

BEGIN = b"NATS/1.0"


@dataclass(frozen=True, slots=True)
class Status:
    """A status message of the server: a number, a text and perhaps headers."""

    code: int
    text: str
    headers: dict[str, str]


def status_of(block: bytes) -> Status | None:
    """Return the status in a header block; None for the headers of an ordinary message.

    Servers remove the status from messages that they store, so a block with one is the server's
    own.
    """
    if block[:9] != b"NATS/1.0 ":
        return None
    first, *lines = block.rstrip(b"\r\n").split(b"\r\n")
    _, number, *text = first.decode("utf-8", "replace").split(" ", 2)
    if not number.isdigit():
        return None
    return Status(int(number), text[0].strip() if text else "", dict(map(_pair, lines)))


def _pair(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode("utf-8", "replace").partition(":")
    return name, value.strip()


def first_value(block: bytes, name: bytes) -> bytes | None:
    """Return the first value of a header; None without one. The name is case-sensitive."""
    at = block.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    return block[at + len(name) + 3 : block.index(b"\r\n", at + 2)].strip()
