"""Splits a client's bytes before the first publish that must wait, for example for a new leader.

All bytes before that publish go to the parser. The publish and all later bytes of the connection
are kept until it may continue, so that no message is lost or overtaken.
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
    """Decides which publishes of clients must wait, such as those to a stream without a leader.

    It also counts the bytes that connections keep for waiting publishes. In this base class all
    publishes wait, without a limit; `core.api.held.HeldSubjects` decides by subject.
    """

    def __call__(self, subject: bytes) -> bool:
        """Return whether a publish to this subject must wait."""
        return True

    def count(self, subject: bytes, nbytes: int) -> None:
        """Add `nbytes` to the bytes kept for publishes to this subject.

        A negative number: released bytes.
        """

    def reset(self) -> None:
        """Set the number of kept bytes to 0."""

    def is_refused(self, subject: bytes) -> bool:
        """Return True if a publish to this subject must not wait: too many bytes are kept already.

        The publish is then processed at once.
        """
        return False


EVERYTHING = HoldRule()


class PublishHold:
    """The bytes of one client that are not parsed yet, since a publish among them must wait.

    Args:
        begun: Subject and missing payload bytes of a publish that the parser has begun (None: no
            such publish).
        is_held: Returns whether that publish must wait; if it must, all bytes are kept.

    Attributes:
        held_data: The kept bytes: the held publish and all bytes after it, or an incomplete line.
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
        """Return the bytes that may be parsed now: those before the first publish that must wait.

        All later bytes are kept in `held_data` and come before `data` in the next call.
        """
        data, self.held_data = self.held_data + data, b""
        end = 0 if self.is_holding else self._end(data, is_held)
        self.held_data = data[end:]
        return data[:end]

    @property
    def nbytes(self) -> int:
        """Number of kept bytes, from the held publish on; 0 if no publish is held."""
        return len(self.held_data) if self.is_holding else 0

    def _end(self, data: bytes, is_held: IsHeld) -> int:
        """Return the index in `data` before which all bytes may be parsed now.

        It is the start of the first publish that must wait, or of an incomplete line at the end.
        """
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
