"""Parser of NATS header blocks: `NATS/1.0`, lines of `Name: value`, an empty line (no I/O)."""

from dataclasses import dataclass

BEGIN = b"NATS/1.0"


@dataclass(frozen=True, slots=True)
class Status:
    """A status message of the server, such as `NATS/1.0 404 No Messages`.

    Attributes:
        code: The number, such as 404.
        text: The text; may be empty.
        headers: Further headers by name.
    """

    code: int
    text: str
    headers: dict[str, str]


def status_of(block: bytes) -> Status | None:
    """Return the status in a header block; None for the headers of an ordinary message.

    Servers remove the status from messages that they store. So a block with a status always belongs
    to a message that the server itself made.
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
    """Return the first value of the header `name` in a block; None if it has none. Case matters."""
    at = block.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    return block[at + len(name) + 3 : block.index(b"\r\n", at + 2)].strip()
