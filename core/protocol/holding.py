"""The parser of a client while what it publishes cannot be taken yet.

It reads everything up to the first PUB or HPUB and leaves the rest unread, so that nothing is lost
or overtaken: what comes after a publish waits with it.
"""

import re

from core.protocol.parser import Parser, ServerSink

_PUBLISH = re.compile(rb"^H?PUB[ \t]", re.IGNORECASE | re.MULTILINE)


class HoldingParser(Parser):
    """Parses what one client sends, up to its first publish.

    `is_holding` says that there is one; it is the beginning of `unread`.
    """

    __slots__ = ("is_holding",)

    def __init__(self, max_payload: int, max_control_line: int) -> None:
        super().__init__(max_payload, max_control_line)
        self.is_holding = False

    def feed(self, data: bytes, sink: ServerSink) -> None:
        """Read more bytes. Raises ProtocolError; the parser is not usable after that."""
        data, self._rest = self._rest + data, b""
        # No payload was begun, so that every line is a control line.
        found = _PUBLISH.search(data)
        end = found.start() if found is not None else len(data)
        if end:
            super().feed(data[:end], sink)
        if found is not None:
            self.is_holding = not self.unread  # else others first
            self.unread += data[end:]

    def released(self) -> Parser:
        """Return a parser that goes on where this one stands, and holds nothing."""
        parser = Parser(self.max_payload, self.max_control_line)
        parser.unread, parser._rest = self.unread, self._rest
        return parser
