"""The scanner of a configuration file: position, blanks, comments, keys and strings.

A NUL character ends the text, as in nats-server.
"""

import re

SEPARATORS = "=:"
SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_LINE_ENDS = "\r\n"
_END = "\0"
_HEX = re.compile(r"[0-9a-fA-F]{2}")
_END_OF_BLOCK = re.compile(r"\n\)(?=[\n\0]|\Z)")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_ENDS_BARE = " \t\r\n;,]}" + _END
_ENDS_PATH = " \t\r\n;}" + _END
_NO_PATH = {
    "[": "start of an array",
    "{": "start of a map",
    "(": "start of a block",
    "-": "start of a number",
    "\\": "escape sequence",
    "\r": "new line",
    "\n": "new line",
}


class GrammarError(Exception):
    """Raised for an invalid configuration file; the operator sees its text."""


class EndOfText(Exception):
    """Raised if the text ends directly after an opening quote, which nats-server accepts."""


class Scanner:
    """A configuration text with a current position, for a recursive-descent parser.

    `line` counts from 1. `column` counts bytes, as in nats-server, and is that of the last value.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line_start = 0
        self.line = 1
        self.column = 0

    # -- inspecting
    def peek(self) -> str:
        """Return the next character without consuming it; a NUL at the end of the text."""
        return self._text[self._at] if self._at < len(self._text) else _END

    def at_end(self) -> bool:
        """Return True if the whole text is consumed."""
        return self._at >= len(self._text)

    def at_comment(self) -> bool:
        """Return True if a comment (`#` or `//`) begins at the current position."""
        return self.peek() == "#" or self._text.startswith("//", self._at)

    def mark(self) -> int:
        """Return the current position as an offset, for `bare`, `number` and `since`."""
        return self._at

    def since(self, start: int) -> str:
        """Return the text from the offset `start` to the current position."""
        return self._text[start : self._at]

    def position(self) -> tuple[int, int]:
        """Return the current line, and the column: bytes since the last line end, counting it."""
        return self.line, self._column_of(self._at, self._begin_of_line())

    def error(self, text: str) -> GrammarError:
        """Return the error with `text` for the current line."""
        return GrammarError(f"Parse error on line {self.line}: '{text}'")

    # -- moving

    def advance(self) -> str:
        """Consume one character and return it; at the end of the text return a NUL each time."""
        found = self.peek()
        self._at += self._at < len(self._text)
        self.line += found == "\n"
        return found

    def skip(self, letters: str) -> None:
        """Consume characters as long as they are among `letters`."""
        while self.peek() in letters:
            self.advance()

    def skip_comment(self) -> None:
        """Consume the characters up to the end of the line, excluded."""
        while self.peek() not in _LINE_ENDS + _END:
            self._at += 1

    # -- keys

    def key(self, *, in_map: bool) -> str:
        """Parse a key without quotes, up to white space or a separator (`=`, `:`).

        The first character may be any. Raises GrammarError if the text ends within a map.
        """
        start = self._at
        self.advance()
        while self.peek() not in SPACES + SEPARATORS + _END:
            self._at += 1
        if in_map and self.peek() == _END:
            raise self.error("Unexpected EOF processing map key.")
        return self.since(start)

    def quoted_key(self, *, in_map: bool) -> str:
        """Parse a key in single or double quotes, without escapes.

        Raises GrammarError if the closing quote is missing, or EndOfText if the text ends directly
        after the opening quote outside a map.
        """
        quote = self.advance()
        kind = "double quoted" if quote == '"' else "quoted"
        return self._until(quote, f" processing {kind} map key." if in_map else "")

    def path(self) -> str:
        """Parse the path after `include`, with or without quotes.

        Raises GrammarError if it begins like another kind of value, or its closing quote is
        missing.
        """
        first = self.peek()
        if first in "\"'":
            self.advance()
            kind = "double quoted" if first == '"' else "quoted"
            return self._until(first, f" in {kind} include")
        if first in _NO_PATH or first.isdecimal():
            self.advance()
            found = _NO_PATH.get(first, "start of a number")
            raise self.error(f"Expected include value but found {found}")
        start = self._at
        while self.peek() not in _ENDS_PATH + "'":
            self._at += 1
        found = self.since(start)
        if self.peek() == "'":
            self.advance()
        return found

    def _until(self, quote: str, why: str) -> str:
        start = self._at
        while (letter := self.peek()) != quote:
            if letter == _END:
                if not why and self._at == start:
                    raise EndOfText
                raise self.error(f"Unexpected EOF{why or '.'}")
            self.advance()
        found = self.since(start)
        self.advance()
        return found

    # -- values

    def begin_value(self) -> None:
        """Record that a value begins on the current line, from whose start its column counts."""
        self._line_start = self._begin_of_line()

    def bare(self, start: int) -> tuple[str, bool]:
        """Parse the rest of a text without quotes that began at the offset `start`.

        An apostrophe ends it too. Returns the text, and True if it may be a boolean or a variable.
        Raises GrammarError for an invalid escape.
        """
        parts: list[str] = []
        while (letter := self.peek()) not in _ENDS_BARE and letter != "'":
            if letter == "\\":
                parts += (self.since(start), self._escape())
                start = self._at
            else:
                self._at += 1
        found = self._taken(parts, start)
        if letter == "'":
            self.advance()
        return found, not parts and letter != "'"

    def quoted(self) -> str:
        """Parse a string in quotes; only double quotes allow escapes.

        Raises GrammarError if the closing quote is missing or an escape is invalid, or EndOfText if
        the text ends directly after the opening quote.
        """
        quote = self.advance()
        start, parts = self._at, list[str]()
        while (letter := self.peek()) != quote:
            if letter == _END:
                if self._at == start and self.at_end():
                    raise EndOfText
                raise self.error("Unexpected EOF.")
            if letter == "\\" and quote == '"':
                parts += (self.since(start), self._escape())
                start = self._at
            else:
                self.advance()
        found = self._taken(parts, start)
        self.advance()
        return found

    def number(self, start: int) -> str:
        """Return the text from the offset `start`, where a number began, up to this position."""
        return self._taken([], start)

    def block(self) -> str:
        """Parse a text in parentheses; the closing one stands alone on its line.

        If the file ends with the closing parenthesis, the value includes it, as in nats-server.
        Raises GrammarError if the closing parenthesis is missing.
        """
        self.advance()
        end = self._text.find(_END, self._at)
        end = len(self._text) if end < 0 else end
        found = _END_OF_BLOCK.search(self._text, self._at)
        if found is None or found.start() > end:
            self.line += self._text.count("\n", self._at, end)
            raise self.error("Unexpected EOF processing block.")
        start = self._at
        self._at = found.end() - (found.end() < len(self._text))
        self.line += self.since(start).count("\n")
        taken = self._taken([], start)
        self._at = found.end()
        return taken

    def _taken(self, parts: list[str], start: int) -> str:
        raw = "".join((*parts, self.since(start))).encode(errors="surrogateescape")
        self.column = self._column_of(self._at, self._line_start) - len(raw)
        return raw.decode(errors="replace")

    def _begin_of_line(self) -> int:
        return max(self._text.rfind("\n", 0, self._at), 0)

    def _column_of(self, at: int, line_start: int) -> int:
        return len(self._text[line_start:at].encode(errors="surrogateescape"))

    def _escape(self) -> str:
        self.advance()
        letter = self.advance()
        if letter == "x":
            return self._byte()
        if letter not in _ESCAPES:
            raise self.error(
                f"Invalid escape character '{shown(letter)}'. Only the following escape characters"
                ' are allowed: \\xXX, \\t, \\n, \\r, \\", \\\\.'
            )
        return _ESCAPES[letter]

    def _byte(self) -> str:
        wrong = "Expected two hexadecimal digits after '\\x', but "
        for _ in range(2):
            if self.advance() in _LINE_ENDS:
                raise self.error(wrong + "hit end of line")
        found = self._text[self._at - 2 : self._at]
        if not _HEX.fullmatch(found):
            raise self.error(wrong + f"got '{found}'")
        # Bytes beyond ASCII form a character only together with others.
        return bytes([int(found, 16)]).decode(errors="surrogateescape")


def shown(letter: str) -> str:
    r"""Return a character as error messages show it: a line feed as `\n`."""
    return "\\n" if letter == "\n" else letter
