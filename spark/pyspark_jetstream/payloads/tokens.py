"""Tokenizer of JSON, by the rules of the JSON parser Jackson as Spark configures it (no I/O).

The grammar is RFC 8259 with two additions: strings in single quotes, and `NaN`, `Infinity` and
`INF` with a sign. Text after the first value is ignored. After an incomplete value the tokenizer
continues with the next token, as Jackson does.
"""

import re

from pyspark_jetstream.payloads.base64 import base64_bytes, goes_on

MAX_DEPTH = 1000
"""Jackson's limit of nested objects and arrays."""
MAX_DIGITS = 1000
"""Jackson's limit of the length of a number, in digits."""

MAX_NAME = 50_000
"""Jackson's limit of the length of a member's name, in UTF-16 units."""

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(0(?![0-9])|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ODD = re.compile(r"(NaN|[+-]?Infinity|[+-]INF)(?![A-Za-z0-9_$])")
_NO_WORD = re.compile(r"[^\W\d]([\w$]{,255})|\$([\w$]{,255})|[+-].", re.DOTALL)
_WORD = re.compile(r"(true|false|null)(?![A-Za-z0-9_$])")
_PLAIN = {quote: re.compile(rf"[^{quote}\\\x00-\x1f]*") for quote in "\"'"}
_WHOLE = {quote: re.compile(rf"([^{quote}\\\x00-\x1f]*){quote}") for quote in "\"'"}
_UNESCAPED = re.compile(r'([^"\\]*)"')
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\"}
_HEX = re.compile(r"[0-9a-fA-F]{0,4}")
_FLOATS = {"+INF": "Infinity", "-INF": "-Infinity", "+Infinity": "Infinity"}


class Malformed(ValueError):
    """The text is not valid JSON at the current position."""


class Tokens:
    """Tokenizer of one payload: `next` advances to the next token; attributes describe it.

    The kind of a token is `{`, `}`, `[`, `]`, `name`, `string`, `int`, `float`, `true`, `false` or
    `null`; None at the end.

    Args:
        text: The payload.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[str] = []
        self._names: list[str | None] = [None]
        self._is_first = True
        self._pending: str | None = None
        self._quote = ""
        self.kind: str | None = None
        self.raw = ""

    @property
    def name(self) -> str | None:
        """Name of the object member to which the current token belongs; None outside of objects."""
        return self._names[-2] if self.kind in ("{", "[") else self._names[-1]

    def next(self) -> str | None:
        """Advance to the next token and return its kind; None at the end.

        Raises Malformed if the text there is not valid JSON.
        """
        if self._quote:
            self.string()  # the caller has skipped the string
        if self.kind == "name":
            kind, self._pending = self._pending, None
            # After a name with a mistake, Jackson returns one token without a kind.
            self.kind = None if kind is None else self._begun(kind)
            return self.kind
        here = self._open[-1] if self._open else ""
        char = self._peek()
        if not here:
            self.kind = None if not char else self._begun(self._value(char))
            return self.kind
        end = "}" if here == "{" else "]"
        if char in ("}", "]") and char != end:
            raise self._unexpected(f"expected {end!r}")
        if char == end:
            self._at += 1
            self._open.pop()
            self._names.pop()
            self._is_first = False
            self.kind = char
            return char
        if not self._is_first:
            if char != ",":
                raise self._unexpected("expected a comma")
            self._at += 1
            char = self._peek()
        self._is_first = False
        if here == "[":
            self.kind = self._begun(self._value(char))
            return self.kind
        self._names[-1] = self._member(char)
        self.kind = "name"
        # Jackson parses the value's beginning with the name, so its mistakes surface at the name.
        if self._peek() != ":":
            raise self._unexpected("expected a colon")
        self._at += 1
        self._pending = self._value(self._peek())
        return self.kind

    def string(self) -> str:
        """Return the text of the current token, a string or name.

        Raises Malformed if the string has an invalid escape, a control character or no end.
        """
        quote, self._quote = self._quote, ""
        if not quote:
            return self.raw
        whole = _WHOLE[quote].match(self._text, self._at)
        if whole is not None:  # most strings have no escapes
            self._at = whole.end()
            self.raw = whole[1]
            return self.raw
        parts: list[str] = []
        while True:
            plain = _PLAIN[quote].match(self._text, self._at)
            assert plain is not None, "it matches the empty text"
            parts.append(plain[0])
            self._at = plain.end()
            char = self._text[self._at : self._at + 1]
            self._at += 1
            if char == quote:
                break
            if char != "\\":
                raise Malformed(f"no end of the string, or a control character, at {self._at}")
            parts.append(self._escaped())
        self.raw = _text_of("".join(parts))
        return self.raw

    def base64(self) -> bytes:
        """Return the bytes of the current token, a string with base64.

        Raises Malformed if it is not base64. The rest of the string then stays unread, because
        Jackson's base64 decoder stops at the same place.
        """
        if self._quote == '"':
            whole = _UNESCAPED.match(self._text, self._at)
            found = None if whole is None else base64_bytes(whole[1])
            if whole is None or found is None:
                return self._base64_by_character()
            self._at, self._quote = whole.end(), ""
            return found
        found = base64_bytes(self.string())  # Jackson has already read a string in single quotes
        if found is None:
            raise Malformed(f"no base64 before {self._at}")
        return found

    def _base64_by_character(self) -> bytes:
        groups: list[str] = []
        group = ""
        while True:
            char = self._text[self._at : self._at + 1]
            if not char:
                raise Malformed("the text ends within a value")
            self._at += 1
            if char == '"':
                if not group:
                    self._quote = ""
                    return b"".join(base64_bytes(one) or b"" for one in groups)
                # At this quote Jackson expects padding, unless the group already has some.
                self._at -= len(group) > 1 and "=" not in group
                raise Malformed(f"base64 without its padding at {self._at}")
            if char == "\\":
                char = self._escaped()
            if char <= " " and not group:
                continue
            if not goes_on(group, char):
                raise Malformed(f"no base64 at {self._at}")
            group += char
            if len(group) == 4:
                groups.append(group)
                group = ""

    def skip_children(self) -> None:
        """Skip to the end of the current object or array; do nothing for other tokens.

        Raises Malformed if the text is not valid JSON up to that end.
        """
        if self.kind not in ("{", "["):
            return
        depth = len(self._open)
        while len(self._open) >= depth:
            if self.next() is None:
                raise Malformed("a member has no value")

    def _peek(self) -> str:
        """Return the next non-blank character; "" at the end. Raises Malformed within a value."""
        char = self._text[self._at : self._at + 1]
        if char > " ":
            return char
        space = _SPACE.match(self._text, self._at)
        assert space is not None, "it matches the empty text"
        self._at = space.end()
        char = self._text[self._at : self._at + 1]
        if not char and self._open:
            raise Malformed("the text ends within a value")
        return char

    def _member(self, char: str) -> str:
        if char not in ('"', "'"):
            raise self._unexpected("expected the name of a member")
        self._at += 1
        self._quote = char
        name = self.string()
        if len(name) > MAX_NAME // 2 and len(name.encode("utf-16-le")) > 2 * MAX_NAME:
            raise Malformed(f"the name of a member is longer than {MAX_NAME} characters")
        return name

    def _value(self, char: str) -> str:
        """Read a value as far as Jackson does: of strings and brackets only the first character."""
        if char in ("{", "[", '"', "'") and char:
            self._at += 1
            return char
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            if sum(map(str.isdigit, number[0])) > MAX_DIGITS:
                raise Malformed("a number of too many digits")
            is_float = number[2] is not None or number[3] is not None
            return self._scalar(number, "float" if is_float else "int")
        if odd := _ODD.match(self._text, self._at):
            self._scalar(odd, "float")
            self.raw = _FLOATS.get(self.raw, self.raw)
            return "float"
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self._no_value()
        return self._scalar(word, word[0])

    def _scalar(self, match: re.Match[str], kind: str) -> str:
        self.raw = match[0]
        self._at = match.end()
        return kind

    def _begun(self, kind: str) -> str:
        if kind in ('"', "'"):
            self._quote = kind
            return "string"
        if kind in ("{", "["):
            if len(self._open) >= MAX_DEPTH:
                raise Malformed("nested too deeply")
            self._open.append(kind)
            self._names.append(None)
            self._is_first = True
        return kind

    def _unexpected(self, what: str) -> Malformed:
        """Return an error at the next character and step over it, because Jackson has read it."""
        error = Malformed(f"{what} at {self._at}")
        self._at += 1
        return error

    def _no_value(self) -> Malformed:
        """Return an error for a missing value; step over the word or sign that Jackson has read."""
        word = _NO_WORD.match(self._text, self._at)
        error = self._unexpected("no value")
        if word is not None:
            self._at = word.end()
        return error

    def _escaped(self) -> str:
        """Return the character of the escape after a backslash."""
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if char != "u":
            found = _ESCAPES.get(char) or (char if char in ('"', "'") and char else None)
            if found is None:
                raise Malformed(f"no escape at {self._at}")
            return found
        digits = _HEX.match(self._text, self._at)
        assert digits is not None, "it matches the empty text"
        self._at = digits.end()
        if len(digits[0]) < 4:
            self._at += 1  # Jackson has read the character that is no digit, and continues after it
            raise Malformed(f"no four hexadecimal digits at {self._at}")
        return chr(int(digits[0], 16))


def _text_of(text: str) -> str:
    """Combine surrogate pairs into characters; a lone surrogate becomes `?`, as in Spark."""
    if _SURROGATE.search(text) is None:
        return text
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return paired.replace("\ufffd", "?") if "\ufffd" not in text else paired
