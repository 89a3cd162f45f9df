"""Splits control lines of the NATS protocol into words.

Spaces, tabs and line ends separate words. `bytes.split` also splits at vertical tabs and form
feeds, which subjects may contain.
"""

import re
from collections.abc import Callable

_BLANKS = re.compile(rb"[ \t\r\n]+")


def words(line: bytes) -> list[bytes]:
    """Return the words of a control line, separated by spaces, tabs or line ends."""
    if b"\x0b" not in line and b"\x0c" not in line:
        return line.split()
    return [word for word in _BLANKS.split(line) if word]


def splitter(data: bytes) -> Callable[[bytes], list[bytes]]:
    """Return a function that splits the lines in `data` into words.

    `bytes.split`, which is faster, if the data has no vertical tabs and form feeds.
    """
    return words if b"\x0b" in data or b"\x0c" in data else bytes.split
