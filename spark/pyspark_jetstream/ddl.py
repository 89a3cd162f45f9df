"""Parser and check of the option `jsonSchema`, the DDL type of JSON payloads (no I/O).

The grammar is that of Spark's `StructType.fromDDL`: `name type, ...` or one of `struct<...>`,
`array<...>` and `map<string, ...>`, with the types that `from_json` supports. The check runs before
Spark parses the type.
"""

import re
from dataclasses import dataclass

from pyspark_jetstream.values import InvalidOption

EXPECTED = (
    "fields such as 'id bigint, `a-b` array<string>', or one struct<...>, array<...> or "
    "map<string, ...>"
)

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|(\w+)|('(?:[^'\\]|\\.)*')|(\S))", re.DOTALL)
_SCALARS = {
    **dict.fromkeys(("boolean", "string", "binary", "date", "void")),
    **dict.fromkeys(("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long")),
    **dict.fromkeys(("float", "real", "double", "timestamp", "timestamp_ltz", "timestamp_ntz")),
}
_DECIMAL = ("decimal", "dec", "numeric")
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_NESTED = ("struct", "array", "map")
_MOST_DIGITS = 38
_MOST_LEVELS = 100


class _Reader:
    """Parser of one DDL type, from left to right. Raises InvalidOption if the type is invalid."""

    def __init__(self, option: str, text: str) -> None:
        self._option, self._text = option, text
        self._words = [match[0].strip() for match in _TOKEN.finditer(text)]
        self._at = 0
        self._depth = 0
        self._levels = 0
        self.texts: set[str] = set()

    def whole(self) -> str:
        """Parse the whole text and return the type as DDL."""
        if not self._words:
            raise self._wrong("is empty")
        if self._lower() in _NESTED and self._next(1) == "<":
            found = self._type()
        elif self._is_known(self._lower()) and self._next(1) in ("", "("):
            raise self._wrong(f"is the type {self._text!r} alone, expected the fields of an object")
        else:
            found = f"struct<{self._fields(end='')}>"
        if self._at < len(self._words):
            raise self._wrong(f"has {self._words[self._at]!r} where it should end")
        return found

    def _fields(self, end: str) -> str:
        self._depth += 1
        fields: list[str] = []
        seen: set[str] = set()
        while True:
            name = self._name()
            if name in seen:
                raise self._wrong(f"has the field {name} twice")
            seen.add(name)
            if self._next() == ":":
                self._at += 1
            kind = self._type(name)
            self._skip_rest()
            fields.append(f"{name} {kind}")
            if kind == "string" and self._depth <= 1:
                self.texts.add(name.strip("`").replace("``", "`"))
            if self._next() != ",":
                break
            self._at += 1
        self._depth -= 1
        if end and self._next() != end:
            raise self._wrong(f"lacks {end!r} behind the field {name}")
        return ", ".join(fields)

    def _skip_rest(self) -> None:
        """Skip `NOT NULL` and `COMMENT`, which have no meaning for payloads."""
        if self._lower() == "not" and self._next(1).lower() == "null":
            self._at += 2
        if self._lower() == "comment" and self._next(1).startswith("'"):
            self._at += 2

    def _name(self) -> str:
        word = self._next()
        if not word:
            raise self._wrong("ends early")
        if not (word.startswith("`") and len(word) > 2) and not re.fullmatch(_NAME, word):
            raise self._wrong(
                f"has {word!r} for a field's name, which takes backticks, if it is one"
            )
        self._at += 1
        return word

    def _type(self, field: str = "") -> str:
        of = f" of field {field}" if field else ""
        name = self._lower()
        if not name or name in ",>":
            raise self._wrong(f"lacks the type{of}")
        if self._levels > _MOST_LEVELS:
            raise self._wrong(f"has types nested more deeply than {_MOST_LEVELS} of them")
        if not self._is_known(name):
            raise self._wrong(f"has {self._next()!r} as the type{of}, which JSON has not")
        self._at += 1
        if name in _NESTED:
            self._levels += 1
            found = self._nested(name, of)
            self._levels -= 1
            return found
        return name + (self._size(name) if name in _DECIMAL else "")

    def _nested(self, name: str, of: str) -> str:
        if self._next() != "<":
            raise self._wrong(f"lacks '<' behind {name}, the type{of}")
        self._at += 1
        if name == "struct":
            inner = "" if self._next() == ">" else self._fields(">")
        elif name == "array":
            inner = self._inner()
        else:
            if self._type() != "string":
                raise self._wrong(f"has a map{of} whose keys are not string, as those of JSON are")
            if self._next() != ",":
                raise self._wrong(f"lacks the type of the values of the map{of}")
            self._at += 1
            inner = f"string, {self._inner()}"
        if self._next() != ">":
            raise self._wrong(f"lacks '>' behind {name}, the type{of}")
        self._at += 1
        return f"{name}<{inner}>"

    def _inner(self) -> str:
        """Return the type of array elements or map values."""
        self._depth += 1
        found = self._type()
        self._depth -= 1
        return found

    def _size(self, name: str) -> str:
        if self._next() != "(":
            return ""
        end = self._words.index(")", self._at) if ")" in self._words[self._at :] else -1
        numbers = [word for word in self._words[self._at + 1 : end] if word != ","]
        if (
            end < 0
            or not 1 <= len(numbers) <= 2
            or not all(re.fullmatch("[0-9]+", n) for n in numbers)
        ):
            raise self._wrong(f"has {name} without its digits, such as {name}(10, 2)")
        digits, scale = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0
        if not 1 <= digits <= _MOST_DIGITS or scale > digits:
            raise self._wrong(f"has {name} of {digits} digits, {scale} behind the point")
        self._at = end + 1
        return f"({', '.join(numbers)})"

    def _is_known(self, name: str) -> bool:
        return name in _SCALARS or name in _DECIMAL or name in _NESTED

    def _next(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._words[place] if place < len(self._words) else ""

    def _lower(self) -> str:
        return self._next().lower()

    def _wrong(self, what: str) -> InvalidOption:
        what = re.sub(r"\S{60,}", lambda long: f"{long[0][:50]}...", what)
        return InvalidOption(self._option, self._text, f"{EXPECTED}: it {what}")


@dataclass(frozen=True, slots=True)
class JsonType:
    """The type of the column `data`, parsed from the option `jsonSchema`.

    Attributes:
        ddl: The type in Spark's DDL.
        texts: Names of its top-level string fields; empty unless it is a struct.
    """

    ddl: str
    texts: frozenset[str]


def json_type(option: str, text: str) -> JsonType:
    """Parse `text`, the type of the column `data`.

    Raises InvalidOption for the option `option` if `text` is not a valid type of JSON values.
    """
    reader = _Reader(option, text)
    return JsonType(reader.whole(), frozenset(reader.texts))
