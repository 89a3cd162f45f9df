"""Header blocks of the protocol: `NATS/1.0`, lines of `Name: value`, an empty line (pure)."""

from dataclasses import dataclass

BEGIN = b"NATS/1.0"


@dataclass(frozen=True, slots=True)
class Status:
    """A message of the server itself: a number, a text and perhaps headers."""

    code: int
    text: str
    headers: dict[str, str]


def status_of(block: bytes) -> Status | None:
    """The status in a header block; None for headers of an ordinary message.

    Servers remove a status from what they store, so a block with one is a word of the server.
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
    """The first value of a header, whose name is compared with its case; None without it."""
    at = block.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    return block[at + len(name) + 3 : block.index(b"\r\n", at + 2)].strip()
