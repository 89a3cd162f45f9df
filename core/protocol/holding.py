"""What a client sends while its publishes cannot be taken yet.

Everything up to the first PUB or HPUB goes on to the parser; that one and all behind it are kept,
so that nothing is lost or overtaken.
"""

import re

_PUBLISH = re.compile(rb"^H?PUB[ \t]", re.IGNORECASE | re.MULTILINE)
# The end of a read that may be the beginning of one.
_BEGINNING = re.compile(rb"^(?:H|H?P|H?PU|H?PUB)\Z", re.IGNORECASE | re.MULTILINE)


class PublishHold:
    """Divides the bytes of one client at its first publish.

    Before it no payload was begun, so that every line is a control line.

    Attributes:
        kept: what waits, from the first publish on, or the beginning of what may be one.
        is_holding: whether there is a publish. From the beginning: everything is kept, as of a
            client that may be in the middle of one.
    """

    def __init__(self, *, is_holding: bool = False) -> None:
        self.kept = b""
        self.is_holding = is_holding
        self._is_in_line = False

    def take(self, data: bytes) -> bytes:
        """Return what may be parsed now of what was read; keep the rest."""
        data, self.kept = self.kept + data, b""
        if self.is_holding:
            self.kept = data
            return b""
        # What ends a line of which the beginning went on already is no beginning of a publish.
        start = data.find(b"\n") + 1 or len(data) if self._is_in_line else 0
        found = _PUBLISH.search(data, start)
        if found is None:
            found = _BEGINNING.search(data, start)
        else:
            self.is_holding = True
        end = len(data) if found is None else found.start()
        self.kept = data[end:]
        if end:
            self._is_in_line = data[end - 1 : end] != b"\n"
        return data[:end]
