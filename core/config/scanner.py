"""Characters of a configuration file: where we are, blanks and comments, strings."""

import re

_SPACES = " \t"
_ENDS_KEY = re.compile(r"[\s=:]|$")
_HEX = re.compile(r"[0-9a-fA-F]{2}")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_ENDS_BARE = " \t\r\n;,]}"


class GrammarError(Exception):
    """A configuration that cannot be read; the text is what the operator is told."""


class Scanner:
    """A place in a text. Lines count from 1; columns as the reference server counts them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.line = 1

    # -- looking

    def at_end(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._text)

    def peek(self) -> str:
        """The next character; a NUL at the end."""
        return self._text[self._at] if self._at < len(self._text) else "\0"

    def shown(self) -> str:
        """The next character as an error shows it."""
        return self.peek()

    def at_comment(self) -> bool:
        """Whether a comment begins here."""
        return self.peek() == "#" or self._text.startswith("//", self._at)

    def ends_value(self) -> bool:
        """Whether a value may end before the next character."""
        return self.at_end() or self.peek() in "\r\n;,}" or self.at_comment()

    def ends_text(self) -> bool:
        """Whether the text ends here, but for a comment on the same line."""
        return self.at_end() or (self.at_comment() and "\n" not in self._text[self._at :])

    def position(self) -> tuple[int, int]:
        """Line and column: characters since the last line end, that one included."""
        return self.line, self._at - max(self._text.rfind("\n", 0, self._at), 0)

    def error(self, text: str) -> GrammarError:
        """What is wrong here."""
        return GrammarError(f"Parse error on line {self.line}: '{text}'")

    # -- moving

    def advance(self) -> str:
        """Take one character."""
        found = self._text[self._at]
        self._at += 1
        self.line += found == "\n"
        return found

    def skip_spaces(self) -> None:
        """Skip what separates on one line."""
        while self.peek() in _SPACES:
            self._at += 1

    def skip_terminator(self) -> None:
        """Skip what may end a value besides the end of its line; twice it begins a key."""
        if self.peek() in ";,":
            self._at += 1

    def skip_line_end(self) -> None:
        """Go behind the next line end."""
        while not self.at_end() and self.advance() != "\n":
            pass

    def skip_blank(self, terminators: str) -> None:
        """Skip spaces, lines, comments, and the given terminators."""
        while not self.at_end():
            if self.at_comment():
                self.skip_line_end()
            elif self.peek() in " \t\r\n" or self.peek() in terminators:
                self.advance()
            else:
                return

    # -- taking

    def key(self) -> str:
        """A bare key."""
        found = _ENDS_KEY.search(self._text, self._at)
        end = len(self._text) if found is None else found.start()
        taken, self._at = self._text[self._at : end], end
        return taken

    def bare(self) -> str:
        """A bare string, as it stands."""
        return self.bare_with_escapes()[0]

    def bare_with_escapes(self) -> tuple[str, bool]:
        """A bare string, and whether it had escapes."""
        start, parts, escaped = self._at, [], False
        while not self.at_end() and self.peek() not in _ENDS_BARE:
            if self.peek() == "\\":
                parts.append(self._text[start : self._at])
                parts.append(self._escape())
                start, escaped = self._at, True
            else:
                self._at += 1
        parts.append(self._text[start : self._at])
        if self._at == start and not escaped:
            raise self.error(f"Unexpected value '{self.shown()}'")
        return "".join(parts), escaped

    def quoted(self, where: str = ".") -> str:
        """A string in quotes; single quotes know no escapes. `where` ends the text of an error."""
        quote = self.advance()
        parts = []
        while True:
            if self.at_end():
                kind = "double quoted" if quote == '"' else "quoted"
                raise self.error(f"Unexpected EOF{where.format(kind)}")
            if self.peek() == "\\" and quote == '"':
                parts.append(self._escape())
            elif (taken := self.advance()) == quote:
                return "".join(parts)
            else:
                parts.append(taken)

    def block(self) -> str:
        """A text in parentheses, the closing one alone at the start of its line."""
        self.advance()
        found = re.compile(r"\n\)(?=\n|$)").search(self._text, self._at)
        if found is None:
            self.line += self._text.count("\n", self._at)
            raise self.error("Unexpected EOF processing block.")
        taken = self._text[self._at : found.start() + 1]
        self.line += taken.count("\n")
        self._at = found.end()
        return taken

    def _escape(self) -> str:
        self._at += 1
        if self.at_end():
            raise self.error("Unexpected EOF.")
        letter = self.advance()
        if letter == "x":
            found = _HEX.match(self._text, self._at)
            if found is None:
                found_instead = self._two()
                raise self.error(f"Expected two hexadecimal digits after '\\x', {found_instead}")
            self._at = found.end()
            return chr(int(found[0], 16))
        if letter not in _ESCAPES:
            raise self.error(
                f"Invalid escape character '{letter}'. Only the following escape characters are"
                ' allowed: \\xXX, \\t, \\n, \\r, \\", \\\\.'
            )
        return _ESCAPES[letter]

    def _two(self) -> str:
        found = self._text[self._at : self._at + 2]
        self.line += "\n" in found
        return "but hit end of line" if "\n" in found else f"but got '{found}'"
