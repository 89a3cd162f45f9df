"""The hold of a client's bytes while some of its publishes must wait.

All bytes before the first publish that must wait go to the parser. That publish and all later bytes
are kept, so that no message is lost or overtaken.
"""

import re
from collections.abc import Callable

IsHeld = Callable[[bytes], bool]
"""Decides whether a publish to a subject must wait."""

_ARGUMENTS = re.compile(rb"[^ \t\r\n]+")
_COUNTS = {b"PUB": (3, 4), b"HPUB": (4, 5)}
_LINE_MAX = 8192
"""Bytes of the longest line that is kept; the parser refuses a longer one."""
_SIZE_DIGITS = 9


class HoldRule:
    """The rule for publishes that must wait, and the count of bytes kept for them.

    In this base class all publishes wait, without a limit.
    """

    def __call__(self, subject: bytes) -> bool:
        """Decide whether a publish to this subject must wait."""
        return True

    def count(self, subject: bytes, nbytes: int) -> None:
        """Add bytes that are kept because a publish to this subject waits (negative: released)."""

    def reset(self) -> None:
        """Reset the count: no bytes are kept."""

    def is_refused(self, subject: bytes) -> bool:
        """Decide whether too many bytes are kept already for a publish to this subject to wait."""
        return False


EVERYTHING = HoldRule()


class PublishHold:
    """The split of one client's bytes at its first publish that must wait.

    Args:
        begun: Subject and missing payload bytes of a publish that the parser has begun (None: no
            such publish).
        is_held: Decides whether that publish must wait; if it must, all bytes are kept.

    Attributes:
        held_data: The bytes that wait, from the held publish on, or the beginning of a line.
        is_holding: Whether a publish is held.
        subject: The subject of the held publish.
    """

    def __init__(self, begun: tuple[bytes, int] | None, is_held: IsHeld) -> None:
        self.held_data = b""
        self.subject = b"" if begun is None else begun[0]
        self.is_holding = begun is not None and is_held(self.subject)
        self._passing = 0 if begun is None else begun[1]  # bytes of a payload still to come
        self._is_in_line = False  # the beginning of a line was passed on

    def split(self, data: bytes, is_held: IsHeld) -> bytes:
        """Return the bytes that may be parsed now; keep the rest."""
        data, self.held_data = self.held_data + data, b""
        end = 0 if self.is_holding else self._end(data, is_held)
        self.held_data = data[end:]
        return data[:end]

    @property
    def nbytes(self) -> int:
        """Number of bytes that wait, from the held publish on."""
        return len(self.held_data) if self.is_holding else 0

    def _end(self, data: bytes, is_held: IsHeld) -> int:
        """Return the end of the bytes to pass on: a held publish, or an incomplete line."""
        at, size = 0, self._passing
        while (at := at + size) < len(data):
            self._passing = 0
            eol = data.find(b"\n", at)
            if eol < 0:
                self._is_in_line = self._is_in_line or len(data) - at > _LINE_MAX
                return len(data) if self._is_in_line else at
            found = None if self._is_in_line else _publication(data[at:eol])
            if found is not None and is_held(found[0]):
                self.is_holding, self.subject = True, found[0]
                return at
            self._is_in_line = False
            size = eol + 1 - at + (0 if found is None else found[1] + 2)
        self._passing = at - len(data)
        return len(data)


def _publication(line: bytes) -> tuple[bytes, int] | None:
    """Return the subject and size of a PUB or HPUB; None for any other line."""
    args: list[bytes] = _ARGUMENTS.findall(line)
    counts = _COUNTS.get(args[0].upper(), ()) if args else ()
    if len(args) not in counts or not args[-1].isdigit() or len(args[-1]) > _SIZE_DIGITS:
        return None
    return args[1], int(args[-1])
