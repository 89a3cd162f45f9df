"""What a client sends while some of its publishes cannot be taken yet.

Everything up to the first publish that has to wait goes on to the parser; that one and all behind
it are kept, so that nothing is lost or overtaken.
"""

import re
from collections.abc import Callable

IsHeld = Callable[[bytes], bool]
"""Says of the subject of a publish whether it has to wait."""

_ARGUMENTS = re.compile(rb"[^ \t\r\n]+")
_COUNTS = {b"PUB": (3, 4), b"HPUB": (4, 5)}
_LINE_MAX = 8192
"""A longer line goes on as it comes: the parser refuses it."""
_SIZE_DIGITS = 9


class Held:
    """Which publishes have to wait, and how much is kept of them: here all wait, without limit."""

    def __call__(self, subject: bytes) -> bool:
        """Say whether a publish on this subject has to wait."""
        return True

    def keep(self, subject: bytes, nbytes: int) -> None:
        """Count bytes that are kept since a publish on this subject waits; negative: no longer."""

    def forget(self) -> None:
        """Count anew: nothing is kept."""

    def is_refused(self, subject: bytes) -> bool:
        """Say whether too much is kept already of what a publish on this subject would wait for."""
        return False


EVERYTHING = Held()


class PublishHold:
    """Divides the bytes of one client at its first publish that has to wait.

    Args:
        begun: the subject of a publish whose payload the parser has begun, and how many bytes of it
            are still to come; None: it has begun none.
        is_held: whether that one has to wait; everything is kept then.

    Attributes:
        kept: what waits, from the held publish on, or the beginning of a line.
        is_holding: whether there is such a publish.
        subject: the subject of that one.
    """

    def __init__(self, begun: tuple[bytes, int] | None, is_held: IsHeld) -> None:
        self.kept = b""
        self.subject = b"" if begun is None else begun[0]
        self.is_holding = begun is not None and is_held(self.subject)
        self._passing = 0 if begun is None else begun[1]  # bytes of a payload still to come
        self._is_in_line = False  # the beginning of a line went on

    def take(self, data: bytes, is_held: IsHeld) -> bytes:
        """Return what may be parsed now of what was read; keep the rest."""
        data, self.kept = self.kept + data, b""
        end = 0 if self.is_holding else self._end(data, is_held)
        self.kept = data[end:]
        return data[:end]

    @property
    def nbytes(self) -> int:
        """Return how many bytes wait behind a held publish, its own included."""
        return len(self.kept) if self.is_holding else 0

    def _end(self, data: bytes, is_held: IsHeld) -> int:
        """Return how far the bytes go on: up to a held publish, or a line that has no end yet."""
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
